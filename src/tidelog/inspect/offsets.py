"""``offsets``: which offset a time has in each partition, and how far groups lag behind.

Reads only; partitions in parallel. Called by: command line, Python.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tidelog.inspect.bounds import USUAL_LIMITS, Bound, ReadLimits, look_up
from tidelog.model import TidelogError, TopicPartition
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem, usable_processors
from tidelog.storage.log.view.directory_state import read_directory_state
from tidelog.storage.log.view.log_view import LogView, Until
from tidelog.storage.log.view.partitions import live_partitions


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
    fs = ReadOnlyFileSystem(fs)
    state = read_directory_state(fs, path)
    wanted = None if only is None else frozenset(only)
    partitions = [part for part in live_partitions(fs, path) if wanted is None or part in wanted]
    far = limits or USUAL_LIMITS

    def find(partition: TopicPartition) -> list[OffsetAtTime]:
        view = LogView(fs, path / partition.directory_name, directory_state=state)
        return [_offset_at(view, partition, bound, far) for bound in times]

    with ThreadPoolExecutor(threads or usable_processors(), thread_name_prefix="offsets") as pool:
        return [row for rows in pool.map(find, partitions) for row in rows]


def log_ends(
    fs: FileSystem, path: Path, partitions: Iterable[TopicPartition], *, threads: int | None = None
) -> Mapping[TopicPartition, LogEnds]:
    """Of those partitions that lie in the log directory and can be opened."""
    fs = ReadOnlyFileSystem(fs)
    state = read_directory_state(fs, path)
    wanted = frozenset(partitions)
    here = [part for part in live_partitions(fs, path) if part in wanted]

    def ends(partition: TopicPartition) -> LogEnds | None:
        view = LogView(fs, path / partition.directory_name, directory_state=state)
        try:
            stable = view.last_stable_offset(Until.LOG_END)
            return LogEnds(log_start=view.log_start, last_stable=stable, log_end=view.log_end)
        except TidelogError:
            return None  # its own look-up says why

    with ThreadPoolExecutor(threads or usable_processors(), thread_name_prefix="offsets") as pool:
        found = list(pool.map(ends, here))
    return {partition: end for partition, end in zip(here, found, strict=True) if end is not None}


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
