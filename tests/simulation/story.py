"""The story of a plan: its cluster, its history in Kafka's words, and the broken invariant if there is one."""

from __future__ import annotations

import textwrap

from simulation.cluster import run
from simulation.faults import applied
from simulation.plan import Plan
from simulation.shrinking import shrink

_WIDTH = 118


def story(plan: Plan, fault: str | None) -> tuple[str, bool]:
    """Run the plan. Return its story, and True if an invariant was broken."""
    with applied(fault):
        outcome = run(plan, keeps_history=True)
    lines = [str(plan.shape), outcome.history.text()]
    if outcome.problem is not None:
        lines.append(f"broken invariant: {outcome.problem}")
    wrapped = (
        textwrap.fill(line, _WIDTH, subsequent_indent=" " * 6, break_long_words=False)
        for part in lines
        for line in part.splitlines()
    )
    return "\n".join(wrapped), outcome.problem is not None


def shrunk(plan: Plan, fault: str | None) -> Plan:
    """Return the plan with fewer events if it breaks an invariant, else itself."""
    with applied(fault):
        invariant = run(plan).invariant
        return plan if invariant is None else shrink(plan, invariant)
