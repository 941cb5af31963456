"""A seed repeats exactly, and a failing one is shrunk to few events that break the same invariant."""

from __future__ import annotations

from simulation.cluster import run
from simulation.faults import applied
from simulation.plan import plan_of
from simulation.shrinking import shrink

_FAULT = "fetch-counted-early"


def test_a_seed_repeats_its_history() -> None:
    for seed in range(20):
        first, again = (run(plan_of(seed), keeps_history=True) for _ in range(2))
        assert first.history.lines == again.history.lines
        assert (first.steps, first.acknowledged) == (again.steps, again.acknowledged)


def test_a_history_that_is_not_kept_changes_nothing() -> None:
    for seed in range(20):
        kept, not_kept = run(plan_of(seed), keeps_history=True), run(plan_of(seed))
        assert (kept.steps, kept.acknowledged) == (not_kept.steps, not_kept.acknowledged)
        assert kept.history.lines
        assert not not_kept.history.lines


def test_a_failing_plan_is_shrunk() -> None:
    with applied(_FAULT):
        failed = next(outcome for seed in range(100) if (outcome := run(plan_of(seed))).invariant is not None)
        assert failed.invariant == "in-sync replicas"
        shrunk = shrink(failed.plan, failed.invariant)
        assert run(shrunk).invariant == failed.invariant
        for at in range(len(shrunk.events)):
            shorter = shrunk.with_events(shrunk.events[:at] + shrunk.events[at + 1 :])
            assert run(shorter).invariant != failed.invariant
    assert len(shrunk.events) <= 10
    assert run(shrunk).problem is None
