"""The topics in log directories: their ids, and the last leader epochs of their partitions. Nothing is written."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import DirectoryError
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from tidelog.storage.fs import FileSystem


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPartition:
    directory: Path
    """The log directory of the partition."""
    leader_epoch: int
    partition_epoch: int = 0
    is_recovering: bool = False
    """True if the last leader was elected uncleanly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTopic:
    """A topic in the directories. It gets an id if ``topic_id`` is None."""

    name: str
    topic_id: uuid.UUID | None
    partitions: Mapping[int, FoundPartition]
    settings: Mapping[str, str]
    without_id: Sequence[Path]
    """The partition directories without a topic id."""


def find_topic(fs: FileSystem, name: str, places: Mapping[int, Path], settings: Mapping[str, str]) -> FoundTopic:
    """Return the topic in the log directories ``places`` by partition number. Raise DirectoryError if it has two ids,
    and CheckpointError for a damaged file."""
    directories = {number: path / f"{name}-{number}" for number, path in sorted(places.items())}
    ids = {number: PartitionMetadata.read(fs, path / PARTITION_METADATA_FILE) for number, path in directories.items()}
    known = {found.topic_id: directories[number] for number, found in ids.items() if found is not None}
    if len(known) > 1:
        one, other, *_ = known.values()
        raise DirectoryError(
            f"{one.name} and {other.name} have different topic ids: one of them belongs to a deleted topic"
            " of that name. Move that directory away",
            path=other,
        )
    return FoundTopic(
        name=name,
        topic_id=next(iter(known), None),
        partitions={
            number: FoundPartition(directory=places[number], leader_epoch=_leader_epoch(fs, directory))
            for number, directory in directories.items()
        },
        settings=settings,
        without_id=[directories[number] for number, found in ids.items() if found is None],
    )


def _leader_epoch(fs: FileSystem, directory: Path) -> int:
    entries = LeaderEpochCheckpoint.read(fs, directory / LEADER_EPOCH_CHECKPOINT)
    return entries[-1].epoch if entries else 0
