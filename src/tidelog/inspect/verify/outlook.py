"""What a broker would do with a partition at its next start, in one sentence. Pure.

Made of the same plan that ``recover`` applies, and of where a reader finds the log to end, so the forecast names the
bytes that would be cut.
"""

from __future__ import annotations

from tidelog.storage.log.view.directory_state import Condition
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.manager.recovery.recover_plan import PartitionPlan


def outlook(plan: PartitionPlan, view: LogView) -> str:
    """For example ``recovers 3 segments from 1960 (unflushed); cuts 517 bytes at position 16,384 of …2435.log``."""
    if view.condition is Condition.HELD:
        return f"nothing: a running process holds the directory (pid {view.directory_state.holder})"
    deeds = []
    if plan.leftovers.removals:
        deeds.append(f"removes {_count(len(plan.leftovers.removals), 'left-over file')}")
    if plan.leftovers.renames:
        deeds.append(f"completes the swap of {_count(len(plan.leftovers.renames), 'file')}")
    if plan.splits:
        deeds.append(f"splits {_count(len(plan.splits), 'segment')} with offsets that no index can hold")
    if plan.recover:
        reasons = ", ".join(sorted({segment.reason.value for segment in plan.recover}))
        deeds.append(f"recovers {_count(len(plan.recover), 'segment')} from {plan.recover[0].base_offset} ({reasons})")
    tail = view.state.invalid_tail
    if tail is not None and view.condition is Condition.KILLED:
        deeds.append(f"cuts {tail.length:,} bytes at position {tail.position:,} of {tail.path.name} ({tail.reason})")
        if tail.later_segments:
            deeds.append(f"deletes the {_count(tail.later_segments, 'segment')} after it")
    return "; ".join(deeds) or "loads it as it is"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
