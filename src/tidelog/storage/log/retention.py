"""Which segments retention deletes, and by which rule. Pure: values in, a decision out; no clock, no I/O.

A rule takes segments from the oldest on, while each is *eligible* and the rule's *condition* holds for it, and stops at
the first that is not. The rules have their turns in this order, each beginning at the oldest segment that is left:

=========  ================  ==========================================================================
rule       cleanup.policy    condition
=========  ================  ==========================================================================
LOG_START  any               the next segment's base offset is at or below the log start offset (so
                             never the active segment)
SIZE       with ``delete``   ``retention.bytes`` >= 0, and what is behind the segment still has at
                             least that many bytes
TIME       with ``delete``   ``retention.ms`` >= 0, and the segment's time lies more than that before
                             now; a time in the future never does
=========  ================  ==========================================================================

Both limits are exact: a segment goes by size although the log is left with just ``retention.bytes``, and it goes by
time one millisecond after ``retention.ms``, not before. ``retention.bytes`` 0 takes whatever is there.

A segment's time is the largest timestamp of its records; where none has one, the last change of its ``.log``. So a
single record with a timestamp in the future keeps its segment, and every one behind it, from the rule of time.

=================================  =======================================================================
not eligible                       why
=================================  =======================================================================
it ends above the high watermark   the log start offset may not pass the high watermark
it is the active one, and empty    a log keeps a segment
=================================  =======================================================================

Where every segment goes, the log has to roll first: the new active segment begins at the log end. Afterwards the log
starts where the last deleted segment ended, or where it started before, whichever is later.

Called by: the owner of a log, inspection. Any thread. Source: Kafka's ``UnifiedLog.deleteOldSegments`` of 4.1, without
tiered storage.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tidelog.storage.log.config import LogConfig


class RetentionRule(enum.StrEnum):
    """In the order of their turns; see the module's first table."""

    LOG_START = "log_start"
    SIZE = "size"
    TIME = "time"


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSegment:
    """One segment as the rules need it. ``end_offset``: the next one's base offset, of the active one the log end.

    ``size_bytes`` is that of its ``.log``: indexes do not count.
    """

    base_offset: int
    end_offset: int
    size_bytes: int
    largest_timestamp_ms: int | None
    """Of its records; None where none has one. Below 0 counts as none."""
    modified_ms: int
    """Of its ``.log``."""

    @property
    def has_timestamp(self) -> bool:
        return self.largest_timestamp_ms is not None and self.largest_timestamp_ms >= 0

    @property
    def time_ms(self) -> int:
        """What its age is counted from."""
        found = self.largest_timestamp_ms
        return self.modified_ms if found is None or found < 0 else found


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionState:
    """A log at one moment. ``segments`` ascend; the last is the active one, and there may be none."""

    segments: tuple[RetentionSegment, ...]
    config: LogConfig
    log_start_offset: int
    high_watermark: int
    now_ms: int

    def is_active(self, segment: RetentionSegment) -> bool:
        return segment.base_offset == self.segments[-1].base_offset

    def is_empty_active(self, segment: RetentionSegment) -> bool:
        return self.is_active(segment) and segment.size_bytes == 0

    def is_eligible(self, segment: RetentionSegment) -> bool:
        """See the module's second table."""
        return segment.end_offset <= self.high_watermark and not self.is_empty_active(segment)

    def bytes_behind(self) -> list[int]:
        """For each segment, the bytes of all that follow it: what the log would have without it and those before."""
        behind = [0]
        for segment in reversed(self.segments[1:]):
            behind.append(behind[-1] + segment.size_bytes)
        return behind[::-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """``reason``: a clause with the numbers that decided."""

    segment: RetentionSegment
    rule: RetentionRule
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionDecision:
    """``deletions``: the oldest segments, in order; what follows from them comes with it."""

    deletions: tuple[Deletion, ...]
    rolls_first: bool
    """Every segment goes: the log has to roll before they do."""
    log_start_offset: int
    """Afterwards."""

    @property
    def size_bytes(self) -> int:
        """Of the ``.log`` files that go."""
        return sum(deletion.segment.size_bytes for deletion in self.deletions)


def decide_retention(state: RetentionState) -> RetentionDecision:
    """Let each rule have its turn, as the module's table says."""
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
"""The reason to delete a segment, None where the condition does not hold; the number: bytes behind the segment."""


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
    """Whether size and time count; a log that is only compacted keeps to its log start offset."""
    return "delete" in config.cleanup_policy


def due_ms(config: LogConfig, segment: RetentionSegment) -> int | None:
    """The first moment at which the rule of time would take the segment, were it alone; None for never."""
    if not deletes_by_policy(config) or config.retention_ms < 0:
        return None
    return segment.time_ms + config.retention_ms + 1
