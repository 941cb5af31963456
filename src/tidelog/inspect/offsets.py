"""The ``offsets`` report: the offset of a time in each partition, and the lag of groups.

The module only reads, several partitions in parallel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.inspect.bounds import USUAL_LIMITS, Bound, ReadLimits, look_up
from tidelog.model import TidelogError, TopicPartition
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.partitions import each_partition


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetAtTime:
    """``offset`` is None if no record is as late. ``timestamp`` (ms) is None if no record has the offset's time."""

    partition: TopicPartition
    directory: Path
    asked: Bound
    offset: int | None = None
    timestamp: int | None = None
    error: TidelogError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnds:
    """The start and the ends of a partition's log, from which a group's lag is computed."""

    log_start: int
    last_stable: int
    log_end: int

    def lag(self, committed: int) -> int:
        """Return the number of offsets from the committed offset to the log end. Offsets below the log start do not
        count."""
        return max(0, self.log_end - max(committed, self.log_start))

    def stable_lag(self, committed: int) -> int:
        """Return the lag up to the last stable offset, where a read_committed consumer stops."""
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
    """Return one result per partition and time, in that order. Raise DirectoryError if the listing fails."""
    far = limits or USUAL_LIMITS

    def find(view: LogView, partition: TopicPartition, _tell: Advance) -> list[OffsetAtTime]:
        return [_offset_at(view, partition, bound, far) for bound in times]

    return [row for rows in each_partition(fs, path, find, only=only, threads=threads) for row in rows]


def log_ends(
    fs: FileSystem,
    path: Path,
    partitions: Iterable[TopicPartition],
    *,
    threads: int | None = None,
    advance: Advance = lambda _bytes: None,
) -> Mapping[TopicPartition, LogEnds]:
    """Return the log ends of the given partitions that lie in the log directory and can be opened. ``advance`` is
    called for each partition, and counts no bytes."""

    def ends(view: LogView, partition: TopicPartition, tell: Advance) -> tuple[TopicPartition, LogEnds] | None:
        tell(0)
        try:
            stable = view.last_stable_offset(Until.LOG_END)
            return partition, LogEnds(log_start=view.log_start, last_stable=stable, log_end=view.log_end)
        except TidelogError:
            return None  # the partition's own lookup reports the error

    found = each_partition(fs, path, ends, only=partitions, threads=threads, advance=advance)
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
