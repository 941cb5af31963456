"""The state of each compacted log and its reason as a sentence without the full stop. Pure.

=============  =======================================================================================================
state          meaning
=============  =======================================================================================================
DUE            the next run of the cleaner cleans the log, or another log with a larger dirty ratio first
UNCLEANABLE    the log is due, and a clean would fail at a damaged batch
WAITS          the log has new records, and none of them may be compacted yet
NOT_DUE        the log has dirty bytes, but too few
CLEAN          every record was compacted already, or the log is empty
UNREADABLE     the log cannot be read
=============  =======================================================================================================
"""

from __future__ import annotations

import enum

from tidelog.inspect.compaction.next_due import NextDue
from tidelog.inspect.durations import duration_text
from tidelog.inspect.record_rows import iso_time
from tidelog.storage.cleaner.plan.log_plan import CompactionDecision, LogPlan, UncleanableLimit
from tidelog.storage.log.view.transaction_scan import UnstableTransaction
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook
from tidelog.storage.manager.compact.obstacles import Obstacle


class CleaningState(enum.StrEnum):
    """The states of the module's table."""

    DUE = "due"
    UNCLEANABLE = "uncleanable"
    WAITS = "waits"
    NOT_DUE = "not due"
    CLEAN = "clean"
    UNREADABLE = "unreadable"


def state_of(log: CompactionOutlook) -> CleaningState:
    """Return the state of a log with a compact policy."""
    plan = log.plan
    if log.error is not None or plan is None:
        return CleaningState.UNREADABLE
    if log.stopped_by is not None:
        return CleaningState.UNCLEANABLE
    if plan.is_due:
        return CleaningState.DUE
    if plan.dirty_bytes:
        return CleaningState.NOT_DUE
    return CleaningState.WAITS if plan.uncleanable_bytes else CleaningState.CLEAN


def reason_text(log: CompactionOutlook) -> str:
    """Return the state and its reason."""
    state, plan = state_of(log), log.plan
    if plan is None:
        return f"unreadable: {log.error}" if log.error is not None else "cleanup.policy has no compact"
    match state:
        case CleaningState.UNREADABLE:
            return f"unreadable: {log.error}"
        case CleaningState.UNCLEANABLE:
            assert log.stopped_by is not None
            return f"uncleanable: {place_text(log.stopped_by)}"
        case CleaningState.DUE:
            return f"due: {_due_text(plan)}"
        case CleaningState.NOT_DUE:
            is_usual = plan.uncleanable_limit is UncleanableLimit.ACTIVE_SEGMENT
            return f"not due: {_ratio_text(plan)}" + ("" if is_usual else f"; {limit_text(log, plan)}")
        case CleaningState.WAITS:
            return f"waits: {limit_text(log, plan)}"
        case CleaningState.CLEAN:
            return "clean: there is nothing to compact"


def limit_text(log: CompactionOutlook, plan: LogPlan) -> str:
    """Return the clause about the limit above which no record may be compacted yet."""
    offset = f"{plan.first_uncleanable_offset:,}"
    match plan.uncleanable_limit:
        case UncleanableLimit.ACTIVE_SEGMENT:
            return f"the records from offset {offset} on are in the active segment, which must roll first"
        case UncleanableLimit.MIN_COMPACTION_LAG:
            lag = duration_text(plan.facts.config.min_compaction_lag_ms)
            return f"the records from offset {offset} on are younger than min.compaction.lag.ms, {lag}"
        case UncleanableLimit.LAST_STABLE_OFFSET:
            return _unstable_text(log, plan)


def place_text(obstacle: Obstacle) -> str:
    """Return an obstacle with its position, offset and file, such as ``the CRC of a batch does not match at position
    120 of 00000000000000000000.log (offset 7)``."""
    position = "" if obstacle.position is None else f"position {obstacle.position:,} of "
    offset = "" if obstacle.offset is None else f" (offset {obstacle.offset:,})"
    return f"{obstacle.what} at {position}{obstacle.path.name}{offset}"


def due_text(due: NextDue) -> str:
    """Return the next moment at which a log is due, such as ``now``, ``2026-11-28T17:00:00.000Z or after 300 more
    bytes`` or ``never``."""
    if due.dirty_bytes_needed == 0:
        return "now"
    ways = [] if due.at_ms is None else [iso_time(due.at_ms)]
    match due.waits_for:
        case UncleanableLimit.ACTIVE_SEGMENT:
            ways.append("when the active segment rolls")
        case UncleanableLimit.LAST_STABLE_OFFSET:
            ways.append("when the last stable offset moves")
        case _ if due.dirty_bytes_needed == 1:
            ways.append("with the first dirty bytes")
        case _ if due.dirty_bytes_needed is not None:
            ways.append(f"after {due.dirty_bytes_needed:,} more dirty bytes")
    return " or ".join(ways) or "never: the threshold is 1"


def holding_transaction(log: CompactionOutlook) -> UnstableTransaction | None:
    """Return the transaction that sets the first uncleanable offset. None if another limit sets it."""
    plan, unstable = log.plan, log.unstable
    if plan is None or unstable is None or plan.uncleanable_limit is not UncleanableLimit.LAST_STABLE_OFFSET:
        return None
    return unstable if unstable.first_offset <= plan.facts.last_stable_offset else None


def _unstable_text(log: CompactionOutlook, plan: LogPlan) -> str:
    offset = f"{plan.facts.last_stable_offset:,}"
    holding = holding_transaction(log)
    if holding is None:
        return f"the high watermark is {offset}, and no record above it may be compacted"
    producer = holding.producer_id
    if holding.is_open:
        return f"an open transaction of producer {producer} holds back the records from offset {offset} on"
    return (
        f"a transaction of producer {producer} holds back the records from offset {offset} on, because its marker is"
        " above the high watermark"
    )


def _due_text(plan: LogPlan) -> str:
    if plan.decision is CompactionDecision.WAITED_TOO_LONG:
        limit = duration_text(plan.facts.config.max_compaction_lag_ms)
        return (
            f"records have been waiting {duration_text(plan.compaction_delay_ms)} longer than max.compaction.lag.ms,"
            f" {limit}"
        )
    return _ratio_text(plan)


def _ratio_text(plan: LogPlan) -> str:
    """Return a comparison such as ``dirty ratio 0.31 < 0.5``, with as many digits as it needs."""
    ratio, limit = plan.dirty_ratio, plan.facts.config.min_cleanable_dirty_ratio
    sign = ">" if ratio > limit else "=" if ratio == limit else "<"
    digits = next((count for count in (2, 4, 8) if sign == "=" or round(ratio, count) != round(limit, count)), 17)
    return f"dirty ratio {ratio:.{digits}f} {sign} {limit:g}"
