"""The outlook of segments (when they go, why they stay), computed from values: single cases and properties."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.inspect.durations import duration_text
from tidelog.inspect.retention.explain import Cause, DeletionTrigger, SegmentOutlook, explain_retention
from tidelog.inspect.retention.sentences import limit_text
from tidelog.storage.log.change.retention import RetentionSegment, RetentionState, decide_retention
from tidelog.storage.log.state.log_config import LogConfig

NOW = 1_000_000
DAY = 24 * 3_600_000


def log_of(*segments: tuple[int, int], config: LogConfig, high_watermark: int = 10**9) -> RetentionState:
    """Build a log with ten offsets in a segment. A segment has a size, and the age of its largest timestamp in ms."""
    return RetentionState(
        segments=tuple(
            RetentionSegment(
                base_offset=10 * number,
                end_offset=10 * number + (10 if size else 0),
                size_bytes=size,
                largest_timestamp_ms=NOW - age if size else None,
                modified_ms=NOW,
            )
            for number, (size, age) in enumerate(segments)
        ),
        config=config,
        log_start_offset=0,
        high_watermark=high_watermark,
        now_ms=NOW,
    )


def outlooks(*segments: tuple[int, int], config: LogConfig, high_watermark: int = 10**9) -> list[SegmentOutlook]:
    return list(explain_retention(log_of(*segments, config=config, high_watermark=high_watermark)))


def test_young_segments_go_when_they_are_old() -> None:
    first, second, active = outlooks((5, 200), (5, 60), (5, 0), config=LogConfig(retention_ms=100))
    assert (first.trigger, first.causes) == (DeletionTrigger.NEXT_CHECK, ())
    assert first.deletion is not None
    assert (second.trigger, second.goes_at_ms) == (DeletionTrigger.TIME, NOW - 60 + 101)
    assert second.causes == (Cause.YOUNG, Cause.UNLIMITED_SIZE)
    assert (active.trigger, active.goes_at_ms, active.is_active) == (DeletionTrigger.TIME, NOW + 101, True)


def test_one_from_the_future_keeps_those_behind_it() -> None:
    first, second, active = outlooks((5, -5000), (5, 200), (5, 0), config=LogConfig(retention_ms=100))
    assert (first.trigger, first.goes_at_ms, first.waits_for) == (DeletionTrigger.TIME, NOW + 5101, None)
    assert Cause.FUTURE_TIMESTAMP in first.causes
    for waiting in (second, active):
        assert (waiting.trigger, waiting.goes_at_ms, waiting.waits_for) == (DeletionTrigger.TIME, NOW + 5101, 0)
    assert second.causes == (Cause.WAITS, Cause.UNLIMITED_SIZE)
    assert active.causes == (Cause.YOUNG, Cause.WAITS, Cause.UNLIMITED_SIZE)


def test_size_may_clear_the_way() -> None:
    """Two more bytes delete the first segment by size. The second is old enough to go with it; the third is not."""
    config = LogConfig(retention_ms=100, retention_bytes=17)
    first, second, third, active = outlooks((5, -5000), (5, 200), (5, 50), (5, 0), config=config)
    assert [first.after_bytes, second.after_bytes] == [2, 2]
    assert (third.after_bytes, active.after_bytes) == (12, 17)
    assert {each.trigger for each in (first, second, third, active)} == {DeletionTrigger.TIME_OR_SIZE}


def test_by_size_only() -> None:
    config = LogConfig(retention_ms=-1, retention_bytes=12)
    first, second, active = outlooks((5, 0), (5, 0), (10, 0), config=config)
    assert first.trigger is DeletionTrigger.NEXT_CHECK
    assert (second.trigger, second.after_bytes, second.goes_at_ms) == (DeletionTrigger.SIZE, 2, None)
    assert second.causes == (Cause.UNLIMITED_TIME, Cause.WITHIN_SIZE)
    assert (active.trigger, active.after_bytes) == (DeletionTrigger.SIZE, 12)


@pytest.mark.parametrize(
    ("config", "causes"),
    [
        (LogConfig(retention_ms=-1), (Cause.UNLIMITED_TIME, Cause.UNLIMITED_SIZE)),
        (LogConfig(cleanup_policy=frozenset({"compact"}), retention_bytes=0), (Cause.POLICY,)),
        (LogConfig(cleanup_policy=frozenset(), retention_ms=0), (Cause.POLICY,)),
    ],
)
def test_never(config: LogConfig, causes: tuple[Cause, ...]) -> None:
    for outlook in outlooks((5, 500), (5, 400), config=config):
        assert (outlook.trigger, outlook.causes, outlook.waits_for) == (DeletionTrigger.NEVER, causes, None)
        assert (outlook.goes_at_ms, outlook.after_bytes) == (None, None)


@pytest.mark.parametrize("config", [LogConfig(retention_ms=100), LogConfig(retention_ms=-1, retention_bytes=5)])
def test_nothing_but_the_high_watermark(config: LogConfig) -> None:
    first, second, _ = outlooks((5, 200), (5, 200), (5, 0), config=config, high_watermark=19)
    assert first.trigger is DeletionTrigger.NEXT_CHECK
    assert second.trigger is DeletionTrigger.HIGH_WATERMARK
    assert second.causes[0] is Cause.HIGH_WATERMARK


def test_the_high_watermark_beside_other_causes() -> None:
    (only,) = outlooks((5, 50), config=LogConfig(retention_ms=100), high_watermark=9)
    assert (only.trigger, only.goes_at_ms) == (DeletionTrigger.TIME, NOW + 51)
    assert only.causes == (Cause.HIGH_WATERMARK, Cause.YOUNG, Cause.UNLIMITED_SIZE)


def test_an_empty_active_segment_stays() -> None:
    old, active = outlooks((5, 200), (0, 0), config=LogConfig(retention_ms=100))
    assert old.trigger is DeletionTrigger.NEXT_CHECK
    assert (active.trigger, active.causes) == (DeletionTrigger.NEVER, (Cause.EMPTY_ACTIVE,))


def test_no_segments() -> None:
    assert outlooks(config=LogConfig()) == []


@st.composite
def states(draw: st.DrawFn) -> RetentionState:
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=6)) + draw(st.sampled_from([[], [0]]))
    config = LogConfig(
        retention_ms=draw(st.integers(-1, 60)),
        retention_bytes=draw(st.integers(-1, 25)),
        cleanup_policy=frozenset(draw(st.sampled_from([{"delete"}, {"compact"}, {"compact", "delete"}]))),
    )
    return log_of(*((size, draw(st.integers(-50, 100))) for size in sizes), config=config)


def kept_offsets(state: RetentionState) -> set[int]:
    gone = len(decide_retention(state).deletions)
    return {segment.base_offset for segment in state.segments[gone:]}


def with_appends(state: RetentionState, size: int) -> RetentionState:
    """Append ``size`` bytes. The active segment becomes young. Unless it was empty, the bytes go into a new segment."""
    *older, active = state.segments
    young = replace(active, largest_timestamp_ms=max(active.largest_timestamp_ms or 0, NOW), end_offset=10**6)
    if not active.size_bytes:
        return replace(state, segments=(*older, replace(young, size_bytes=size)))
    new = RetentionSegment(
        base_offset=10**6, end_offset=10**6 + 1, size_bytes=size, largest_timestamp_ms=NOW, modified_ms=NOW
    )
    return replace(state, segments=(*older, young, new))


@given(states())
def test_the_next_check_deletes_what_it_says(state: RetentionState) -> None:
    found = explain_retention(state)
    assert [outlook.segment for outlook in found] == list(state.segments)
    going = [outlook.deletion for outlook in found if outlook.trigger is DeletionTrigger.NEXT_CHECK]
    assert going == list(decide_retention(state).deletions)
    assert all(outlook.causes for outlook in found if outlook.deletion is None)


@given(states())
def test_it_goes_at_its_time_and_not_a_moment_before(state: RetentionState) -> None:
    for outlook in explain_retention(state):
        at = outlook.goes_at_ms
        if outlook.deletion is None and at is not None:
            assert outlook.segment.base_offset not in kept_offsets(replace(state, now_ms=at))
            assert outlook.segment.base_offset in kept_offsets(replace(state, now_ms=at - 1))


@given(states())
def test_it_goes_after_so_many_bytes_and_not_one_less(state: RetentionState) -> None:
    for outlook in explain_retention(state):
        needed = outlook.after_bytes
        if outlook.deletion is None and needed is not None:
            assert needed > 0
            assert outlook.segment.base_offset not in kept_offsets(with_appends(state, needed))
            if needed > 1:
                assert outlook.segment.base_offset in kept_offsets(with_appends(state, needed - 1))


@given(states())
def test_never_means_never(state: RetentionState) -> None:
    late = replace(with_appends(state, 10**6), now_ms=10**12)
    for outlook in explain_retention(state):
        if outlook.trigger is DeletionTrigger.NEVER and Cause.EMPTY_ACTIVE not in outlook.causes:
            assert outlook.segment.base_offset in kept_offsets(late)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 second"),
        (61_999, "1 minute 1 second"),
        (DAY, "1 day"),
        (DAY + 61_000, "1 day"),
        (7 * DAY + 7_200_000, "7 days 2 hours"),
        (800 * DAY, "2 years 70 days"),
        (10**15, "31,709 years 289 days"),
    ],
)
def test_durations(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


@pytest.mark.parametrize(
    ("limit_ms", "text"),
    [(-1, "-1"), (0, "0 ms"), (7 * DAY, "7 days"), (7 * DAY + 1, "604,800,001 ms"), (90_000, "1 minute 30 seconds")],
)
def test_limits_are_exact(limit_ms: int, text: str) -> None:
    assert limit_text(limit_ms) == text
