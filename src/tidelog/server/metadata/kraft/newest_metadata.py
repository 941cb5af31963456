"""The newest cluster metadata in several brokers' log directories, and the placement of partitions by it.

Every broker has a copy of the metadata log, and a copy may lag; ``inspect.metadata_copies`` tells which is the newest.
Reads only. Thread rule: any thread.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.inspect.compare import Placement
from tidelog.inspect.metadata_copies import newest_first, survey_metadata_copy
from tidelog.model import TidelogError, TopicPartition
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.metadata_view import MetadataView, read_metadata
from tidelog.server.metadata.partition_state import LOST, MIGRATING, UNASSIGNED, PartitionState
from tidelog.storage.fs import BY_PATH

_NO_DIRECTORIES = frozenset({LOST, MIGRATING, UNASSIGNED})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestMetadata:
    """The newest metadata, or None if no directory has any. ``warnings`` name the copies that cannot be read."""

    view: MetadataView | None = None
    source: str = ""
    """The name of the source if it is not a log directory."""
    warnings: tuple[str, ...] = ()
    placements: dict[TopicPartition, Placement] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """A sentence about the source of leaders and in-sync replicas."""
        if self.source:
            return f"Leaders and in-sync replicas are those of {self.source}."
        if self.view is None:
            return (
                "No directory has cluster metadata, so leaders and in-sync replicas are not known. The replica with the"
                " newest epoch and the highest log end counts as the leader's."
            )
        return (
            f"Leaders and in-sync replicas are those of the newest metadata: {self.view.directory}, up to offset"
            f" {self.view.end_offset:,} of epoch {self.view.epoch}."
        )


def read_newest_metadata(paths: Iterable[Path]) -> NewestMetadata:
    """Read the newest of the log directories' copies that can be read. Never raise a TidelogError."""
    copies = [copy for path in paths if (copy := survey_metadata_copy(BY_PATH, path)) is not None]
    warnings = [_warning(copy.log_directory, copy.error) for copy in copies if copy.error is not None]
    for copy in newest_first(copy for copy in copies if copy.error is None):
        try:
            view = read_metadata(BY_PATH, copy.log_directory)
        except TidelogError as error:
            warnings.append(_warning(copy.log_directory, error))
            continue
        if view is not None and not view.is_empty:
            return NewestMetadata(view=view, warnings=tuple(warnings), placements=placements_of(view.image))
    return NewestMetadata(warnings=tuple(warnings))


def _warning(path: Path, error: TidelogError) -> str:
    return f"Warning: the metadata in {path} cannot be read: {error}."


def metadata_of(image: MetadataImage, source: str) -> NewestMetadata:
    """Return the metadata of an image that is in no log directory, such as ZooKeeper's."""
    return NewestMetadata(source=source, placements=placements_of(image))


def placements_of(image: MetadataImage) -> dict[TopicPartition, Placement]:
    default = image.settings_of(ResourceType.BROKER, "").get("log.cleanup.policy", "")
    found = {}
    for topic, number, state in image.partitions():
        policy = image.settings_of(ResourceType.TOPIC, topic.name).get("cleanup.policy", default)
        found[TopicPartition(topic.name, number)] = Placement(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            replicas=state.replicas,
            isr=state.isr,
            elr=state.elr,
            topic_id=topic.id,
            directories=_directories(state),
            is_compacted="compact" in policy,
        )
    return found


def _directories(state: PartitionState) -> dict[int, uuid.UUID]:
    pairs = zip(state.replicas, state.directories, strict=True)
    return {broker_id: directory for broker_id, directory in pairs if directory not in _NO_DIRECTORIES}
