"""A sentence that describes a broker's actions on a partition at its next start.

It is made from the plan that ``recover`` applies and from the log end that a reader finds, so it names the bytes that
would be truncated. The functions are pure.
"""

from __future__ import annotations

from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.manager.recovery.recover_plan import PartitionPlan


def outlook(plan: PartitionPlan, view: LogView) -> str:
    """Return the sentence, such as ``recovers 3 segments from 1960 (unflushed)`` or ``loads it as it is``."""
    if view.condition is DirectoryCondition.HELD:
        return f"nothing: a running process holds the directory (pid {view.directory_state.holder})"
    deeds = []
    if plan.leftovers.removals:
        deeds.append(f"removes {_count(len(plan.leftovers.removals), 'leftover file')}")
    if plan.leftovers.renames:
        deeds.append(f"completes the swap of {_count(len(plan.leftovers.renames), 'file')}")
    if plan.splits:
        deeds.append(f"splits {_count(len(plan.splits), 'segment')} with offsets that no index can hold")
    if plan.recover:
        reasons = ", ".join(sorted({segment.reason.value for segment in plan.recover}))
        deeds.append(f"recovers {_count(len(plan.recover), 'segment')} from {plan.recover[0].base_offset} ({reasons})")
    tail = view.state.invalid_tail
    if tail is not None and view.condition is DirectoryCondition.UNCLEAN:
        deeds.append(
            f"truncates {tail.length:,} bytes at position {tail.position:,} of {tail.path.name} ({tail.reason})"
        )
        if tail.later_segments:
            deeds.append(f"deletes the {_count(tail.later_segments, 'segment')} after it")
    return "; ".join(deeds) or "loads it as it is"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
