"""The segments that retention deletes, and the rule for each: single cases, and random logs against a plain model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.storage.log.change.retention import (
    RetentionRule,
    RetentionSegment,
    RetentionState,
    decide_retention,
    deletes_by_policy,
    due_ms,
)
from tidelog.storage.log.state.log_config import LogConfig

NOW = 1_700_000_000_000
KEEPS_ALL = LogConfig(retention_ms=-1, retention_bytes=-1)
FAR = 2**63 - 1


def log_of(*segments: tuple[int, int | None], config: LogConfig = KEEPS_ALL, **changes: int) -> RetentionState:
    """Make segments of ten offsets from pairs of size and age of the largest timestamp (None: no timestamp)."""
    return RetentionState(
        segments=tuple(
            RetentionSegment(
                base_offset=10 * number,
                end_offset=10 * number + (10 if size or number < len(segments) - 1 else 0),
                size_bytes=size,
                largest_timestamp_ms=None if age is None else NOW - age,
                modified_ms=NOW - 50,
            )
            for number, (size, age) in enumerate(segments)
        ),
        config=config,
        **({"log_start_offset": 0, "high_watermark": FAR, "now_ms": NOW} | changes),
    )


def gone(state: RetentionState) -> list[tuple[int, str]]:
    return [(deletion.segment.base_offset, str(deletion.rule)) for deletion in decide_retention(state).deletions]


class TestLogStart:
    @pytest.mark.parametrize(
        ("log_start", "bases"),
        [(0, []), (9, []), (10, [0]), (19, [0]), (20, [0, 10]), (29, [0, 10]), (30, [0, 10])],
    )
    def test_what_ends_at_or_below_it_goes_but_never_the_active_one(self, log_start: int, bases: list[int]) -> None:
        state = log_of((1, 0), (1, 0), (1, 0), log_start_offset=log_start)
        assert gone(state) == [(base, "log_start") for base in bases]

    @pytest.mark.parametrize("policy", [{"compact"}, {"delete"}, {"compact", "delete"}, set()])
    def test_with_any_policy(self, policy: set[str]) -> None:
        config = replace(KEEPS_ALL, cleanup_policy=frozenset(policy))
        assert gone(log_of((1, 0), (1, 0), config=config, log_start_offset=10)) == [(0, "log_start")]

    def test_the_reason_has_the_numbers(self) -> None:
        (deletion,) = decide_retention(log_of((1, 0), (1, 0), log_start_offset=13)).deletions
        assert deletion.reason == "ends at 10, and the log starts at 13"


class TestSize:
    @pytest.mark.parametrize(
        ("limit", "bases"),
        [
            (-1, []),
            (FAR, []),
            (91, []),
            (90, [0]),  # exactly as many bytes remain
            (71, [0]),
            (70, [0, 10]),
            (41, [0, 10]),
            (40, [0, 10, 20]),
            (1, [0, 10, 20]),
            (0, [0, 10, 20, 30]),
        ],
    )
    def test_only_while_the_rest_has_as_many_bytes(self, limit: int, bases: list[int]) -> None:
        state = log_of((10, 0), (20, 0), (30, 0), (40, 0), config=LogConfig(retention_ms=-1, retention_bytes=limit))
        assert gone(state) == [(base, "size") for base in bases]

    def test_compacted_only_it_does_not_count(self) -> None:
        config = LogConfig(retention_ms=-1, retention_bytes=0, cleanup_policy=frozenset({"compact"}))
        assert gone(log_of((10, 0), (10, 0), config=config)) == []

    def test_the_reason_has_the_numbers(self) -> None:
        (deletion,) = decide_retention(log_of((10, 0), (7, 0), config=LogConfig(retention_bytes=5))).deletions
        assert deletion.reason == "without it the log has 7 bytes, and retention.bytes is 5"


class TestTime:
    @pytest.mark.parametrize(("age", "goes"), [(101, True), (100, False), (0, False), (-1, False), (-(10**12), False)])
    def test_older_than_the_limit_and_not_just_as_old(self, age: int, goes: bool) -> None:
        state = log_of((1, age), (1, 0), config=LogConfig(retention_ms=100))
        assert gone(state) == ([(0, "time")] if goes else [])

    def test_retention_of_nothing(self) -> None:
        config = LogConfig(retention_ms=0)
        assert gone(log_of((1, 1), (1, 0), config=config)) == [(0, "time")]

    def test_unlimited(self) -> None:
        assert gone(log_of((1, 10**12), (1, 0))) == []

    def test_one_that_stays_keeps_those_behind_it(self) -> None:
        """A record with a future timestamp is the usual cause."""
        state = log_of((1, 500), (1, -1), (1, 400), (1, 0), config=LogConfig(retention_ms=100))
        assert gone(state) == [(0, "time")]

    @pytest.mark.parametrize("timestamp", [None, -1])
    def test_without_timestamps_the_time_of_the_file(self, timestamp: int | None) -> None:
        state = log_of((1, None), (1, 0), config=LogConfig(retention_ms=49))
        first = replace(state.segments[0], largest_timestamp_ms=timestamp)
        (deletion,) = decide_retention(replace(state, segments=(first, state.segments[1]))).deletions
        assert deletion.reason == f"its file was last modified at {NOW - 50}, 50 ms ago, and retention.ms is 49"
        assert gone(replace(state, config=LogConfig(retention_ms=50))) == []

    def test_the_file_does_not_count_beside_a_timestamp(self) -> None:
        assert gone(log_of((1, 10), (1, 0), config=LogConfig(retention_ms=20))) == []

    def test_a_timestamp_of_1970_is_one(self) -> None:
        state = log_of((1, NOW), (1, 0), config=LogConfig(retention_ms=100))
        (deletion,) = decide_retention(state).deletions
        assert deletion.reason == f"its largest record timestamp is 0, {NOW} ms ago, and retention.ms is 100"

    def test_compacted_only_it_does_not_count(self) -> None:
        config = LogConfig(retention_ms=0, cleanup_policy=frozenset({"compact"}))
        assert gone(log_of((1, 500), (1, 500), config=config)) == []

    def test_compacted_and_deleted_it_does(self) -> None:
        config = LogConfig(retention_ms=0, cleanup_policy=frozenset({"compact", "delete"}))
        assert gone(log_of((1, 500), (1, 0), config=config)) == [(0, "time")]

    def test_due_one_millisecond_after(self) -> None:
        segment = log_of((1, 30)).segments[0]
        assert due_ms(LogConfig(retention_ms=100), segment) == NOW - 30 + 101
        assert due_ms(KEEPS_ALL, segment) is None
        assert due_ms(LogConfig(cleanup_policy=frozenset({"compact"})), segment) is None


class TestEligible:
    @pytest.mark.parametrize("rule", [LogConfig(retention_ms=0), LogConfig(retention_ms=-1, retention_bytes=0)])
    @pytest.mark.parametrize(("high_watermark", "count"), [(0, 0), (9, 0), (10, 1), (19, 1), (20, 2), (29, 2), (30, 3)])
    def test_only_wholly_below_the_high_watermark(self, rule: LogConfig, high_watermark: int, count: int) -> None:
        state = log_of((1, 9), (1, 9), (1, 9), config=rule, high_watermark=high_watermark)
        assert len(gone(state)) == count

    def test_the_log_start_rule_too(self) -> None:
        state = log_of((1, 0), (1, 0), (1, 0), log_start_offset=20, high_watermark=19)
        assert gone(state) == [(0, "log_start")]

    @pytest.mark.parametrize("config", [LogConfig(retention_ms=0), LogConfig(retention_ms=-1, retention_bytes=0)])
    def test_never_an_empty_active_segment(self, config: LogConfig) -> None:
        assert [base for base, _ in gone(log_of((1, 9), (0, None), config=config))] == [0]
        assert gone(log_of((0, None), config=config)) == []

    def test_an_empty_one_before_the_active_one_goes(self) -> None:
        """An interrupted roll leaves an empty segment like this."""
        state = log_of((0, None), (1, 0), config=LogConfig(retention_ms=10))
        assert gone(state) == [(0, "time")]

    def test_no_segments(self) -> None:
        decision = decide_retention(log_of(config=LogConfig(retention_ms=0), log_start_offset=7))
        assert (decision.deletions, decision.rolls_first, decision.log_start_offset) == ((), False, 7)


class TestTurns:
    def test_log_start_then_size_then_time(self) -> None:
        state = log_of(
            (10, 500),
            (10, 500),
            (10, 500),
            (10, 0),
            config=LogConfig(retention_ms=100, retention_bytes=20),
            log_start_offset=10,
        )
        assert gone(state) == [(0, "log_start"), (10, "size"), (20, "time")]

    def test_each_begins_at_the_oldest_that_is_left(self) -> None:
        """Size retention deletes the first segment, which time retention alone would never pass."""
        state = log_of((10, -5), (10, 500), (10, 0), config=LogConfig(retention_ms=100, retention_bytes=15))
        assert gone(state) == [(0, "size"), (10, "time")]


class TestDecision:
    def test_the_log_starts_where_the_last_one_ended(self) -> None:
        state = log_of((1, 9), (1, 9), (1, 0), config=LogConfig(retention_ms=5))
        assert decide_retention(state).log_start_offset == 20
        assert decide_retention(replace(state, log_start_offset=23)).log_start_offset == 23

    def test_all_of_them_means_a_roll_first(self) -> None:
        state = log_of((3, 9), (4, 9), config=LogConfig(retention_ms=5))
        decision = decide_retention(state)
        assert decision.rolls_first
        assert decision.log_start_offset == 20
        assert decision.size_bytes == 7
        assert not decide_retention(replace(state, high_watermark=19)).rolls_first

    def test_the_rules_by_name(self) -> None:
        assert [str(rule) for rule in RetentionRule] == ["log_start", "size", "time"]

    @pytest.mark.parametrize(
        ("policy", "deletes"), [({"delete"}, True), ({"compact", "delete"}, True), ({"compact"}, False), (set(), False)]
    )
    def test_the_policy(self, policy: set[str], deletes: bool) -> None:
        assert deletes_by_policy(LogConfig(cleanup_policy=frozenset(policy))) is deletes


@dataclass
class PlainLog:
    """A list that is deleted from, rolled and moved one rule after the other, as the broker does."""

    segments: list[RetentionSegment]
    state: RetentionState
    log_start: int
    rolled: bool = False

    def delete_while(self, condition: Callable[[RetentionSegment], bool]) -> int:
        doomed: list[RetentionSegment] = []
        for number, segment in enumerate(self.segments):
            last = number == len(self.segments) - 1
            upper = segment.end_offset if last else self.segments[number + 1].base_offset
            if self.state.high_watermark < upper or not condition(segment) or (last and segment.size_bytes == 0):
                break
            doomed.append(segment)
        if doomed and len(doomed) == len(self.segments):
            end = self.segments[-1].end_offset
            self.segments.append(
                RetentionSegment(
                    base_offset=end, end_offset=end, size_bytes=0, largest_timestamp_ms=None, modified_ms=FAR
                )
            )
            self.rolled = True
        del self.segments[: len(doomed)]
        if doomed:
            self.log_start = max(self.log_start, self.segments[0].base_offset)
        return len(doomed)

    def delete_old_segments(self) -> list[RetentionRule]:
        config, state = self.state.config, self.state
        rules = [RetentionRule.LOG_START] * self.delete_while(self.has_next_at_or_below_log_start)
        if "delete" not in config.cleanup_policy:
            return rules
        size = sum(segment.size_bytes for segment in self.segments)
        if config.retention_bytes >= 0 and size >= config.retention_bytes:
            surplus = size - config.retention_bytes

            def breaches(segment: RetentionSegment) -> bool:
                nonlocal surplus
                if surplus < segment.size_bytes:
                    return False
                surplus -= segment.size_bytes
                return True

            rules += [RetentionRule.SIZE] * self.delete_while(breaches)
        if config.retention_ms >= 0:
            rules += [RetentionRule.TIME] * self.delete_while(
                lambda segment: (
                    state.now_ms
                    - (
                        segment.modified_ms
                        if segment.largest_timestamp_ms is None or segment.largest_timestamp_ms < 0
                        else segment.largest_timestamp_ms
                    )
                    > config.retention_ms
                )
            )
        return rules

    def has_next_at_or_below_log_start(self, segment: RetentionSegment) -> bool:
        at = self.segments.index(segment)
        return at + 1 < len(self.segments) and self.segments[at + 1].base_offset <= self.log_start


@st.composite
def states(draw: st.DrawFn) -> RetentionState:
    sizes = draw(st.lists(st.integers(0, 4), min_size=1, max_size=6))
    offset = draw(st.integers(0, 5))
    segments = []
    for number, size in enumerate(sizes):
        last = number == len(sizes) - 1
        length = 0 if last and size == 0 else draw(st.integers(1, 4))
        segments.append(
            RetentionSegment(
                base_offset=offset,
                end_offset=offset + length,
                size_bytes=size,
                largest_timestamp_ms=draw(st.none() | st.integers(-1, 25)),
                modified_ms=draw(st.integers(0, 25)),
            )
        )
        offset += length
    high_watermark = draw(st.integers(segments[0].base_offset, offset))
    return RetentionState(
        segments=tuple(segments),
        config=LogConfig(
            retention_bytes=draw(st.integers(-1, 20)),
            retention_ms=draw(st.integers(-1, 20)),
            cleanup_policy=draw(st.sets(st.sampled_from(["delete", "compact"])).map(frozenset)),
        ),
        log_start_offset=draw(st.integers(segments[0].base_offset, high_watermark)),
        high_watermark=high_watermark,
        now_ms=draw(st.integers(0, 25)),
    )


@given(states())
def test_any_log_as_a_plain_list_has_it(state: RetentionState) -> None:
    plain = PlainLog(list(state.segments), state, state.log_start_offset)
    rules = plain.delete_old_segments()
    decision = decide_retention(state)
    assert [deletion.rule for deletion in decision.deletions] == rules
    assert [deletion.segment for deletion in decision.deletions] == list(state.segments[: len(rules)])
    assert decision.rolls_first == plain.rolled
    assert decision.log_start_offset == plain.log_start


@given(states())
def test_what_always_holds(state: RetentionState) -> None:
    decision = decide_retention(state)
    assert decision.log_start_offset <= state.high_watermark
    assert all(deletion.segment.end_offset <= state.high_watermark for deletion in decision.deletions)
    left = state.segments[len(decision.deletions) :]
    again = decide_retention(replace(state, segments=left, log_start_offset=decision.log_start_offset))
    assert not again.deletions, "a second check at the same moment finds nothing"
