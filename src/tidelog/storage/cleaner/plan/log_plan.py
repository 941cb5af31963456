"""Whether a log is due for compaction, and from where to where. Pure: facts in, a plan out; no clock, no I/O.

==========================  =========================================================================================
of a log                    what it is
==========================  =========================================================================================
first dirty offset          where the last clean ended (the cleaner's checkpoint); the log start where there was none,
                            and where the checkpoint lies below it or above the log end: it is reset then
first uncleanable offset    the smallest of three, but not below the first dirty one: the last stable offset; the base
                            offset of the active segment; with ``min.compaction.lag.ms``, that of the first dirty
                            segment with a time less than so long ago
end of the clean            the base offset of the segment that holds the first uncleanable offset: segments are
                            compacted whole
clean bytes                 of the segments that begin below the first dirty offset
dirty bytes                 of those from the one that holds it to the end of the clean; one that a clean ended in
                            counts on both sides
dirty ratio                 dirty bytes of both
==========================  =========================================================================================

A log is judged by the first line that fits:

==============================================  =======  ============================================================
a log that                                      is due   why
==============================================  =======  ============================================================
has no ``compact`` in ``cleanup.policy``        no       retention alone deletes from it
has neither clean nor dirty bytes               no       there is nothing to compact
has dirty bytes, and a dirty segment whose      yes      ``max.compaction.lag.ms`` is a promise
first batch is older than
``max.compaction.lag.ms``
has a dirty ratio above                         yes      rewriting the clean part as well is worth it
``min.cleanable.dirty.ratio``
is any other                                    no       it waits for more dirty bytes
==============================================  =======  ============================================================

Of several logs that are due, the one with the largest dirty ratio goes first. With ``compact,delete`` retention deletes
whole segments from the same log; it is asked apart (``storage.log.retention``) and needs no log to be due.
Called by: the cleaner's pool, ``tidelog compact``. Any thread.
Source: Kafka's ``LogCleanerManager.cleanableOffsets`` and ``LogToClean``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from tidelog.config.columns import LONG_MAX
from tidelog.model import TopicPartition
from tidelog.storage.cleaner.plan.log_facts import LogFacts


class HeldBy(enum.StrEnum):
    """What puts the first uncleanable offset where it is."""

    LAST_STABLE_OFFSET = "last_stable_offset"
    ACTIVE_SEGMENT = "active_segment"
    MIN_COMPACTION_LAG = "min_compaction_lag"


class Verdict(enum.StrEnum):
    """The lines of the module's second table."""

    NOT_COMPACTED = "not_compacted"
    EMPTY = "empty"
    WAITED_TOO_LONG = "waited_too_long"
    DIRTY_ENOUGH = "dirty_enough"
    NOT_DIRTY_ENOUGH = "not_dirty_enough"

    @property
    def is_due(self) -> bool:
        return self in (Verdict.WAITED_TOO_LONG, Verdict.DIRTY_ENOUGH)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """See the module's tables. The clean is of [first dirty, end); all below the end is written anew."""

    facts: LogFacts
    first_dirty_offset: int
    first_uncleanable_offset: int
    held_by: HeldBy
    end_offset: int
    """Of the clean: what to hand to ``clean_log``."""
    clean_bytes: int
    dirty_bytes: int
    compaction_delay_ms: int
    """How long the log has waited past ``max.compaction.lag.ms``; 0 if it has not."""

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
        """What a clean frees at most: all that it writes anew, less a record of each key."""
        return self.facts.bytes_between(0, self.end_offset) if self.dirty_bytes else 0

    @property
    def uncleanable_bytes(self) -> int:
        """Of the segments behind the end of the clean."""
        return self.facts.bytes_between(self.end_offset, LONG_MAX)

    @property
    def resets_checkpoint(self) -> bool:
        """The checkpoint cannot be right: it becomes the first dirty offset, whether the log is due or not."""
        return self.facts.last_clean_offset not in (None, self.first_dirty_offset)

    @property
    def verdict(self) -> Verdict:
        config = self.facts.config
        if not config.is_compacted:
            return Verdict.NOT_COMPACTED
        if not self.total_bytes:
            return Verdict.EMPTY
        if self.compaction_delay_ms and self.dirty_bytes:
            return Verdict.WAITED_TOO_LONG
        if self.dirty_ratio > config.min_cleanable_dirty_ratio:
            return Verdict.DIRTY_ENOUGH
        return Verdict.NOT_DIRTY_ENOUGH

    @property
    def is_due(self) -> bool:
        return self.verdict.is_due

    @property
    def reason(self) -> str:
        """Why it is due, or why not: a sentence without its full stop."""
        return _REASONS[self.verdict](self)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about a compacted log, each a sentence; a checkpoint that is reset in Kafka's words."""
        return tuple(_warnings(self)) if self.facts.config.is_compacted else ()


