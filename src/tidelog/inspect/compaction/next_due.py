"""The time and the bytes after which a log becomes due for a clean. Pure.

=======================================  =============================================================================
a log that is not due becomes due        under the assumption
=======================================  =============================================================================
at ``due_at_ms``                         nothing is appended: only ``min.compaction.lag.ms`` and
                                         ``max.compaction.lag.ms`` let time decide
after ``dirty_bytes_needed`` more bytes  they become dirty: their segments are complete, stable and old enough
=======================================  =============================================================================

With time, the first uncleanable offset only grows, and so do the dirty bytes and the compaction delay. So a log that
became due stays due until it is cleaned, and a binary search finds the moment. Source of the rules:
``storage/cleaner/plan/log_plan.py``.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace

from tidelog.config.columns import LONG_MAX
from tidelog.storage.cleaner.plan.log_facts import LogFacts
from tidelog.storage.cleaner.plan.log_plan import LogPlan, UncleanableLimit, plan_log


@dataclass(frozen=True, slots=True, kw_only=True)
class NextDue:
    """The next moment. ``at_ms`` is None if time alone never makes the log due. ``dirty_bytes_needed`` is None if no
    number of dirty bytes does, and 0 for a log that is due."""

    at_ms: int | None
    dirty_bytes_needed: int | None
    waits_for: UncleanableLimit | None = None
    """The limit whose next move makes the log due, because enough bytes lie behind it: the active segment, which must
    roll, or the last stable offset."""


def next_due(plan: LogPlan) -> NextDue:
    """Return the next moment at which a compacted log is due."""
    if plan.is_due:
        return NextDue(at_ms=plan.facts.now_ms, dirty_bytes_needed=0)
    needed, limit = _dirty_bytes_needed(plan), plan.uncleanable_limit
    active_bytes = plan.facts.segments[-1].size_bytes if plan.facts.segments else 0
    behind = {
        UncleanableLimit.ACTIVE_SEGMENT: active_bytes,
        UncleanableLimit.LAST_STABLE_OFFSET: plan.uncleanable_bytes - active_bytes,
    }
    is_enough = needed is not None and behind.get(limit, 0) >= needed
    return NextDue(at_ms=_due_at_ms(plan.facts), dirty_bytes_needed=needed, waits_for=limit if is_enough else None)


def _dirty_bytes_needed(plan: LogPlan) -> int | None:
    """Return the smallest number of further dirty bytes with which the dirty ratio is above its limit."""
    ratio = plan.facts.config.min_cleanable_dirty_ratio
    if ratio >= 1:
        return None
    total = int(ratio * plan.clean_bytes / (1 - ratio)) + 1
    return max(1, total - plan.dirty_bytes)


def _due_at_ms(facts: LogFacts) -> int | None:
    moments = _moments(facts)
    at = bisect_left(moments, True, key=lambda moment: plan_log(replace(facts, now_ms=moment)).is_due)
    return moments[at] if at < len(moments) else None


def _moments(facts: LogFacts) -> list[int]:
    """Return the future moments at which a lag ends, in ascending order."""
    config, found = facts.config, set()
    for segment in facts.inactive_from(facts.first_dirty_offset):
        if config.min_compaction_lag_ms > 0 and segment.time_ms is not None:
            found.add(segment.time_ms + config.min_compaction_lag_ms)
        if config.max_compaction_lag_ms < LONG_MAX and (segment.first_timestamp_ms or 0) > 0:
            found.add((segment.first_timestamp_ms or 0) + config.max_compaction_lag_ms + 1)
    return sorted(moment for moment in found if facts.now_ms < moment <= LONG_MAX)
