"""The retention rules: which segments are deleted, and by which rule. They are pure: no clock, no I/O.

A rule takes segments from the oldest on, while each is *eligible* and the rule's *condition* holds for it. It stops at
the first other segment. The rules run in this order, each from the oldest remaining segment:

=========  ================  ==========================================================================
rule       cleanup.policy    condition
=========  ================  ==========================================================================
LOG_START  any               the next segment's base offset is at or below the log start offset (so
                             never the active segment)
SIZE       with ``delete``   ``retention.bytes`` >= 0, and the segments after this one have at least
                             that many bytes
TIME       with ``delete``   ``retention.ms`` >= 0, and the segment's time is more than that before
                             now; a time in the future never is
=========  ================  ==========================================================================

Both limits are exact. A segment is deleted by size even if exactly ``retention.bytes`` remain. It is deleted by time
one millisecond after ``retention.ms``, not before. ``retention.bytes`` 0 deletes every eligible segment.

A segment's time is the largest timestamp of its records. If no record has one, it is the modification time of its
``.log``. A single record with a future timestamp therefore keeps its segment, and every later one, from the TIME rule.

=================================  =======================================================================
not eligible                       why
=================================  =======================================================================
it ends above the high watermark   the log start offset may not pass the high watermark
it is the active one, and empty    a log keeps a segment
=================================  =======================================================================

If every segment is deleted, the log must roll first: the new active segment begins at the log end. Afterwards the log
starts where the last deleted segment ended, or at its old start if that is later.

Thread rule: any thread. Source: Kafka's ``UnifiedLog.deleteOldSegments`` of 4.1, without tiered storage.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.state.log_state import LogState


class RetentionRule(enum.StrEnum):
    """The rules in the order in which they run; see the module's first table."""

    LOG_START = "log_start"
    SIZE = "size"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSegment:
    """A segment's facts for the rules. ``end_offset`` is the next segment's base offset, or the log end.

    ``size_bytes`` is the size of its ``.log``: indexes do not count.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp_ms: int | None
    """The largest timestamp of its records. None or a value below 0 means that no record has one."""
    modified_ms: int
    """The modification time of its ``.log``."""

    @property
    def has_timestamp(self) -> bool:
        return self.largest_timestamp_ms is not None and self.largest_timestamp_ms >= 0

    @property
    def time_ms(self) -> int:
        """The time from which the segment's age is counted."""
        found = self.largest_timestamp_ms
        return self.modified_ms if found is None or found < 0 else found


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionState:
    """A log at one moment. ``segments`` ascend; the last one is active. There may be none."""

    segments: tuple[RetentionSegment, ...]
    config: LogConfig
    log_start_offset: int
    high_watermark: int
    now_ms: int

    @classmethod
    def of(cls, state: LogState, now_ms: int) -> Self:
        """Return an open log's facts."""
        segments = list(state.segments)
        ends = [segment.base_offset for segment in segments[1:]] + [state.offsets.log_end.message_offset]
        return cls(
            segments=tuple(
                RetentionSegment(
                    base_offset=segment.base_offset,
                    end_offset=end,
                    size_bytes=segment.size,
                    largest_timestamp_ms=segment.max_timestamp.timestamp
                    if segment.max_timestamp.timestamp >= 0
                    else None,
                    modified_ms=segment.modified_ms,
                )
                for segment, end in zip(segments, ends, strict=True)
            ),
            config=state.config,
            log_start_offset=state.offsets.log_start,
            high_watermark=state.offsets.high_watermark.message_offset,
            now_ms=now_ms,
        )

    def is_active(self, segment: RetentionSegment) -> bool:
        return segment.base_offset == self.segments[-1].base_offset

    def is_empty_active(self, segment: RetentionSegment) -> bool:
        return self.is_active(segment) and segment.size_bytes == 0

    def is_eligible(self, segment: RetentionSegment) -> bool:
        """Return True if retention may delete the segment; see the module's second table."""
        return segment.end_offset <= self.high_watermark and not self.is_empty_active(segment)

    def bytes_behind(self) -> list[int]:
        """Return, for each segment, the bytes of all later segments: the log's size after its deletion."""
        behind = [0]
        for segment in reversed(self.segments[1:]):
            behind.append(behind[-1] + segment.size_bytes)
        return behind[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """A segment to delete. ``reason`` is a clause with the numbers that decided."""

    segment: RetentionSegment
    rule: RetentionRule
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionDecision:
    """The oldest segments to delete, in offset order, and the consequences for the log."""

    deletions: tuple[Deletion, ...]
    rolls_first: bool
    """Every segment is deleted, so the log must roll first."""
    log_start_offset: int
    """The log start offset afterwards."""

    @property
    def size_bytes(self) -> int:
        """The size of the ``.log`` files to delete."""
        return sum(deletion.segment.size_bytes for deletion in self.deletions)


def decide_retention(state: RetentionState) -> RetentionDecision:
    """Run the rules in turn, as the module's table shows."""
    behind = state.bytes_behind()
    rules: Sequence[_Rule] = (_log_start_rule, _size_rule, _time_rule)
    deletions: list[Deletion] = []
    for rule, judge in zip(RetentionRule, rules, strict=True):
        while len(deletions) < len(state.segments):
            at = len(deletions)
            segment = state.segments[at]
            reason = judge(state, segment, behind[at]) if state.is_eligible(segment) else None
            if reason is None:
                break
            deletions.append(Deletion(segment=segment, rule=rule, reason=reason))
    return RetentionDecision(
        deletions=tuple(deletions),
        rolls_first=bool(deletions) and len(deletions) == len(state.segments),
        log_start_offset=max([state.log_start_offset, *(deletion.segment.end_offset for deletion in deletions[-1:])]),
    )


_Rule = Callable[[RetentionState, RetentionSegment, int], str | None]
"""Returns the reason to delete a segment, or None. The number is the bytes of later segments."""


def _log_start_rule(state: RetentionState, segment: RetentionSegment, _bytes_behind: int) -> str | None:
    if state.is_active(segment) or segment.end_offset > state.log_start_offset:
        return None
    return f"ends at {segment.end_offset}, and the log starts at {state.log_start_offset}"


def _size_rule(state: RetentionState, segment: RetentionSegment, bytes_behind: int) -> str | None:
    limit = state.config.retention_bytes
    if not deletes_by_policy(state.config) or limit < 0 or bytes_behind < limit:
        return None
    return f"without it the log has {bytes_behind} bytes, and retention.bytes is {limit}"


def _time_rule(state: RetentionState, segment: RetentionSegment, _bytes_behind: int) -> str | None:
    due = due_ms(state.config, segment)
    if due is None or state.now_ms < due:
        return None
    age, limit = state.now_ms - segment.time_ms, state.config.retention_ms
    if not segment.has_timestamp:
        return f"its file was last modified at {segment.time_ms}, {age} ms ago, and retention.ms is {limit}"
    return f"its largest record timestamp is {segment.time_ms}, {age} ms ago, and retention.ms is {limit}"


def deletes_by_policy(config: LogConfig) -> bool:
    """Return True if size and time count. A compacted log without ``delete`` only follows its log start offset."""
    return "delete" in config.cleanup_policy


def due_ms(config: LogConfig, segment: RetentionSegment) -> int | None:
    """Return the first moment at which the TIME rule would delete the segment if it were alone, or None for never."""
    if not deletes_by_policy(config) or config.retention_ms < 0:
        return None
    return segment.time_ms + config.retention_ms + 1
