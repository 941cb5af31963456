"""Plans for compaction, tested on values alone: the logs that are due, and each range's start and end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.cleaner.cleaner_home import BOTH, COMPACT, DELETE, NOW
from tidelog.model import TopicPartition
from tidelog.storage.cleaner.plan.log_facts import LogFacts, SegmentFacts
from tidelog.storage.cleaner.plan.log_plan import CompactionDecision, LogPlan, UncleanableLimit, filthiest, plan_log
from tidelog.storage.log.state.log_config import LogConfig

T0 = TopicPartition("orders", 3)
LAG = 60_000


def config(**settings: Any) -> LogConfig:
    return LogConfig(**{"cleanup_policy": COMPACT} | settings)


def facts(*sizes: int, last_clean: int | None = None, **changes: Any) -> LogFacts:
    """Make facts about segments of ten offsets each. The last segment is active, and all its offsets are stable."""
    made = LogFacts(
        partition=T0,
        config=config(),
        segments=tuple(SegmentFacts(base_offset=10 * at, size_bytes=size) for at, size in enumerate(sizes)),
        log_start_offset=0,
        last_stable_offset=10 * len(sizes),
        end_offset=10 * len(sizes),
        last_clean_offset=last_clean,
        now_ms=NOW,
    )
    return replace(made, **changes)


def timed(found: LogFacts, *times: int, first: bool = False) -> LogFacts:
    """Set the segments' times, or the times of their first batches."""
    name = "first_timestamp_ms" if first else "time_ms"
    pairs = zip(found.segments, times, strict=True)
    return replace(found, segments=tuple(replace(one, **{name: time}) for one, time in pairs))


def span(plan: LogPlan) -> tuple[int, int, int, UncleanableLimit]:
    return plan.first_dirty_offset, plan.first_uncleanable_offset, plan.end_offset, plan.uncleanable_limit


class TestRange:
    def test_all_but_the_active_segment(self) -> None:
        plan = plan_log(facts(100, 200, 300))
        assert span(plan) == (0, 20, 20, UncleanableLimit.ACTIVE_SEGMENT)
        assert (plan.clean_bytes, plan.dirty_bytes, plan.uncleanable_bytes) == (0, 300, 300)

    def test_on_from_the_last_clean(self) -> None:
        plan = plan_log(facts(100, 200, 300, last_clean=10))
        assert span(plan)[:3] == (10, 20, 20)
        assert (plan.clean_bytes, plan.dirty_bytes, plan.dirty_ratio) == (100, 200, 200 / 300)
        assert plan.reclaimable_bytes == 300

    def test_the_last_clean_ended_inside_a_segment(self) -> None:
        plan = plan_log(facts(100, 200, 300, last_clean=15))
        assert (plan.clean_bytes, plan.dirty_bytes) == (300, 200)
        assert plan.reclaimable_bytes == 300

    @pytest.mark.parametrize(("stable", "end"), [(0, 0), (9, 0), (10, 10), (15, 10), (20, 20), (29, 20)])
    def test_not_past_the_last_stable_offset_in_whole_segments(self, stable: int, end: int) -> None:
        plan = plan_log(facts(100, 200, 300, last_stable_offset=stable))
        assert span(plan)[1:3] == (min(stable, 20), end)
        assert plan.uncleanable_limit is (
            UncleanableLimit.LAST_STABLE_OFFSET if stable < 20 else UncleanableLimit.ACTIVE_SEGMENT
        )
        assert plan.dirty_bytes == {0: 0, 10: 100, 20: 300}[end]

    @pytest.mark.parametrize(
        ("times", "held"), [((0, 0), 20), ((0, 1), 10), ((1, 0), 0), ((1, 1), 0)], ids=["none", "2nd", "1st", "both"]
    )
    def test_young_segments_wait(self, times: tuple[int, int], held: int) -> None:
        """The cleanable range ends at the first segment that is younger than the lag."""
        found = facts(100, 200, 300, config=config(min_compaction_lag_ms=LAG))
        plan = plan_log(timed(found, *(NOW - LAG + time for time in times), NOW))
        assert span(plan)[:3] == (0, held, held)
        assert plan.uncleanable_limit is (
            UncleanableLimit.ACTIVE_SEGMENT if held == 20 else UncleanableLimit.MIN_COMPACTION_LAG
        )

    def test_young_segments_that_are_compacted_already_do_not_count(self) -> None:
        found = facts(100, 200, 300, last_clean=10, config=config(min_compaction_lag_ms=LAG))
        assert span(plan_log(timed(found, NOW, 0, NOW)))[:2] == (10, 20)

    def test_behind_the_active_segments_base(self) -> None:
        """An unclean election may leave a checkpoint above the active segment's base offset."""
        plan = plan_log(facts(100, 200, 300, last_clean=25))
        assert span(plan)[:3] == (25, 25, 20)
        assert (plan.dirty_bytes, plan.decision) == (0, CompactionDecision.NOT_DIRTY_ENOUGH)

    def test_a_log_without_segments(self) -> None:
        plan = plan_log(facts())
        assert (span(plan)[:3], plan.decision) == ((0, 0, 0), CompactionDecision.EMPTY)


