"""All compacted logs: how dirty they are, which are due for a clean, and why the others are not.

Planning needs the segments' names and sizes and a few reads for each log, so it goes on in the background. Searching
the due logs for damaged batches reads all their bytes: small logs are searched at once, others on request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.inspect.compaction.cleaner_keys import ENABLE_KEY, KnownCleaner, known_cleaner
from tidelog.inspect.compaction.next_due import next_due
from tidelog.inspect.compaction.sentences import CleaningState, due_text, holding_transaction, reason_text, state_of
from tidelog.inspect.compaction.trial_clean import map_keys
from tidelog.storage.cleaner.plan.log_plan import LogPlan
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook
from tidelog.storage.manager.compact.obstacles import Obstacle
from tidelog.storage.segment.file_names import SegmentFileName
from tidelog.web import urls
from tidelog.web.jobs import Finished, StillRunningError
from tidelog.web.page import Choice, Column, Fact, FormField, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.row_links import log_dir_link
from tidelog.web.reports.cluster_facts import known_settings
from tidelog.web.reports.compaction_plans import CHECKED_UNASKED_BYTES, Plans, all_plans, checked_plans
from tidelog.web.request import PageRequest
from tidelog.web.shown import size_text
from tidelog.web.sources import LogDir
from tidelog.web.svg.dirty_ratios import draw_dirty_ratios

_MOST_BARS = 20
_ANY = "any"
_CHECK = "check"
_NO_TIME_TEXT = "The broker checks which log is due every 15 seconds (log.cleaner.backoff.ms)."


@dataclass(frozen=True, slots=True)
class _Log:
    log_dir: LogDir
    found: CompactionOutlook
    cleaner: KnownCleaner

    @property
    def ratio(self) -> float | None:
        return None if self.found.plan is None else self.found.plan.dirty_ratio


def cleaner_page(request: PageRequest) -> Page:
    """Return the page of all logs with a compact policy."""
    plans = all_plans(request)
    wanted = request.query.choice("state", (_ANY, *(state.value for state in CleaningState)), _ANY)
    topic = request.query.text("topic")
    value, notes, is_checking = _checked(request, plans)
    logs = _logs(request, value)
    shown = [log for log in logs if _is_wanted(log.found, wanted, topic)]
    return Page(
        title="Cleaner",
        trail=[Link("Cluster", urls.CLUSTER)],
        facts=_facts(request, plans, value, logs),
        form=_form(wanted, topic),
        links=[Link("Read again", urls.with_query(urls.CLEANER, {"newer": request.now_ms}))],
        notes=[*notes, *(f"{warning.removesuffix('.')}." for warning in value.warnings)],
        sections=[_logs_section(request, shown, bool(wanted != _ANY or topic))],
        refresh_seconds=1 if is_checking else None,
    )


def _checked(request: PageRequest, plans: Finished[Plans]) -> tuple[Plans, list[str], bool]:
    """Return the plans, with obstacles if the due logs have been read; a note about them; True while they are read."""
    size = plans.value.due_bytes
    is_asked = request.query.flag(_CHECK)
    if not size:
        return plans.value, [], False
    if size > CHECKED_UNASKED_BYTES and not is_asked:
        how = urls.with_query(urls.CLEANER, {_CHECK: 1})
        return (
            plans.value,
            [f"The {size_text(size)} of the due logs were not searched for damage: {how} does it."],
            False,
        )
    try:
        return checked_plans(request, plans), [], False
    except StillRunningError as running:
        share = running.progress.share or 0
        return plans.value, [f"The due logs are being searched for damaged batches: {share:.0%} of the bytes."], True


def _logs(request: PageRequest, plans: Plans) -> list[_Log]:
    """Return the logs in the order in which the cleaner takes them: due logs first, then by dirty ratio."""
    settings = known_settings(request)
    found = []
    for log_dir in request.sources.log_dirs:
        cleaner = known_cleaner(settings[log_dir.key])
        logs = plans.by_dir[log_dir.key].logs
        found += [_Log(log_dir, log, cleaner) for log in logs if log.settings.config.is_compacted]
    return sorted(found, key=lambda log: (not log.found.is_due, -(log.ratio or 0), log.found.name, log.log_dir.key))


def _is_wanted(log: CompactionOutlook, state: str, topic: str) -> bool:
    return topic.lower() in log.partition.topic.lower() and state in (_ANY, state_of(log).value)


def _form(state: str, topic: str) -> list[FormField]:
    choices = [Choice(value=_ANY, title="any"), *(Choice(value=one.value, title=one.value) for one in CleaningState)]
    return [
        FormField(name="state", title="State", value=state, choices=choices),
        FormField(name="topic", title="Topic", value=topic, hint="part of a name"),
    ]


def _facts(request: PageRequest, plans: Finished[Plans], value: Plans, logs: Sequence[_Log]) -> list[Fact]:
    states = Counter(state_of(log.found) for log in logs)
    settings = known_settings(request)
    cleaners = [known_cleaner(settings[one.key]) for one in request.sources.log_dirs]
    due = [log for log in logs if log.found.is_due]
    return [
        Fact(name="compacted_logs", value=len(logs), kind=Kind.NUMBER),
        Fact(name="other_logs", title="logs without compact", value=value.others, kind=Kind.NUMBER),
        Fact(name="due", value=len(due), kind=Kind.NUMBER, help=_NO_TIME_TEXT),
        Fact(name="bytes_to_rewrite", value=value.due_bytes, kind=Kind.BYTES, help="The segments of all due logs"),
        *(
            Fact(name=state.name.lower(), title=state.value, value=states[state], kind=Kind.NUMBER)
            for state in CleaningState
            if state is not CleaningState.DUE and states[state]
        ),
        Fact(
            name="map_keys",
            title="keys in an offset map",
            value=min((map_keys(cleaner.settings) for cleaner in cleaners), default=None),
            kind=Kind.NUMBER,
            help="A clean ends when the map is full, and another one continues (log.cleaner.dedupe.buffer.size)",
        ),
        Fact(
            name="enabled",
            title=ENABLE_KEY,
            value=_enabled_text(cleaners),
            help="A log directory does not have server.properties, which may turn the cleaner off.",
        ),
        Fact(name="as_of", title="as of", value=plans.made_at_ms, kind=Kind.TIME),
    ]


def _enabled_text(cleaners: Sequence[KnownCleaner]) -> str:
    known = {cleaner.is_enabled for cleaner in cleaners} - {None}
    if not known:
        return "not known here; the default is true"
    return "false" if False in known else "true"


def _logs_section(request: PageRequest, logs: Sequence[_Log], is_filtered: bool) -> Section:
    keys: dict[str, Callable[[_Log], Any]] = {
        "log": lambda log: log.found.name,
        "state": lambda log: list(CleaningState).index(state_of(log.found)),
        "dirty_ratio": lambda log: log.ratio,
        "clean_bytes": lambda log: log.found.plan and log.found.plan.clean_bytes,
        "dirty_bytes": lambda log: log.found.plan and log.found.plan.dirty_bytes,
        "uncleanable_bytes": lambda log: log.found.plan and log.found.plan.uncleanable_bytes,
    }
    shown, paging = request.query.paged("logs", logs, keys=keys)
    columns = [*_COLUMNS, _DIRECTORY] if len(request.sources.log_dirs) > 1 else _COLUMNS
    empty = "No log matches." if is_filtered else "No log here has compact in its cleanup.policy."
    return Section(
        name="logs",
        title="Compacted logs",
        text=(
            "The cleaner takes the due log with the largest dirty ratio first. The dirty ratio is the share of bytes"
            " that were written since the last clean, without the segments that cannot be cleaned yet."
        ),
        picture=_picture(logs),
        table=Table(columns=columns, rows=[_row(log) for log in shown], paging=paging, empty=empty),
    )


def _url(row: Row) -> str:
    return urls.log_part_url(str(row["log_dir"]), str(row["log"]), "cleaner")


def _reason_url(row: Row) -> str | None:
    """Return the page of the damaged batch or of the transactions that the reason is about."""
    key, name = str(row["log_dir"]), str(row["log"])
    if isinstance(row["stop_base"], int) and isinstance(row["stop_position"], int):
        return urls.batch_url(key, name, row["stop_base"], row["stop_position"])
    return None if row["held_by_producer"] is None else urls.log_part_url(key, name, "transactions")


_COLUMNS = (
    Column(name="log", kind=Kind.CODE, link=_url),
    Column(name="why", title="state and reason", link=_reason_url),
    Column(name="dirty_ratio", kind=Kind.PERCENT),
    Column(name="min_ratio", title="threshold", kind=Kind.PERCENT, help="min.cleanable.dirty.ratio"),
    Column(name="clean_bytes", title="clean", kind=Kind.BYTES, help="Segments that begin below the first dirty offset"),
    Column(name="dirty_bytes", title="dirty", kind=Kind.BYTES, help="Segments that the next clean compacts"),
    Column(name="uncleanable_bytes", title="not cleanable", kind=Kind.BYTES, help="Segments that must wait"),
    Column(name="due_when", title="due", help="The moment or the further dirty bytes that make the log due"),
)
_DIRECTORY = Column(name="directory", kind=Kind.CODE, link=log_dir_link)


def _row(log: _Log) -> Row:
    found, plan = log.found, log.found.plan
    config, holding = found.settings.config, holding_transaction(found)
    head: dict[str, object] = {
        "log_dir": log.log_dir.key,
        "directory": str(log.log_dir.path),
        "log": found.name,
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "state": state_of(found).value,
        "why": reason_text(found),
        "is_due": found.is_due,
        "min_ratio": config.min_cleanable_dirty_ratio,
        "held_by_producer": None if holding is None else holding.producer_id,
        **stop_row(found.stopped_by),
    }
    return head | _plan_row(plan, log.cleaner)


def stop_row(stop: Obstacle | None) -> dict[str, object]:
    """Return the place of the damaged batch that stops a clean; ``stop_base`` is its segment's base offset."""
    known = None if stop is None else SegmentFileName.parse(stop.path.name)
    return {
        "stopped_by": None if stop is None else stop.what,
        "stop_file": None if stop is None else str(stop.path),
        "stop_base": None if known is None else known.offset,
        "stop_position": None if stop is None else stop.position,
        "stop_offset": None if stop is None else stop.offset,
    }


