"""``offsets``: which offset a time has in each partition, and how far groups lag behind.

Reads only; partitions in parallel. Called by: command line, Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.inspect.bounds import USUAL_LIMITS, Bound, ReadLimits, look_up
from tidelog.model import TidelogError, TopicPartition
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.each_partition import Advance, each_partition
from tidelog.storage.log.view.log_view import LogView, Until


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAtTime:
    """``offset`` is None where no record is as late; ``timestamp`` (ms) where the offset is a certain record's."""

    partition: TopicPartition
    directory: Path
    asked: Bound
    offset: int | None = None
    timestamp: int | None = None
    error: TidelogError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """Where a partition's log begins and ends; committed offsets are held against it."""

    log_start: int
    last_stable: int
    log_end: int

    def lag(self, committed: int) -> int:
        """Records and markers between a committed offset and the log end; what was deleted before it counts not."""
        return max(0, self.log_end - max(committed, self.log_start))

    def stable_lag(self, committed: int) -> int:
        """The same up to the last stable offset, which is as far as a read_committed consumer gets."""
        return max(0, self.last_stable - max(committed, self.log_start))


def offsets_at_times(
    fs: FileSystem,
    path: Path,
    times: Sequence[Bound],
    *,
    only: Iterable[TopicPartition] | None = None,
    limits: ReadLimits | None = None,
    threads: int | None = None,
) -> list[OffsetAtTime]:
    """One answer for each partition and time, in that order. DirectoryError where the directory cannot be listed."""
    far = limits or USUAL_LIMITS

    def find(view: LogView, partition: TopicPartition, _tell: Advance) -> list[OffsetAtTime]:
        return [_offset_at(view, partition, bound, far) for bound in times]

    return [row for rows in each_partition(fs, path, find, only=only, threads=threads) for row in rows]


def log_ends(
    fs: FileSystem, path: Path, partitions: Iterable[TopicPartition], *, threads: int | None = None
) -> Mapping[TopicPartition, LogEnds]:
    """Of those partitions that lie in the log directory and can be opened."""

    def ends(view: LogView, partition: TopicPartition, _tell: Advance) -> tuple[TopicPartition, LogEnds] | None:
        try:
            stable = view.last_stable_offset(Until.LOG_END)
            return partition, LogEnds(log_start=view.log_start, last_stable=stable, log_end=view.log_end)
        except TidelogError:
            return None  # its own look-up says why

    found = each_partition(fs, path, ends, only=partitions, threads=threads)
    return dict(one for one in found if one is not None)


def _offset_at(view: LogView, partition: TopicPartition, bound: Bound, limits: ReadLimits) -> OffsetAtTime:
    try:
        found = look_up(view, bound, limits)
    except TidelogError as error:
        return OffsetAtTime(partition=partition, directory=view.directory, asked=bound, error=error)
    return OffsetAtTime(
        partition=partition,
        directory=view.directory,
        asked=bound,
        offset=None if found is None else found.offset,
        timestamp=None if found is None or found.timestamp < 0 else found.timestamp,
    )
