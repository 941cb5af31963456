"""A whole partition as a task's input, for the tables of indexes, producers, transactions and groups.

The rows of these tables need the whole partition, which is not opened before its task runs. The names and sizes of its
files give an estimate of the bytes to read, so that small partitions share a task.

The object is pickled for the workers, with the log directory's checkpoints of this partition only. Thread rule: any
thread, since it is immutable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from tidelog.model import TopicPartition
from tidelog.spark.read.table_columns import Mode
from tidelog.storage.fs import BY_PATH, FileSystem
from tidelog.storage.log.load.listing import PartitionListing, list_with_sizes
from tidelog.storage.log.view.directory_state import DirectoryState
from tidelog.storage.segment.file_names import FileKind

if TYPE_CHECKING:
    from tidelog.storage.log.view.log_view import LogView

PARTITION_BYTES = 64 * 1024
"""The size that opening a partition counts for when tasks are grouped."""
INDEX_KINDS = (FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholePartition:
    partition: TopicPartition
    directory: Path
    state: DirectoryState
    """The log directory's state, with this partition's offsets only."""
    now_ms: int
    """The time of the read's planning. All its tasks judge as of that time."""
    size_bytes: int
    """An estimate of the bytes to read."""

    @classmethod
    def plan(
        cls, partition: TopicPartition, directory: Path, state: DirectoryState, *, mode: Mode, now_ms: int
    ) -> Self:
        """Plan the partition's read. Raise FileMissingError if the partition is gone."""
        size = PARTITION_BYTES + _bytes_to_read(list_with_sizes(BY_PATH, directory), mode)
        own = state_of(state, partition)
        return cls(partition=partition, directory=directory, state=own, now_ms=now_ms, size_bytes=size)

    @property
    def fs(self) -> FileSystem:
        return BY_PATH

    @property
    def log_dir(self) -> str:
        return str(self.directory.parent)

    def view(self) -> LogView:
        from tidelog.storage.log.view.log_view import LogView  # not needed for pieces, and large

        return LogView(self.fs, self.directory, directory_state=self.state)


def _bytes_to_read(listing: PartitionListing, mode: Mode) -> int:
    segments = listing.segments
    if mode is Mode.INDEX:
        # The last segment's indexes may be preallocated. Only their written part is read, so they do not count.
        return sum(max(0, files.sizes.get(kind, 0)) for files in segments[:-1] for kind in INDEX_KINDS)
    if mode is not Mode.GROUPS and listing.snapshots:
        segments = tuple(files for files in segments if files.base_offset >= listing.snapshots[-1])
    return sum(max(0, files.sizes[FileKind.LOG]) for files in segments)


def state_of(state: DirectoryState, partition: TopicPartition) -> DirectoryState:
    """Return a log directory's state reduced to one partition, so that it is cheap to send."""

    def of(offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {partition: offsets[partition]} if partition in offsets else {}

    return replace(
        state,
        recovery_points=of(state.recovery_points),
        log_start_offsets=of(state.log_start_offsets),
        high_watermarks=of(state.high_watermarks),
        warnings=(),
        checkpoints={},
    )
