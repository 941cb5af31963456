"""The state of a mirror's directory before a run: new, a copy, or something else. The survey only reads.

==========================================  ==========================================================================
the directory                               result
==========================================  ==========================================================================
is missing, or empty                        a new copy
has ``mirror.properties``                   a copy, with the topics of its metadata and the ends of its logs
is a copy that a broker has served          DirectoryError: its logs may have records that the source has not
has anything else                           DirectoryError: it is not a copy
==========================================  ==========================================================================

A broker registers in the metadata when it starts, which a mirror never does. So a registered broker shows that the copy
was served.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tidelog.mirroring.target.mirror_properties import MIRROR_PROPERTIES_FILE, MirrorProperties
from tidelog.model import DirectoryError, TidelogError, TopicPartition
from tidelog.server.metadata.kraft.metadata_view import read_metadata
from tidelog.storage.checkpoint import META_PROPERTIES_FILE
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import live_partitions

_OF_THE_DISK: Final = frozenset({LOCK_FILE, "lost+found"})
"""Names that an empty directory may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySurvey:
    is_new: bool
    source_cluster_id: str | None = None
    holder: int | None = None
    """The process that holds the directory."""
    topic_ids: Mapping[str, uuid.UUID] = field(default_factory=dict)
    log_ends: Mapping[TopicPartition, int] = field(default_factory=dict)


def survey_directory(fs: FileSystem, path: Path) -> DirectorySurvey:
    """Read the directory, and judge it by the module's table.

    Raise DirectoryError by the table, and CheckpointError or CorruptRecordError for damaged metadata.
    """
    fs = ReadOnlyFileSystem(fs)
    if not fs.exists(path):
        return DirectorySurvey(is_new=True)
    properties = MirrorProperties.read(fs, path / MIRROR_PROPERTIES_FILE)
    if properties is None:
        names = [name for name in fs.list_names(path) if name not in _OF_THE_DISK and not name.endswith(".tmp")]
        if names:
            raise DirectoryError(
                f"the directory is not empty ({min(names)}) and not a copy of a mirror ({MIRROR_PROPERTIES_FILE} is"
                " missing): name a new directory",
                path=path,
            )
        return DirectorySurvey(is_new=True)
    cluster_id = properties.source_cluster_id
    view = read_metadata(fs, path) if fs.exists(path / META_PROPERTIES_FILE) else None
    if view is None:
        return DirectorySurvey(is_new=True, source_cluster_id=cluster_id)
    if view.image.brokers:
        raise DirectoryError(
            f"broker {min(view.image.brokers)} has served this copy, so its logs may have records that the source has"
            " not, and the mirror does not go on. Start a new copy in another directory. To look at a copy with a"
            " broker, serve a snapshot of it",
            path=path,
        )
    return DirectorySurvey(
        is_new=False,
        source_cluster_id=cluster_id,
        holder=fs.lock_holder(path / LOCK_FILE),
        topic_ids={topic.name: topic.id for topic in view.image.topics.values()},
        log_ends=_log_ends(fs, path),
    )


def _log_ends(fs: FileSystem, path: Path) -> dict[TopicPartition, int]:
    state = read_directory_state(fs, path)
    ends = {}
    for partition in live_partitions(fs, path):
        try:
            ends[partition] = LogView(fs, path / partition.directory_name, directory_state=state).log_end
        except TidelogError:
            continue  # opening the copy names the damage
    return ends