def plan_log(facts: LogFacts) -> LogPlan:
    """Codifies the module's first table."""
    first_dirty = facts.first_dirty_offset
    uncleanable, held_by = _first_uncleanable(facts, first_dirty)
    end = next((one.base_offset for one in facts.inactive_from(uncleanable)), facts.active_base_offset)
    begin = next((one.base_offset for one in facts.inactive_from(first_dirty)), end)
    return LogPlan(
        facts=facts,
        first_dirty_offset=first_dirty,
        first_uncleanable_offset=uncleanable,
        held_by=held_by,
        end_offset=end,
        clean_bytes=facts.bytes_between(0, first_dirty),
        dirty_bytes=facts.bytes_between(begin, end),
        compaction_delay_ms=_compaction_delay_ms(facts, first_dirty),
    )


def filthiest(plans: Iterable[LogPlan]) -> LogPlan | None:
    """The one that goes first; None where none is due."""
    return max((plan for plan in plans if plan.is_due), key=lambda plan: plan.dirty_ratio, default=None)


def _first_uncleanable(facts: LogFacts, first_dirty: int) -> tuple[int, HeldBy]:
    bounds = [
        (facts.active_base_offset, HeldBy.ACTIVE_SEGMENT),
        (facts.last_stable_offset, HeldBy.LAST_STABLE_OFFSET),
    ]
    lag_ms = facts.config.min_compaction_lag_ms
    if lag_ms > 0:
        dirty = facts.inactive_from(first_dirty)
        fresh = (one.base_offset for one in dirty if (one.time_ms or 0) > facts.now_ms - lag_ms)
        bounds += [(base_offset, HeldBy.MIN_COMPACTION_LAG) for base_offset in fresh]
    offset, held_by = min(bounds, key=lambda bound: bound[0])
    return max(first_dirty, offset), held_by


def _compaction_delay_ms(facts: LogFacts, first_dirty: int) -> int:
    limit_ms = facts.now_ms - max(facts.config.max_compaction_lag_ms, 0)
    firsts = (one.first_timestamp_ms or 0 for one in facts.inactive_from(first_dirty))
    return max(0, limit_ms - min((first for first in firsts if first > 0), default=LONG_MAX))


# --- in words ---


def _held_text(plan: LogPlan) -> str:
    offset = plan.first_uncleanable_offset
    match plan.held_by:
        case HeldBy.ACTIVE_SEGMENT:
            return f"the active segment begins at offset {plan.facts.active_base_offset}"
        case HeldBy.LAST_STABLE_OFFSET:
            return f"the last stable offset is {plan.facts.last_stable_offset}"
        case HeldBy.MIN_COMPACTION_LAG:
            lag_ms = plan.facts.config.min_compaction_lag_ms
            return f"what is behind offset {offset} is younger than min.compaction.lag.ms, {lag_ms} ms"


def _waits_text(plan: LogPlan) -> str:
    if not plan.dirty_bytes:
        return f"nothing new can be compacted: {_held_text(plan)}"
    return (
        f"{_dirty_text(plan)}, not more than min.cleanable.dirty.ratio,"
        f" {plan.facts.config.min_cleanable_dirty_ratio}; {_held_text(plan)}"
    )


def _dirty_text(plan: LogPlan) -> str:
    return f"{plan.dirty_bytes} of {plan.total_bytes} bytes are dirty, {plan.dirty_ratio:.1%}"


_REASONS: dict[Verdict, Callable[[LogPlan], str]] = {
    Verdict.NOT_COMPACTED: lambda plan: (
        f"cleanup.policy is {','.join(sorted(plan.facts.config.cleanup_policy)) or 'empty'}"
    ),
    Verdict.EMPTY: lambda plan: f"there is nothing to compact: {_held_text(plan)}",
    Verdict.WAITED_TOO_LONG: lambda plan: (
        f"it has been waiting {plan.compaction_delay_ms} ms longer than max.compaction.lag.ms,"
        f" {plan.facts.config.max_compaction_lag_ms} ms"
    ),
    Verdict.DIRTY_ENOUGH: lambda plan: (
        f"{_dirty_text(plan)}, more than min.cleanable.dirty.ratio, {plan.facts.config.min_cleanable_dirty_ratio}"
    ),
    Verdict.NOT_DIRTY_ENOUGH: _waits_text,
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