def _plan_row(plan: LogPlan | None, cleaner: KnownCleaner) -> dict[str, object]:
    """Return the plan's numbers, or None for each if the log cannot be read."""
    due = None if plan is None else next_due(plan)
    if plan is None or due is None:
        return dict.fromkeys(_NUMBERS)
    offsets = plan.end_offset - plan.first_dirty_offset if plan.dirty_bytes else 0
    numbers = (
        plan.dirty_ratio,
        plan.clean_bytes,
        plan.dirty_bytes,
        plan.uncleanable_bytes,
        plan.first_dirty_offset,
        plan.first_uncleanable_offset,
        plan.uncleanable_limit.value,
        plan.end_offset,
        due.at_ms,
        due.dirty_bytes_needed,
        None if due.waits_for is None else due.waits_for.value,
        due_text(due),
        offsets,
        -(-offsets // max(1, map_keys(cleaner.settings))),
    )
    return dict(zip(_NUMBERS, numbers, strict=True))


_NUMBERS = (
    "dirty_ratio",
    "clean_bytes",
    "dirty_bytes",
    "uncleanable_bytes",
    "first_dirty",
    "first_uncleanable",
    "limit",
    "clean_end",
    "due_at",
    "bytes_until_due",
    "due_waits_for",
    "due_when",
    "dirty_offsets",
    "cleans",
)


def _picture(logs: Sequence[_Log]) -> Picture | None:
    """Return the largest dirty ratios."""
    largest = sorted((log for log in logs if log.ratio), key=lambda log: -(log.ratio or 0))[:_MOST_BARS]
    names = ("log_dir", "log", "state", "why", "is_due", "dirty_ratio", "min_ratio", "dirty_bytes")
    items = [{name: row[name] for name in names} for row in map(_row, largest)]
    return Picture(items=items, draw=lambda: draw_dirty_ratios(items, url=_url)) if items else None
