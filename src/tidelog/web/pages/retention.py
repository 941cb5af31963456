"""The page of retention: the rule that keeps each segment, and the bytes that go at the next check, soon, or never."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tidelog.inspect.durations import duration_text
from tidelog.inspect.retention.sentences import limit_text
from tidelog.inspect.retention.summary import Keeper, LogRetention, Share
from tidelog.inspect.retention.totals import DAY_MS, RetentionTotals, added_up, freed_steps
from tidelog.inspect.space import PartitionSpace
from tidelog.storage.log.change.retention import deletes_by_policy
from tidelog.storage.segment.file_names import DirectoryPurpose
from tidelog.web import urls
from tidelog.web.page import Column, Fact, FormField, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.row_links import log_column, log_dir_link, topic_column
from tidelog.web.reports.cluster_facts import is_live, known_settings
from tidelog.web.reports.retention_survey import (
    RETENTION_BYTES,
    RETENTION_MS,
    RetentionSurvey,
    Tried,
    survey_all,
    tried_settings,
)
from tidelog.web.request import PageRequest
from tidelog.web.shown import size_text
from tidelog.web.svg.bars import draw_bars
from tidelog.web.svg.freed_bytes import draw_freed_bytes
from tidelog.web.svg.runs import MOST_SHAPES

_MOST_ERRORS = 10
_HORIZONS = (7, 30, 365)
"""The days that the picture of freed bytes may show."""

_KEPT_BECAUSE = {
    Keeper.NEXT_CHECK: "the next check deletes it",
    Keeper.EMPTY: "a log always keeps one segment",
    Keeper.HIGH_WATERMARK: "a rule applies, and records above the high watermark are never deleted",
    Keeper.SNAPSHOTS: "KRaft deletes it after a snapshot",
    Keeper.POLICY: "cleanup.policy has no delete: only compaction and DeleteRecords free its bytes",
    Keeper.FUTURE: "a record has a timestamp in the future, and later segments wait for that segment",
    Keeper.TIME: "it is younger than retention.ms",
    Keeper.SIZE: "retention.ms is -1, and too few bytes follow it for retention.bytes",
    Keeper.NO_LIMIT: "retention.ms and retention.bytes are -1",
}


def retention_page(request: PageRequest) -> Page:
    """Return the page of all logs' retention."""
    tried = tried_settings(request.query)
    days = request.query.integer("days", 0, maximum=36_500)
    wanted = request.query.text("topic")
    made = survey_all(request, tried)
    survey = made.value
    topics = [one for one in survey.topics if wanted.lower() in one.topic.lower()]
    logs = [one for one in survey.logs if wanted.lower() in one.topic.lower()]
    together = added_up(topics) if wanted else survey.everything
    return Page(
        title="Retention",
        trail=[Link("Cluster", urls.CLUSTER)],
        facts=_facts(survey, together),
        form=_form(request, wanted, days),
        links=[Link("Read again", request.query.with_changes({"newer": str(request.now_ms)}))],
        notes=list(_notes(request, tried, survey, together)),
        sections=[
            _now_section(request, survey, together, wanted),
            _freed_section(request, survey, together, days),
            _rules_section(together),
            _topics_section(request, topics),
            _logs_section(request, survey, logs),
        ],
    )


def _form(request: PageRequest, topic: str, days: int) -> list[FormField]:
    query = request.query
    return [
        FormField(name="topic", title="Topic", value=topic, hint="part of a name"),
        FormField(name="now", title="As of", value=query.text("now"), hint="2026-12-01T00:00Z"),
        FormField(name=RETENTION_MS, title="Try retention.ms", value=query.text(RETENTION_MS), hint="86400000 or 1d"),
        FormField(
            name=RETENTION_BYTES, title="Try retention.bytes", value=query.text(RETENTION_BYTES), hint="1073741824"
        ),
        FormField(name="days", title="Days of the picture", value=str(days) if days else "", hint="7"),
    ]


