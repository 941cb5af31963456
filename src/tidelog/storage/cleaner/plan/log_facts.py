"""The facts that a compaction plan needs, taken at one moment from an open log or a view.

Timestamps cost a read, so they are only looked up if the topic's settings need them, and only for segments that are not
compacted yet. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tidelog.config.columns import LONG_MAX
from tidelog.model import TopicPartition
from tidelog.storage.log.change.retention import RetentionSegment
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.segment.segment import LogSegment

if TYPE_CHECKING:
    from tidelog.storage.log.view.log_view import LogView

_CHUNK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFacts:
    """The facts about a segment; ``size_bytes`` is the size of its ``.log``."""

    base_offset: int
    size_bytes: int
    time_ms: int | None = None
    """The largest timestamp, or the modification time of the ``.log`` if there is none. None if not looked up."""
    first_timestamp_ms: int | None = None
    """The largest timestamp of the first batch. None if not looked up, or if the segment is empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFacts:
    partition: TopicPartition
    config: LogConfig
    segments: tuple[SegmentFacts, ...]
    """The segments, ascending. The last is the active one; there may be none."""
    log_start_offset: int
    last_stable_offset: int
    end_offset: int
    last_clean_offset: int | None
    """The offset in the cleaner's checkpoint."""
    now_ms: int
    keyless_offset: int | None = None
    """The offset of the first record without a key, if the caller looked for one."""

    @property
    def first_dirty_offset(self) -> int:
        return first_dirty_offset(self.log_start_offset, self.end_offset, self.last_clean_offset)

    @property
    def active_base_offset(self) -> int:
        return self.segments[-1].base_offset if self.segments else self.end_offset

    def inactive_from(self, offset: int) -> tuple[SegmentFacts, ...]:
        """Return the segments from the one with ``offset`` on, without the active one."""
        if offset >= self.active_base_offset:
            return ()
        before = self.segments[:-1]
        following = [segment.base_offset for segment in before[1:]] + [self.active_base_offset]
        return tuple(one for one, end in zip(before, following, strict=True) if offset < end)

    def bytes_between(self, start: int, end: int) -> int:
        """Return the bytes of the segments whose base offset is in [start, end)."""
        return sum(segment.size_bytes for segment in self.segments if start <= segment.base_offset < end)


def first_dirty_offset(log_start_offset: int, end_offset: int, last_clean_offset: int | None) -> int:
    """Return the end of the last clean, or the log start offset if there is none or it lies outside the log."""
    if last_clean_offset is None or not log_start_offset <= last_clean_offset <= end_offset:
        return log_start_offset
    return last_clean_offset


def facts_of_log(
    log: PartitionLog, partition: TopicPartition, *, last_clean_offset: int | None, now_ms: int
) -> LogFacts:
    """Collect the facts of an open log. Raise ClosedError or StorageError if it cannot be read."""
    config, segments, offsets = log.config, log.segments, log.offsets()
    end_offset = offsets.log_end.message_offset
    asked = _Asked(config, first_dirty_offset(offsets.log_start, end_offset, last_clean_offset))

    def facts(segment: LogSegment, end: int) -> SegmentFacts:
        return asked.facts(
            segment.base_offset, end, segment.size, lambda: segment.time_ms, lambda: segment.roll_timestamp
        )

    return LogFacts(
        partition=partition,
        config=config,
        segments=tuple(map(facts, segments, [*(segment.base_offset for segment in segments[1:]), end_offset])),
        log_start_offset=offsets.log_start,
        last_stable_offset=offsets.last_stable.message_offset,
        end_offset=end_offset,
        last_clean_offset=last_clean_offset,
        now_ms=now_ms,
    )


def facts_of_view(
    view: LogView,
    partition: TopicPartition,
    *,
    config: LogConfig,
    segments: Sequence[RetentionSegment],
    high_watermark: int,
    last_clean_offset: int | None,
    now_ms: int,
    keyless_offset: int | None = None,
) -> LogFacts:
    """Collect the facts of a read-only log; ``segments`` are all of its segments, with retention's times."""
    asked = _Asked(config, first_dirty_offset(view.log_start, view.log_end, last_clean_offset))

    def facts(segment: RetentionSegment) -> SegmentFacts:
        return asked.facts(
            segment.base_offset,
            segment.end_offset,
            segment.size_bytes,
            lambda: segment.time_ms,
            lambda: _first_timestamp(view, segment.base_offset),
        )

    return LogFacts(
        partition=partition,
        config=config,
        segments=tuple(map(facts, segments)),
        log_start_offset=view.log_start,
        last_stable_offset=view.transactions(high_watermark).last_stable_offset(high_watermark),
        end_offset=view.log_end,
        last_clean_offset=last_clean_offset,
        now_ms=now_ms,
        keyless_offset=keyless_offset,
    )


@dataclass(frozen=True, slots=True)
class _Asked:
    """The choice of timestamps to look up: none for a segment below the first dirty offset."""

    config: LogConfig
    first_dirty_offset: int

    def facts(
        self,
        base_offset: int,
        end_offset: int,
        size_bytes: int,
        time_ms: Callable[[], int],
        first_timestamp_ms: Callable[[], int | None],
    ) -> SegmentFacts:
        is_dirty = end_offset > self.first_dirty_offset
        wants_time = is_dirty and self.config.min_compaction_lag_ms > 0
        wants_first = is_dirty and self.config.max_compaction_lag_ms < LONG_MAX
        return SegmentFacts(
            base_offset=base_offset,
            size_bytes=size_bytes,
            time_ms=time_ms() if wants_time else None,
            first_timestamp_ms=first_timestamp_ms() if wants_first else None,
        )


def _first_timestamp(view: LogView, base_offset: int) -> int | None:
    segment = view.state.segments.floor(base_offset)
    if segment is None or segment.base_offset != base_offset:
        return None
    with segment.open(view.fs, view.directory) as reader:
        first = next(iter(reader.chunks(0, verify_crc=False, chunk_bytes=_CHUNK_BYTES)), None)
        return int(first.table.max_timestamp[0]) if first is not None and len(first.table) else None