class TestCheckpoint:
    @pytest.mark.parametrize(("last_clean", "first"), [(None, 5), (5, 5), (30, 30), (4, 5), (31, 5)])
    def test_one_that_cannot_be_is_reset(self, last_clean: int | None, first: int) -> None:
        plan = plan_log(facts(100, 200, 300, last_clean=last_clean, log_start_offset=5))
        assert plan.first_dirty_offset == first
        assert plan.resets_checkpoint is (last_clean in (4, 31))

    def test_it_is_told_in_kafkas_words(self) -> None:
        below = plan_log(facts(1, 1, last_clean=4, log_start_offset=5))
        assert list(below.warnings) == [
            "Resetting first dirty offset of orders-3 to log start offset 5 since the checkpointed offset 4 is invalid."
        ]
        (above,) = plan_log(facts(1, 1, last_clean=21, log_start_offset=5)).warnings
        assert above == (
            "The last checkpoint dirty offset for partition orders-3 is 21, which is larger than the log end offset 20."
            " Resetting to the log start offset 5."
        )

    def test_below_the_log_start_it_is_usual_where_retention_deletes_too(self) -> None:
        plan = plan_log(facts(1, 1, last_clean=4, log_start_offset=5, config=config(cleanup_policy=BOTH)))
        assert (plan.resets_checkpoint, plan.warnings) == (True, ())


