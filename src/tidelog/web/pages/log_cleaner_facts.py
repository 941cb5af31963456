"""The facts of the page about one log's compaction: its state, its offsets and limits, and the offset map."""

from __future__ import annotations

from tidelog.config.columns import LONG_MAX
from tidelog.inspect.compaction.cleaner_keys import KnownCleaner
from tidelog.inspect.compaction.next_due import next_due
from tidelog.inspect.compaction.sentences import due_text, reason_text
from tidelog.inspect.compaction.trial_clean import TrialClean, map_keys
from tidelog.storage.cleaner.plan.log_plan import LogPlan
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook
from tidelog.web.page import Fact, Kind


def log_facts(
    found: CompactionOutlook, plan: LogPlan, made_at_ms: int, cleaner: KnownCleaner, trial: TrialClean | None
) -> list[Fact]:
    """Return the facts. ``trial`` is None if the records were not read, or nothing is dirty."""
    return [
        *_state_facts(found, plan, made_at_ms, trial),
        *_limit_facts(found, plan),
        *_map_facts(plan, cleaner, trial),
    ]


def _state_facts(found: CompactionOutlook, plan: LogPlan, made_at_ms: int, trial: TrialClean | None) -> list[Fact]:
    due = next_due(plan)
    is_done = trial is not None and trial.stopped_by is None
    return [
        Fact(name="why", title="state and reason", value=reason_text(found)),
        Fact(
            name="dirty_ratio", value=plan.dirty_ratio, kind=Kind.PERCENT, help="Dirty bytes of clean and dirty bytes"
        ),
        Fact(
            name="min_ratio",
            title="min.cleanable.dirty.ratio",
            value=plan.facts.config.min_cleanable_dirty_ratio,
            kind=Kind.PERCENT,
        ),
        Fact(name="clean_bytes", title="clean", value=plan.clean_bytes, kind=Kind.BYTES),
        Fact(name="dirty_bytes", title="dirty", value=plan.dirty_bytes, kind=Kind.BYTES),
        Fact(name="uncleanable_bytes", title="not cleanable", value=plan.uncleanable_bytes, kind=Kind.BYTES),
        Fact(
            name="freed_bytes",
            title="the next clean frees",
            value=trial.bytes_freed if trial is not None and is_done else None,
            kind=Kind.BYTES,
            help="Found by a clean that writes nothing",
        ),
        Fact(name="due_when", title="due", value=due_text(due)),
        Fact(name="as_of", title="as of", value=made_at_ms, kind=Kind.TIME),
    ]


def _limit_facts(found: CompactionOutlook, plan: LogPlan) -> list[Fact]:
    facts = plan.facts
    offsets = {
        "log_start": facts.log_start_offset,
        "checkpointed": facts.last_clean_offset,
        "first_dirty": plan.first_dirty_offset,
        "clean_end": plan.end_offset,
        "first_uncleanable": plan.first_uncleanable_offset,
        "last_stable": facts.last_stable_offset,
        "high_watermark": found.high_watermark,
        "active_segment": facts.active_base_offset,
        "log_end": facts.end_offset,
    }
    titles = {
        "checkpointed": "cleaner-offset-checkpoint",
        "first_dirty": "first dirty offset",
        "clean_end": "end of the next clean",
        "first_uncleanable": "first uncleanable offset",
        "last_stable": "last stable offset",
    }
    config = facts.config
    has_max = config.max_compaction_lag_ms < LONG_MAX
    lags = {
        "min.compaction.lag.ms": config.min_compaction_lag_ms,
        "max.compaction.lag.ms": config.max_compaction_lag_ms if has_max else "no limit",
        "delete.retention.ms": config.delete_retention_ms,
    }
    return [
        *(
            Fact(name=name, title=titles.get(name, ""), value=value, kind=Kind.NUMBER)
            for name, value in offsets.items()
        ),
        Fact(name="limit", title="limited by", value=plan.uncleanable_limit.value.replace("_", " ")),
        *(Fact(name=key, value=value, kind=Kind.DURATION) for key, value in lags.items()),
    ]


def _map_facts(plan: LogPlan, cleaner: KnownCleaner, trial: TrialClean | None) -> list[Fact]:
    offsets = plan.end_offset - plan.first_dirty_offset if plan.dirty_bytes else 0
    capacity = map_keys(cleaner.settings)
    needs_more = trial is not None and trial.stopped_by is None and trial.next_dirty_offset < plan.end_offset
    return [
        Fact(name="dirty_offsets", value=offsets, kind=Kind.NUMBER, help="At most as many keys go into the offset map"),
        Fact(name="dirty_keys", value=None if trial is None else trial.keys, kind=Kind.NUMBER, help="Distinct keys"),
        Fact(
            name="map_keys",
            title="keys in an offset map",
            value=capacity,
            kind=Kind.NUMBER,
            help="log.cleaner.dedupe.buffer.size and log.cleaner.threads decide it",
        ),
        Fact(
            name="fits",
            title="one clean is enough",
            value=not needs_more if trial is not None else offsets <= capacity or None,
            help="A full offset map ends a clean early, and another one continues",
        ),
    ]