def _facts(survey: RetentionSurvey, together: RetentionTotals) -> list[Fact]:
    future = together.kept.get(Keeper.FUTURE, Share())
    return [
        Fact(name="as_of", title="as of", value=survey.now_ms, kind=Kind.TIME),
        Fact(name="logs", value=len(together.logs), kind=Kind.NUMBER),
        Fact(name="segments", value=together.total.count, kind=Kind.NUMBER),
        Fact(name="bytes", title="records", value=together.total.bytes, kind=Kind.BYTES, help="Bytes of .log files"),
        Fact(name="next_bytes", title="the next check frees", value=together.next_check.bytes, kind=Kind.BYTES),
        Fact(name="day_bytes", title="within a day", value=together.day.bytes, kind=Kind.BYTES),
        Fact(name="week_bytes", title="within a week", value=together.week.bytes, kind=Kind.BYTES),
        Fact(
            name="for_ever_bytes",
            title="kept for ever",
            value=together.for_ever.bytes,
            kind=Kind.BYTES,
            help="Neither time nor appends delete it, as the settings are",
        ),
        Fact(
            name="future_segments",
            title="segments kept by future timestamps",
            value=future.count,
            kind=Kind.NUMBER,
        ),
        Fact(name="first_goes_at", title="next deletion by time", value=together.first_goes_at_ms, kind=Kind.TIME),
    ]


def _notes(request: PageRequest, tried: Tried, survey: RetentionSurvey, together: RetentionTotals) -> Iterable[str]:
    if tried.overrides:
        text = ", ".join(f"{key}={value}" for key, value in tried.overrides.items())
        yield f"The page tries {text} for every topic. Nothing is changed."
    settings = known_settings(request).values()
    if all(sources.metadata_from is None for sources in settings):
        yield (
            "There is no cluster metadata here, so Kafka's defaults count as the topics' settings. Set others in the"
            " form."
        )
    yield from (f"{warning}." for warning in survey.warnings)
    failed = [log for log in together.logs if log.error is not None]
    yield from (f"{log.partition} cannot be read: {log.error}." for log in failed[:_MOST_ERRORS])
    if len(failed) > _MOST_ERRORS:
        yield f"{len(failed) - _MOST_ERRORS:,} further logs cannot be read."


def _now_section(request: PageRequest, survey: RetentionSurvey, together: RetentionTotals, wanted: str) -> Section:
    """Return the section about a full disk: the bytes that no rule keeps."""
    check = "at its next check, every 5 minutes" if is_live(request) else "30 seconds after its start"
    leaving = [one for one in survey.leaving if wanted.lower() in one.partition.topic.lower()]
    removed = _space_of(leaving, DirectoryPurpose.DELETE)
    soon = "A running broker removes them within a minute, or its next start does."
    found = [
        ("segments", together.next_check, "Segments that retention deletes next", f"The broker removes them {check}."),
        ("deleted", together.deleted_files, "Files with the suffix .deleted", soon),
        (
            "unfinished",
            together.unfinished_files,
            "Files of an interrupted clean or write",
            "The next start removes them.",
        ),
        ("delete", removed, "Directories of deleted topics (-delete)", soon),
    ]
    rows: list[Row] = [
        {"kind": kind, "name": title, "count": share.count, "bytes": share.bytes, "removed": how}
        for kind, share, title, how in found
    ]
    stray = _space_of(leaving, DirectoryPurpose.STRAY)
    if stray.count:
        how = "Nothing removes them. They may hold the last copy of a record: look at them first."
        title = "Directories that the metadata places elsewhere (-stray)"
        rows.append({"kind": "stray", "name": title, "count": stray.count, "bytes": stray.bytes, "removed": how})
    total = sum(share.bytes for _, share, _, _ in found)
    return Section(
        name="now",
        title=f"If the disk is full: {size_text(total)} may go now",
        text=(
            "No rule keeps these bytes. All others hold records that a rule still keeps: a lower retention.ms or"
            " retention.bytes of a topic frees more, and the form above shows how much. Compaction may free more, too."
            " Do not remove files of a log by hand: its broker would find a gap."
        ),
        links=[Link("Cleaner", urls.CLEANER)],
        table=Table(
            columns=[
                Column(name="name", title="bytes without a keeper"),
                Column(name="count", kind=Kind.NUMBER),
                Column(name="bytes", kind=Kind.BYTES),
                Column(name="removed", title="removed by"),
            ],
            rows=rows,
        ),
    )