class TestVerdict:
    def test_retention_alone(self) -> None:
        plan = plan_log(facts(100, 200, 300, config=config(cleanup_policy=DELETE), keyless_offset=3))
        assert (plan.decision, plan.is_due, plan.warnings) == (CompactionDecision.NOT_COMPACTED, False, ())
        assert plan.reason == "cleanup.policy is delete"

    def test_both_policies(self) -> None:
        assert plan_log(facts(100, 200, 300, config=config(cleanup_policy=BOTH))).is_due

    def test_nothing_there(self) -> None:
        plan = plan_log(facts(300))
        assert plan.decision is CompactionDecision.EMPTY
        assert plan.reason == "there is nothing to compact: the active segment begins at offset 0"

    @pytest.mark.parametrize(("clean", "due"), [(99, True), (100, False), (101, False)])
    def test_more_than_the_ratio(self, clean: int, due: bool) -> None:
        plan = plan_log(facts(clean, 100, 300, last_clean=10))
        assert plan.is_due is due
        assert plan.decision is (CompactionDecision.DIRTY_ENOUGH if due else CompactionDecision.NOT_DIRTY_ENOUGH)

    def test_with_a_ratio_of_0_something_has_to_be_dirty(self) -> None:
        settings = config(min_cleanable_dirty_ratio=0.0)
        assert plan_log(facts(1000, 1, 1, last_clean=10, config=settings)).is_due
        assert not plan_log(facts(1000, 1, 1, last_clean=20, config=settings)).is_due

    @pytest.mark.parametrize(("age", "delay"), [(LAG - 1, 0), (LAG, 0), (LAG + 1, 1)])
    def test_waited_too_long(self, age: int, delay: int) -> None:
        """The oldest first batch of a dirty segment decides, whatever the dirty ratio is."""
        found = facts(1000, 1, 1, 1, last_clean=10, config=config(max_compaction_lag_ms=LAG))
        plan = plan_log(timed(found, 1, NOW, NOW - age, NOW - 2 * LAG, first=True))
        assert (plan.compaction_delay_ms, plan.is_due) == (delay, bool(delay))
        assert plan.decision is (CompactionDecision.WAITED_TOO_LONG if delay else CompactionDecision.NOT_DIRTY_ENOUGH)

    def test_batches_without_a_timestamp_wait_for_nothing(self) -> None:
        found = facts(1000, 1, 1, last_clean=10, config=config(max_compaction_lag_ms=LAG))
        assert plan_log(timed(found, 1, -1, 1, first=True)).compaction_delay_ms == 0

    def test_waiting_is_no_use_where_nothing_can_be_compacted(self) -> None:
        found = facts(1000, 1, 1, last_clean=10, last_stable_offset=10, config=config(max_compaction_lag_ms=LAG))
        plan = plan_log(timed(found, 1, 1, 1, first=True))
        assert (plan.compaction_delay_ms, plan.is_due) == (NOW - LAG - 1, False)

    def test_reasons(self) -> None:
        found = facts(100, 200, 300, last_clean=10)
        assert plan_log(found).reason == ("200 of 300 bytes are dirty, 66.7%, more than min.cleanable.dirty.ratio, 0.5")
        strict = replace(found, config=config(min_cleanable_dirty_ratio=0.9))
        assert plan_log(strict).reason == (
            "200 of 300 bytes are dirty, 66.7%, not more than min.cleanable.dirty.ratio, 0.9;"
            " the active segment begins at offset 20"
        )
        assert plan_log(replace(found, last_stable_offset=12)).reason == (
            "nothing new can be compacted: the last stable offset is 12"
        )
        late = timed(replace(found, config=config(max_compaction_lag_ms=LAG)), 1, NOW - LAG - 7, 1, first=True)
        assert plan_log(late).reason == ("it has been waiting 7 ms longer than max.compaction.lag.ms, 60000 ms")
        young = timed(replace(found, config=config(min_compaction_lag_ms=LAG)), 0, NOW, NOW)
        assert plan_log(young).reason == (
            "nothing new can be compacted: what is behind offset 10 is younger than min.compaction.lag.ms, 60000 ms"
        )

    def test_a_record_without_a_key_is_told(self) -> None:
        assert plan_log(facts(1, 1, keyless_offset=3)).warnings == (
            "The record at offset 3 of orders-3 has no key: compaction removes it, and all that have none.",
        )


class TestFilthiest:
    def test_the_largest_ratio_of_those_that_are_due(self) -> None:
        some, most, all_but_due = (
            plan_log(facts(100, 200, 300, last_clean=10)),
            plan_log(facts(100, 300, 300, last_clean=10)),
            plan_log(facts(1, 300, 300, last_clean=10, config=config(min_cleanable_dirty_ratio=1.0))),
        )
        assert filthiest([some, most, all_but_due]) is most

    def test_none(self) -> None:
        assert filthiest([]) is None
        assert filthiest([plan_log(facts(100))]) is None


@given(
    sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=6),
    start=st.integers(0, 30),
    last_clean=st.none() | st.integers(0, 80),
    stable=st.integers(0, 60),
    lags=st.lists(st.integers(-2, 2), min_size=6, max_size=6),
)
def test_what_always_holds(sizes: list[int], start: int, last_clean: int | None, stable: int, lags: list[int]) -> None:
    end = 10 * len(sizes)
    start, stable = min(start, end), min(max(stable, start), end)
    found = facts(
        *sizes,
        last_clean=last_clean,
        log_start_offset=start,
        last_stable_offset=max(stable, start),
        config=config(min_compaction_lag_ms=LAG),
    )
    plan = plan_log(timed(found, *(NOW - LAG + lag for lag in lags[: len(sizes)])))
    active = found.active_base_offset
    assert start <= plan.first_dirty_offset <= plan.first_uncleanable_offset
    assert plan.end_offset <= min(active, max(plan.first_uncleanable_offset, plan.first_dirty_offset))
    assert plan.end_offset % 10 == 0
    assert plan.reclaimable_bytes + plan.uncleanable_bytes <= sum(sizes)
    assert plan.reclaimable_bytes >= plan.dirty_bytes
    assert not plan.is_due or plan.dirty_bytes > 0
    assert plan.end_offset > plan.first_dirty_offset or not plan.is_due
