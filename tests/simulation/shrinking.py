"""Shrinking of a failing plan: events are left out as long as the same invariant breaks (delta debugging)."""

from __future__ import annotations

from collections.abc import Callable

from simulation.cluster import Outcome, run
from simulation.plan import Event, Plan

Run = Callable[[Plan], Outcome]
_MAX_RUNS = 1500


def shrink(plan: Plan, invariant: str, run_plan: Run = run) -> Plan:
    """Return a shorter plan that breaks ``invariant``: no event of it can be left out alone, within the limit of runs.

    Runs of events are left out first, from half of the list down to single events.
    """
    runs = 0

    def still_fails(events: tuple[Event, ...]) -> bool:
        nonlocal runs
        runs += 1
        return run_plan(plan.with_events(events)).invariant == invariant

    outcome = run_plan(plan)
    events = plan.events[: outcome.steps]
    if not still_fails(events):
        events = plan.events
    length = max(1, len(events) // 2)
    while runs < _MAX_RUNS:
        shorter = _without_runs(events, length, still_fails)
        if shorter == events and length == 1:
            break
        events = shorter
        length = max(1, length // 2)
    return plan.with_events(events)


def _without_runs(
    events: tuple[Event, ...], length: int, still_fails: Callable[[tuple[Event, ...]], bool]
) -> tuple[Event, ...]:
    """Leave out each run of ``length`` events that is not needed, from the end to the beginning."""
    at = len(events) - length
    while at >= 0:
        candidate = events[:at] + events[at + length :]
        if still_fails(candidate):
            events = candidate
        at -= length
    return events