def _space_of(leaving: Iterable[PartitionSpace], purpose: DirectoryPurpose) -> Share:
    return sum((Share(1, one.bytes) for one in leaving if one.purpose is purpose), Share())


def _freed_section(request: PageRequest, survey: RetentionSurvey, together: RetentionTotals, days: int) -> Section:
    horizon = (days or _fitting_days(survey, together)) * DAY_MS
    steps = freed_steps(together, survey.now_ms, horizon, MOST_SHAPES)
    items: list[Row] = [
        {"at": step.at_ms, "segments": step.segments, "bytes": step.bytes, "total": step.total} for step in steps
    ]
    shown, paging = request.query.paged("freed", items, size=20)
    now_ms = survey.now_ms
    return Section(
        name="freed",
        title=f"Bytes freed within {duration_text(horizon)}",
        text=(
            "Each step is a deletion by time, if nothing is appended: a new record in the active segment makes it"
            " younger. The first step at the left border is the next check."
        ),
        picture=Picture(items=items, draw=lambda: draw_freed_bytes(items, now_ms=now_ms, horizon_ms=horizon))
        if items
        else None,
        is_folded=True,
        table=Table(
            columns=[
                Column(name="at", title="time", kind=Kind.TIME),
                Column(name="segments", kind=Kind.NUMBER),
                Column(name="bytes", title="frees", kind=Kind.BYTES),
                Column(name="total", title="in all", kind=Kind.BYTES),
            ],
            rows=shown,
            paging=paging,
            empty="No rule frees bytes in this time.",
        ),
    )


def _fitting_days(survey: RetentionSurvey, together: RetentionTotals) -> int:
    """Return the smallest horizon with a deletion by time in it, at least a week."""
    first = together.first_goes_at_ms
    fitting = (days for days in _HORIZONS if first is None or first <= survey.now_ms + days * DAY_MS)
    return next(fitting, _HORIZONS[-1])


def _rules_section(together: RetentionTotals) -> Section:
    rows: list[dict[str, object]] = [
        {
            "keeper": keeper.value,
            "segments": share.count,
            "bytes": share.bytes,
            "for_ever": keeper.is_for_ever,
            "why": _KEPT_BECAUSE[keeper],
        }
        for keeper, share in sorted(together.kept.items(), key=lambda pair: -pair[1].bytes)
    ]
    items: list[Row] = [{"keeper": row["keeper"], "bytes": row["bytes"]} for row in rows if row["bytes"]]
    return Section(
        name="rules",
        title="The rule that keeps a segment",
        text="Each segment counts once: for the rule whose change would let it go.",
        picture=Picture(
            items=items,
            draw=lambda: draw_bars(items, title="Bytes by rule", name="keeper", value="bytes", text=size_text),
        )
        if items
        else None,
        table=Table(
            columns=[
                Column(name="keeper", title="rule"),
                Column(name="segments", kind=Kind.NUMBER),
                Column(name="bytes", kind=Kind.BYTES),
                Column(name="for_ever", title="for ever"),
                Column(name="why"),
            ],
            rows=rows,
            empty="There are no segments.",
        ),
    )


_SHARES: dict[str, Callable[[RetentionTotals], Any]] = {
    "bytes": lambda totals: totals.total.bytes,
    "next_bytes": lambda totals: totals.next_check.bytes,
    "day_bytes": lambda totals: totals.day.bytes,
    "week_bytes": lambda totals: totals.week.bytes,
    "for_ever_bytes": lambda totals: totals.for_ever.bytes,
}
_SHARE_COLUMNS = (
    Column(name="bytes", title="records", kind=Kind.BYTES),
    Column(name="next_bytes", title="next check", kind=Kind.BYTES, help="Bytes that the next check deletes"),
    Column(name="next_segments", title="segments", kind=Kind.NUMBER, help="Segments that the next check deletes"),
    Column(name="day_bytes", title="within a day", kind=Kind.BYTES),
    Column(name="week_bytes", title="within a week", kind=Kind.BYTES),
    Column(name="for_ever_bytes", title="for ever", kind=Kind.BYTES),
    Column(name="first_goes_at", title="next by time", kind=Kind.TIME),
    Column(name="settings"),
    Column(name="kept_by", title="kept by"),
)


