"""The compaction plan of a log: is it due, and for which offsets? Pure.

==========================  =========================================================================================
term                        meaning
==========================  =========================================================================================
first dirty offset          the end of the last clean (the cleaner's checkpoint); the log start offset if there is no
                            checkpoint, or if it lies outside the log: then the checkpoint is reset
first uncleanable offset    the smallest of three, but not below the first dirty offset: the last stable offset; the
                            base offset of the active segment; with ``min.compaction.lag.ms``, the base offset of the
                            first dirty segment whose time is within the lag
end of the clean            the base offset of the segment with the first uncleanable offset: only complete segments
                            are compacted
clean bytes                 the size of the segments that begin below the first dirty offset
dirty bytes                 the size of the segments from the one with the first dirty offset to the end of the clean;
                            a segment in which a clean ended counts on both sides
dirty ratio                 dirty bytes divided by the sum of clean and dirty bytes
==========================  =========================================================================================

The first row that matches a log decides:

==============================================  =======  ============================================================
condition                                       due      reason
==============================================  =======  ============================================================
``cleanup.policy`` has no ``compact``           no       retention alone deletes from it
it has neither clean nor dirty bytes            no       there is nothing to compact
it has dirty bytes, and a dirty segment whose   yes      ``max.compaction.lag.ms`` is a promise
first batch is older than
``max.compaction.lag.ms``
its dirty ratio is above                        yes      rewriting the clean part as well is worth it
``min.cleanable.dirty.ratio``
any other log                                   no       it waits for more dirty bytes
==============================================  =======  ============================================================

If several logs are due, the one with the largest dirty ratio goes first. With ``compact,delete``, retention also
deletes segments of the log. Retention has its own plan (``storage.log.retention``) and does not need the log to be due.
Thread rule: any thread. Source: Kafka's ``LogCleanerManager.cleanableOffsets`` and ``LogToClean``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidelog.config.columns import LONG_MAX
from tidelog.model import TopicPartition
from tidelog.storage.cleaner.plan.log_facts import LogFacts


class UncleanableLimit(enum.StrEnum):
    """The limit that set the first uncleanable offset."""

    LAST_STABLE_OFFSET = "last_stable_offset"
    ACTIVE_SEGMENT = "active_segment"
    MIN_COMPACTION_LAG = "min_compaction_lag"


class CompactionDecision(enum.StrEnum):
    """The rows of the module's second table."""

    NOT_COMPACTED = "not_compacted"
    EMPTY = "empty"
    WAITED_TOO_LONG = "waited_too_long"
    DIRTY_ENOUGH = "dirty_enough"
    NOT_DIRTY_ENOUGH = "not_dirty_enough"

    @property
    def is_due(self) -> bool:
        return self in (CompactionDecision.WAITED_TOO_LONG, CompactionDecision.DIRTY_ENOUGH)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """A plan; see the module's tables. The clean covers [first dirty, end) and rewrites all segments below the end."""

    facts: LogFacts
    first_dirty_offset: int
    first_uncleanable_offset: int
    uncleanable_limit: UncleanableLimit
    end_offset: int
    """The end of the clean, an argument for ``clean_log``."""
    clean_bytes: int
    dirty_bytes: int
    compaction_delay_ms: int
    """The time in ms that the log has waited past ``max.compaction.lag.ms``; 0 if it has not."""

    @property
    def partition(self) -> TopicPartition:
        return self.facts.partition

    @property
    def total_bytes(self) -> int:
        return self.clean_bytes + self.dirty_bytes

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def reclaimable_bytes(self) -> int:
        """The bytes that a clean rewrites, an upper bound for the freed bytes: each key keeps a record."""
        return self.facts.bytes_between(0, self.end_offset) if self.dirty_bytes else 0

    @property
    def uncleanable_bytes(self) -> int:
        """The bytes of the segments behind the end of the clean."""
        return self.facts.bytes_between(self.end_offset, LONG_MAX)

    @property
    def resets_checkpoint(self) -> bool:
        """True if the checkpoint is invalid. It becomes the first dirty offset, whether the log is due or not."""
        return self.facts.last_clean_offset not in (None, self.first_dirty_offset)

    @property
    def decision(self) -> CompactionDecision:
        config = self.facts.config
        if not config.is_compacted:
            return CompactionDecision.NOT_COMPACTED
        if not self.total_bytes:
            return CompactionDecision.EMPTY
        if self.compaction_delay_ms and self.dirty_bytes:
            return CompactionDecision.WAITED_TOO_LONG
        if self.dirty_ratio > config.min_cleanable_dirty_ratio:
            return CompactionDecision.DIRTY_ENOUGH
        return CompactionDecision.NOT_DIRTY_ENOUGH

    @property
    def is_due(self) -> bool:
        return self.decision.is_due

    @property
    def reason(self) -> str:
        """The reason why it is due or not, a sentence without its full stop."""
        return _REASONS[self.decision](self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The oddities of a compacted log, a sentence each. The one for a reset checkpoint has Kafka's words."""
        return tuple(_warnings(self)) if self.facts.config.is_compacted else ()


def plan_log(facts: LogFacts) -> LogPlan:
    """Plan a log by the module's first table."""
    first_dirty = facts.first_dirty_offset
    uncleanable, held_by = _first_uncleanable(facts, first_dirty)
    end = next((one.base_offset for one in facts.inactive_from(uncleanable)), facts.active_base_offset)
    begin = next((one.base_offset for one in facts.inactive_from(first_dirty)), end)
    return LogPlan(
        facts=facts,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=uncleanable,
        uncleanable_limit=held_by,
        end_offset=end,
        clean_bytes=facts.bytes_between(0, first_dirty),
        dirty_bytes=facts.bytes_between(begin, end),
        compaction_delay_ms=_compaction_delay_ms(facts, first_dirty),
    )


def filthiest(plans: Iterable[LogPlan]) -> LogPlan | None:
    """Return the due plan with the largest dirty ratio, or None if no plan is due."""
    return max((plan for plan in plans if plan.is_due), key=lambda plan: plan.dirty_ratio, default=None)


def _first_uncleanable(facts: LogFacts, first_dirty: int) -> tuple[int, UncleanableLimit]:
    bounds = [
        (facts.active_base_offset, UncleanableLimit.ACTIVE_SEGMENT),
        (facts.last_stable_offset, UncleanableLimit.LAST_STABLE_OFFSET),
    ]
    lag_ms = facts.config.min_compaction_lag_ms
    if lag_ms > 0:
        dirty = facts.inactive_from(first_dirty)
        fresh = (one.base_offset for one in dirty if (one.time_ms or 0) > facts.now_ms - lag_ms)
        bounds += [(base_offset, UncleanableLimit.MIN_COMPACTION_LAG) for base_offset in fresh]
    offset, held_by = min(bounds, key=lambda bound: bound[0])
    return max(first_dirty, offset), held_by


def _compaction_delay_ms(facts: LogFacts, first_dirty: int) -> int:
    limit_ms = facts.now_ms - max(facts.config.max_compaction_lag_ms, 0)
    firsts = (one.first_timestamp_ms or 0 for one in facts.inactive_from(first_dirty))
    return max(0, limit_ms - min((first for first in firsts if first > 0), default=LONG_MAX))


# --- reasons and warnings ---


def _limit_text(plan: LogPlan) -> str:
    offset = plan.first_uncleanable_offset
    match plan.uncleanable_limit:
        case UncleanableLimit.ACTIVE_SEGMENT:
            return f"the active segment begins at offset {plan.facts.active_base_offset}"
        case UncleanableLimit.LAST_STABLE_OFFSET:
            return f"the last stable offset is {plan.facts.last_stable_offset}"
        case UncleanableLimit.MIN_COMPACTION_LAG:
            lag_ms = plan.facts.config.min_compaction_lag_ms
            return f"what is behind offset {offset} is younger than min.compaction.lag.ms, {lag_ms} ms"


def _waiting_text(plan: LogPlan) -> str:
    if not plan.dirty_bytes:
        return f"nothing new can be compacted: {_limit_text(plan)}"
    return (
        f"{_dirty_text(plan)}, not more than min.cleanable.dirty.ratio,"
        f" {plan.facts.config.min_cleanable_dirty_ratio}; {_limit_text(plan)}"
    )


def _dirty_text(plan: LogPlan) -> str:
    return f"{plan.dirty_bytes} of {plan.total_bytes} bytes are dirty, {plan.dirty_ratio:.1%}"


_REASONS: dict[CompactionDecision, Callable[[LogPlan], str]] = {
    CompactionDecision.NOT_COMPACTED: lambda plan: (
        f"cleanup.policy is {','.join(sorted(plan.facts.config.cleanup_policy)) or 'empty'}"
    ),
    CompactionDecision.EMPTY: lambda plan: f"there is nothing to compact: {_limit_text(plan)}",
    CompactionDecision.WAITED_TOO_LONG: lambda plan: (
        f"it has been waiting {plan.compaction_delay_ms} ms longer than max.compaction.lag.ms,"
        f" {plan.facts.config.max_compaction_lag_ms} ms"
    ),
    CompactionDecision.DIRTY_ENOUGH: lambda plan: (
        f"{_dirty_text(plan)}, more than min.cleanable.dirty.ratio, {plan.facts.config.min_cleanable_dirty_ratio}"
    ),
    CompactionDecision.NOT_DIRTY_ENOUGH: _waiting_text,
}


def _warnings(plan: LogPlan) -> Iterator[str]:
    facts, name, was = plan.facts, plan.partition.directory_name, plan.facts.last_clean_offset
    if was is not None and was > facts.end_offset:
        yield (
            f"The last checkpoint dirty offset for partition {name} is {was}, which is larger than the log end offset"
            f" {facts.end_offset}. Resetting to the log start offset {facts.log_start_offset}."
        )
    elif was is not None and was < facts.log_start_offset and "delete" not in facts.config.cleanup_policy:
        yield (
            f"Resetting first dirty offset of {name} to log start offset {facts.log_start_offset} since the"
            f" checkpointed offset {was} is invalid."
        )
    if facts.keyless_offset is not None:
        yield (
            f"The record at offset {facts.keyless_offset} of {name} has no key: compaction removes it, and all that"
            " have none."
        )
