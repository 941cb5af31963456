"""The next moment at which a log is due: the plan at that moment agrees, and the plan before it does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from storage.cleaner.cleaner_home import COMPACT, NOW
from tidelog.inspect.compaction.next_due import next_due
from tidelog.inspect.compaction.sentences import due_text
from tidelog.model import TopicPartition
from tidelog.storage.cleaner.plan.log_facts import LogFacts, SegmentFacts
from tidelog.storage.cleaner.plan.log_plan import UncleanableLimit, plan_log
from tidelog.storage.log.state.log_config import LogConfig

HOUR = 3_600_000


def facts(*sizes: int, times: list[int] | None = None, last_clean: int | None = None, **settings: Any) -> LogFacts:
    """Make facts about segments of ten offsets each. ``times`` are those of the segments and of their first batches."""
    ages = times or [NOW] * len(sizes)
    return LogFacts(
        partition=TopicPartition("t", 0),
        config=LogConfig(**{"cleanup_policy": COMPACT} | settings),
        segments=tuple(
            SegmentFacts(base_offset=10 * at, size_bytes=size, time_ms=age, first_timestamp_ms=age)
            for at, (size, age) in enumerate(zip(sizes, ages, strict=True))
        ),
        log_start_offset=0,
        last_stable_offset=10 * len(sizes),
        end_offset=10 * len(sizes),
        last_clean_offset=last_clean,
        now_ms=NOW,
    )


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=6),
    ages=st.lists(st.integers(0, 5 * HOUR), min_size=6, max_size=6),
    last_clean=st.one_of(st.none(), st.integers(0, 60)),
    ratio=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    min_lag=st.sampled_from([0, HOUR, 3 * HOUR]),
    max_lag=st.sampled_from([HOUR, 4 * HOUR, 2**63 - 1]),
    stable=st.integers(0, 60),
)
def test_the_first_moment(
    sizes: list[int],
    ages: list[int],
    last_clean: int | None,
    ratio: float,
    min_lag: int,
    max_lag: int,
    stable: int,
) -> None:
    times = [NOW - age for age in ages[: len(sizes)]]
    made = facts(
        *sizes,
        times=times,
        last_clean=last_clean,
        min_cleanable_dirty_ratio=ratio,
        min_compaction_lag_ms=min_lag,
        max_compaction_lag_ms=max_lag,
    )
    made = replace(made, last_stable_offset=min(stable, made.end_offset))
    plan = plan_log(made)
    due = next_due(plan)
    if plan.is_due:
        assert (due.at_ms, due.dirty_bytes_needed) == (NOW, 0)
    elif due.at_ms is None:
        assert not plan_log(replace(made, now_ms=NOW + 100 * HOUR)).is_due
    else:
        assert plan_log(replace(made, now_ms=due.at_ms)).is_due
        assert not plan_log(replace(made, now_ms=due.at_ms - 1)).is_due


@given(st.integers(0, 300), st.integers(0, 100), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.75]))
def test_the_bytes_until_then(clean: int, dirty: int, ratio: float) -> None:
    plan = plan_log(facts(clean, dirty, 7, last_clean=10, min_cleanable_dirty_ratio=ratio))
    needed = next_due(plan).dirty_bytes_needed
    assert needed is not None
    if plan.is_due:
        assert needed == 0
        return
    for more, is_due in ((needed, True), (needed - 1, False)):
        later = facts(clean, dirty, more, 7, last_clean=10, min_cleanable_dirty_ratio=ratio)
        assert plan_log(later).is_due is is_due


def test_the_limit_that_a_log_waits_for() -> None:
    active = next_due(plan_log(facts(100, 10, 200, last_clean=10)))
    assert active.waits_for is UncleanableLimit.ACTIVE_SEGMENT
    assert due_text(active) == "when the active segment rolls"
    unstable = replace(facts(100, 300, 5, last_clean=10), last_stable_offset=10)
    found = next_due(plan_log(unstable))
    assert found.waits_for is UncleanableLimit.LAST_STABLE_OFFSET
    assert due_text(found) == "when the last stable offset moves"


def test_never() -> None:
    due = next_due(plan_log(facts(100, 10, 200, last_clean=10, min_cleanable_dirty_ratio=1.0)))
    assert due_text(due) == "never: the threshold is 1"
    assert due_text(next_due(plan_log(facts(100, 10, 2, last_clean=10)))) == "after 91 more dirty bytes"