def _topics_section(request: PageRequest, topics: Sequence[RetentionTotals]) -> Section:
    keys: dict[str, Callable[[RetentionTotals], Any]] = {
        "topic": lambda totals: totals.topic,
        **_SHARES,
    }
    shown, paging = request.query.paged("topics", topics, keys=keys, size=50)
    rows = [{"topic": one.topic, "logs": len(one.logs), **_totals_row(one)} for one in shown]
    return Section(
        name="topics",
        title="Topics",
        text="First come the topics that free most bytes at the next check, then within a day and a week.",
        table=Table(
            columns=[
                topic_column(),
                Column(name="logs", kind=Kind.NUMBER),
                *_SHARE_COLUMNS,
            ],
            rows=rows,
            paging=paging,
            empty="No topic matches.",
        ),
    )


def _logs_section(request: PageRequest, survey: RetentionSurvey, logs: Sequence[RetentionTotals]) -> Section:
    keys: dict[str, Callable[[RetentionTotals], Any]] = {"log": lambda totals: totals.logs[0].partition, **_SHARES}
    shown, paging = request.query.paged("logs", logs, keys=keys, size=50)
    rows = [_log_row(survey, one) for one in shown]
    several = len(request.sources.log_dirs) > 1
    where = Column(name="directory", kind=Kind.CODE, link=log_dir_link)
    return Section(
        name="logs",
        title="Logs",
        table=Table(
            columns=[
                log_column(),
                *([where] if several else []),
                *_SHARE_COLUMNS,
            ],
            rows=rows,
            paging=paging,
            empty="No topic matches.",
        ),
    )


def _log_row(survey: RetentionSurvey, totals: RetentionTotals) -> Row:
    [log] = totals.logs
    log_dir = survey.dir_of(log)
    return {
        "log_dir": log_dir.key,
        "directory": str(log_dir.path),
        "log": log.partition.directory_name,
        **_totals_row(totals),
        "error": None if log.error is None else str(log.error),
    }


def _totals_row(totals: RetentionTotals) -> dict[str, object]:
    return {
        "segments": totals.total.count,
        "bytes": totals.total.bytes,
        "next_segments": totals.next_check.count,
        "next_bytes": totals.next_check.bytes,
        "day_bytes": totals.day.bytes,
        "week_bytes": totals.week.bytes,
        "for_ever_bytes": totals.for_ever.bytes,
        "future_segments": totals.kept.get(Keeper.FUTURE, Share()).count,
        "first_goes_at": totals.first_goes_at_ms,
        "settings": _settings_text(totals.logs[0]),
        "kept_by": _kept_text(totals),
        "kept_bytes": {keeper.value: share.bytes for keeper, share in totals.kept.items()},
    }


def _settings_text(log: LogRetention) -> str:
    """Return the settings that decide, such as ``delete, 7 days, 1,073,741,824 bytes`` or ``delete, no limit``."""
    config = log.settings.config
    policy = ",".join(sorted(config.cleanup_policy)) or "no policy"
    if not deletes_by_policy(config):
        return policy
    limits = [limit_text(config.retention_ms)] if config.retention_ms >= 0 else []
    limits += [f"{config.retention_bytes:,} bytes"] if config.retention_bytes >= 0 else []
    return ", ".join([policy, *(limits or ["no limit"])])


def _kept_text(totals: RetentionTotals) -> str:
    """Return the rules that keep segments, with their bytes."""
    if any(log.error is not None for log in totals.logs):
        return "unreadable"
    kept = [(keeper, share) for keeper, share in totals.kept.items() if keeper is not Keeper.NEXT_CHECK]
    return ", ".join(
        f"{keeper.value} ({size_text(share.bytes)})" for keeper, share in sorted(kept, key=lambda pair: -pair[1].bytes)
    )
