"""The forecast of each segment's deletion, from the values that retention decides by.

``decide_retention`` gives the segments that the next check deletes. For a segment that stays:

- **By time** it is deleted once it and every staying segment before it are old enough: at the latest of their times.
  This assumes no appends, because an append makes the active segment younger.
- **By size** it is deleted after enough appends. If it is old enough already, the size rule only has to take the last
  segment before it that is not old enough: that segment blocks it.
- **Not before** all its records lie below the high watermark, whatever the rules say.

The functions are pure. Thread rule: any thread. Source of the rules: ``storage/log/change/retention.py``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from tidelog.storage.log.change.retention import (
    Deletion,
    RetentionSegment,
    RetentionState,
    decide_retention,
    deletes_by_policy,
    due_ms,
)


class DeletionTrigger(enum.StrEnum):
    """The event that a segment's deletion waits for."""

    NEXT_CHECK = "next_check"
    TIME = "time"
    SIZE = "size"
    TIME_OR_SIZE = "time_or_size"
    HIGH_WATERMARK = "high_watermark"
    NEVER = "never"


class Cause(enum.StrEnum):
    """A reason that keeps a segment now. A segment may have several."""

    EMPTY_ACTIVE = "empty_active"
    HIGH_WATERMARK = "high_watermark"
    POLICY = "policy"
    UNLIMITED_TIME = "unlimited_time"
    FUTURE_TIMESTAMP = "future_timestamp"
    YOUNG = "young"
    WAITS = "waits"
    UNLIMITED_SIZE = "unlimited_size"
    WITHIN_SIZE = "within_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentOutlook:
    """``deletion`` is the next check's action on the segment. If it is None, the segment stays for the reasons in
    ``causes``."""

    segment: RetentionSegment
    is_active: bool
    trigger: DeletionTrigger
    deletion: Deletion | None = None
    goes_at_ms: int | None = None
    """The first moment (ms) at which the time rule deletes it without appends. None if the time rule never does."""
    after_bytes: int | None = None
    """Bytes to append until the size rule deletes it. They must follow it, so the active segment needs a roll first."""
    waits_for: int | None = None
    """Base offset of the earlier segment that this one waits for, since its time comes later."""
    bytes_behind: int = 0
    causes: tuple[Cause, ...] = ()


def explain_retention(state: RetentionState) -> tuple[SegmentOutlook, ...]:
    """Return one outlook for each segment, by ascending base offset."""
    decision = decide_retention(state)
    behind = state.bytes_behind()
    outlooks = [
        SegmentOutlook(
            segment=deletion.segment,
            is_active=state.is_active(deletion.segment),
            trigger=DeletionTrigger.NEXT_CHECK,
            deletion=deletion,
            bytes_behind=behind[at],
        )
        for at, deletion in enumerate(decision.deletions)
    ]
    kept = state.segments[len(outlooks) :]
    latest: RetentionSegment | None = None  # the kept segment so far that gets old enough last
    needed = 0  # bytes until the size rule takes the last kept segment so far that is not old enough
    for segment in kept:
        at = len(outlooks)
        waits_for = latest if latest is not None and latest.time_ms > segment.time_ms else None
        latest = segment if waits_for is None else latest
        due = due_ms(state.config, segment)
        if due is None or due > state.now_ms or state.is_active(segment):
            needed = max(0, state.config.retention_bytes - behind[at])
        outlooks.append(_kept(state, segment, waits_for, bytes_behind=behind[at], needed=needed))
    return tuple(outlooks)


def _kept(
    state: RetentionState,
    segment: RetentionSegment,
    waits_for: RetentionSegment | None,
    *,
    bytes_behind: int,
    needed: int,
) -> SegmentOutlook:
    config, is_active = state.config, state.is_active(segment)
    if state.is_empty_active(segment):
        return SegmentOutlook(
            segment=segment, is_active=True, trigger=DeletionTrigger.NEVER, causes=(Cause.EMPTY_ACTIVE,)
        )
    after_bytes = needed if deletes_by_policy(config) and config.retention_bytes >= 0 else None
    goes_at = due_ms(config, segment if waits_for is None else waits_for)
    return SegmentOutlook(
        segment=segment,
        is_active=is_active,
        trigger=_goes(state, goes_at, after_bytes),
        goes_at_ms=goes_at,
        after_bytes=after_bytes,
        waits_for=None if waits_for is None or goes_at is None else waits_for.base_offset,
        bytes_behind=bytes_behind,
        causes=_causes(state, segment, waits_for, bytes_behind),
    )


def _goes(state: RetentionState, goes_at: int | None, after_bytes: int | None) -> DeletionTrigger:
    if (goes_at is not None and goes_at <= state.now_ms) or after_bytes == 0:
        return DeletionTrigger.HIGH_WATERMARK  # a rule already applies, so only the high watermark blocks it
    if goes_at is not None:
        return DeletionTrigger.TIME if after_bytes is None else DeletionTrigger.TIME_OR_SIZE
    return DeletionTrigger.NEVER if after_bytes is None else DeletionTrigger.SIZE


def _causes(
    state: RetentionState, segment: RetentionSegment, waits_for: RetentionSegment | None, bytes_behind: int
) -> tuple[Cause, ...]:
    config, causes = state.config, []
    if not state.is_eligible(segment):
        causes.append(Cause.HIGH_WATERMARK)
    if not deletes_by_policy(config):
        return (*causes, Cause.POLICY)
    due = due_ms(config, segment)
    if due is None:
        causes.append(Cause.UNLIMITED_TIME)
    elif segment.time_ms > state.now_ms:
        causes.append(Cause.FUTURE_TIMESTAMP)
    elif due > state.now_ms:
        causes.append(Cause.YOUNG)
    if due is not None and waits_for is not None:
        causes.append(Cause.WAITS)
    if config.retention_bytes < 0:
        causes.append(Cause.UNLIMITED_SIZE)
    elif bytes_behind < config.retention_bytes:
        causes.append(Cause.WITHIN_SIZE)
    return tuple(causes)
