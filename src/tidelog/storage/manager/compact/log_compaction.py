"""The compaction of one log of a clean directory held by the caller: load, clean, close.

A log is cleaned in rounds until nothing below the end of the clean is dirty. A round covers as many keys as the offset
map holds. It writes new segments and swaps them all in at once. The replaced segments are removed after the caller has
recorded the progress. Nothing is appended, so the log's other files do not change.

A crash leaves the log unchanged, or as a round left it. Thread rule: one caller per log. Source: Kafka's
``LogCleaner``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from tidelog.kernel import OffsetMap
from tidelog.model import LogCleaningAbortedError, StorageError, TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.cleaner.clean.clean_log import clean_log
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings, enough_map_bytes
from tidelog.storage.cleaner.plan.log_plan import LogPlan
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.view.directory_state import DirectoryState
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook
from tidelog.storage.manager.survey.log_survey import HighWatermarkFrom


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToCompact:
    """``log_start_offset`` and ``recovery_point`` are the checkpoints' values."""

    directory: Path
    config: LogConfig
    plan: LogPlan
    work_bytes: int
    """The total for the progress."""
    recovery_point: int
    log_start_offset: int
    high_watermark: int
    is_sole_replica: bool

    @classmethod
    def of(cls, path: Path, outlook: CompactionOutlook, state: DirectoryState) -> Self:
        """Build the request for a log in the log directory ``path``. ``outlook`` must have a plan."""
        assert outlook.plan is not None
        return cls(
            directory=path / outlook.name,
            config=outlook.settings.config,
            plan=outlook.plan,
            work_bytes=outlook.work_bytes,
            recovery_point=state.recovery_points.get(outlook.partition, 0),
            log_start_offset=state.log_start_offsets.get(outlook.partition, 0),
            high_watermark=outlook.high_watermark,
            is_sole_replica=outlook.high_watermark_from is not HighWatermarkFrom.CHECKPOINT,
        )

    def open(self, fs: FileSystem, clock: Clock) -> PartitionLog:
        return PartitionLog.open(
            OpenRequest(
                fs=fs,
                directory=self.directory,
                clock=clock,
                config=replace(self.config, file_delete_delay_ms=0),  # no other reader needs the old files
                clean_shutdown=True,
                recovery_point=self.recovery_point,
                log_start_offset=self.log_start_offset,
                high_watermark=self.high_watermark,
                is_sole_replica=self.is_sole_replica,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedLog:
    """The result for one log. Sizes are the bytes of ``.log`` files."""

    partition: TopicPartition
    first_dirty_offset: int
    """The offset at which the next clean begins."""
    rounds: int
    segments_before: int
    segments: int
    bytes_before: int
    bytes: int
    tasks: int = 1
    """The number of workers that wrote the log."""

    @property
    def name(self) -> str:
        return self.partition.directory_name


def compact_log(
    fs: FileSystem,
    work: LogToCompact,
    *,
    cleaner: CleanerSettings,
    clock: Clock,
    on_round: Callable[[int], None] = lambda _offset: None,
    check_done: Callable[[], None] = lambda: None,
    tell: Callable[[int], None] = lambda _bytes: None,
) -> CompactedLog:
    """Compact a log. ``on_round`` receives the start of the next clean, ``tell`` the bytes of progress.

    Errors of ``clean_log`` and exceptions of ``check_done`` leave the log as the last round left it.
    """
    log = work.open(fs, clock)
    try:
        segments_before, bytes_before = len(log.segments), log.size
        rounds = _Rounds(log, work, cleaner, clock, check_done, tell)
        first_dirty = work.plan.first_dirty_offset
        while first_dirty < work.plan.end_offset:
            first_dirty = rounds.clean_from(first_dirty)
            on_round(first_dirty)
            log.remove_deleted()
        rounds.tell(work.work_bytes)
        return CompactedLog(
            partition=work.plan.partition,
            first_dirty_offset=first_dirty,
            rounds=rounds.done,
            segments_before=segments_before,
            segments=len(log.segments),
            bytes_before=bytes_before,
            bytes=log.size,
        )
    finally:
        log.close_handlers()


class _Rounds:
    def __init__(
        self,
        log: PartitionLog,
        work: LogToCompact,
        cleaner: CleanerSettings,
        clock: Clock,
        check_done: Callable[[], None],
        tell: Callable[[int], None],
    ) -> None:
        self.done = 0
        self._log = log
        self._work = work
        self._map = _new_map(cleaner, work.plan)
        self._clock = clock
        self._check_done = check_done
        self._tell = tell
        self._left = work.work_bytes

    def tell(self, count: int) -> None:
        """Report progress, at most the bytes that remain."""
        count = min(count, self._left)
        self._left -= count
        self._tell(count)

    def clean_from(self, first_dirty: int) -> int:
        """Run one round and return the start of the next. Segments with overflowing offsets are split on the way."""
        end = self._work.plan.end_offset
        while True:
            segments = len(self._log.segments)
            try:
                result = clean_log(
                    self._log,
                    first_dirty=first_dirty,
                    first_uncleanable=end,
                    offset_map=self._map,
                    clock=self._clock,
                    check_done=self._check_done,
                    throttle=self.tell,
                    at_once=True,
                )
            except LogCleaningAbortedError:
                if len(self._log.segments) <= segments:
                    raise
                continue
            if result.next_dirty_offset <= first_dirty:
                raise StorageError(
                    "the buffer for keys is too small for the next batch: raise log.cleaner.dedupe.buffer.size",
                    path=self._log.directory,
                    offset=first_dirty,
                )
            self.done += 1
            return result.next_dirty_offset


def _new_map(cleaner: CleanerSettings, plan: LogPlan) -> OffsetMap:
    """Create the offset map: a thread's share of the buffer, or less if the dirty offsets need less."""
    size = min(cleaner.map_bytes, enough_map_bytes(plan.end_offset - plan.first_dirty_offset))
    return replace(cleaner, threads=1, dedupe_buffer_bytes=size).new_map(secrets.token_bytes(16))
