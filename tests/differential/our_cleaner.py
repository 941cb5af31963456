"""Our side's cleaner: each call is a round of ``clean_log``, reported in the words of DrivenCleaner.java.

As on the Java side, a segment's base offset decides its file time, and the checkpoint is kept here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from tidelog.kernel import OffsetMap
from tidelog.model import TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.cleaner.clean.clean_log import clean_log
from tidelog.storage.cleaner.clean.clean_request import CleanerStats
from tidelog.storage.cleaner.plan.log_facts import facts_of_log
from tidelog.storage.cleaner.plan.log_plan import plan_log
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.file_names import FileKind, segment_file

_PARTITION = TopicPartition("t", 0)
_LOAD_FACTOR = 0.9
_FIRST_FILE_TIME_MS = 1_600_000_000_000
_MS_AN_OFFSET = 1000
_NS_A_MS = 1_000_000


class OurCleaner:
    """The cleaner of one log across its openings."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._checkpoint: int | None = None

    def clean(self, log: PartitionLog, map_bytes: int, buffer_bytes: int) -> str:
        now_ms = self._clock.now_ms()
        plan = plan_log(facts_of_log(log, _PARTITION, last_clean_offset=self._checkpoint, now_ms=now_ms))
        if plan.resets_checkpoint:
            self._checkpoint = plan.first_dirty_offset
        told = f"from={plan.first_dirty_offset} to={plan.end_offset} planned={plan.clean_bytes}/{plan.dirty_bytes}"
        if not plan.dirty_bytes:
            return told
        for base_offset in log.base_offsets:
            time_ns = (_FIRST_FILE_TIME_MS + _MS_AN_OFFSET * base_offset) * _NS_A_MS
            os.utime(segment_file(log.directory, base_offset, FileKind.LOG), ns=(time_ns, time_ns))
        cleaned = clean_log(
            log,
            first_dirty=plan.first_dirty_offset,
            first_uncleanable=plan.end_offset,
            offset_map=OffsetMap(map_bytes, key=bytes(16), load_factor=_LOAD_FACTOR),
            clock=self._clock,
            chunk_bytes=buffer_bytes,
        )
        self._checkpoint = cleaned.next_dirty_offset
        bases = [base_offset for base_offset in log.base_offsets if base_offset < cleaned.next_dirty_offset]
        return f"{told} done={cleaned.next_dirty_offset} {_described(cleaned.stats)} files={_file_times(log, bases)}"

    def cut(self, offset: int) -> None:
        """Move the checkpoint back to the end of a truncated log."""
        if self._checkpoint is not None:
            self._checkpoint = min(self._checkpoint, offset)


def _described(stats: CleanerStats) -> str:
    return (
        f"records={stats.messages_read}/{stats.messages_written}"
        f" keyless={stats.invalid_messages_read} sizes={stats.bytes_read}/{stats.bytes_written}"
    )


def _file_times(log: PartitionLog, base_offsets: Iterable[int]) -> str:
    times = {
        base_offset: segment_file(log.directory, base_offset, FileKind.LOG).stat().st_mtime_ns // _NS_A_MS
        for base_offset in base_offsets
    }
    return ",".join(f"{base_offset}@{time_ms - _FIRST_FILE_TIME_MS}" for base_offset, time_ms in times.items())
