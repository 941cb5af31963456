"""The page of one log directory: its identity and last shutdown, its small files, and the next start log by log.

The start is estimated from names and sizes in the background. Until that is done, the page shows the first logs alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.inspect.start_survey import StartAction, StartOutlook, survey_start
from tidelog.model import StorageError, TidelogError, TopicPartition
from tidelog.storage.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState
from tidelog.web import urls
from tidelog.web.jobs import JobProgress, StillRunningError
from tidelog.web.page import Choice, Column, FormField, Kind, Link, Page, Picture, Row, Section, Table
from tidelog.web.pages.log_dir_files import checkpoints_section, files_section, identity_facts
from tidelog.web.reports.cluster_facts import FACTS_AGE_MS
from tidelog.web.request import PageRequest
from tidelog.web.shown import size_text
from tidelog.web.sources import LogDir
from tidelog.web.svg.bars import draw_bars

_MOST_BARS = 20
_ANY = "any"
_ACTIONS = {
    StartAction.LOAD: "loads it as it is",
    StartAction.RECOVER: "recovers it: reads segments and rebuilds their indexes",
    StartAction.REMOVE: "removes it after file.delete.delay.ms",
    StartAction.KEEP: "leaves it alone",
    StartAction.REFUSE: "refuses to start: the name is not that of a log",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Survey:
    """``cleaned`` are the offsets of the cleaner's checkpoint, or its error."""

    logs: Sequence[StartOutlook]
    cleaned: Mapping[TopicPartition, int]
    cleaner_error: TidelogError | None


def log_dir_page(request: PageRequest) -> Page:
    """Return the page of the log directory that the path names."""
    log_dir = request.log_dir
    state = log_dir.state()
    names = log_dir.fs.list_directories(log_dir.path)
    query = request.query
    action = query.choice("action", (_ANY, *(one.value for one in StartAction)), _ANY)
    wanted = query.text("name")
    survey, notes = _survey(request, log_dir, state, names, is_needed=action != _ANY)
    return Page(
        title=str(log_dir.path),
        trail=[Link("Cluster", urls.CLUSTER)],
        facts=identity_facts(log_dir, state, names, None if survey is None else survey.logs),
        form=[
            FormField(name="name", title="Log", value=wanted, hint="part of a name"),
            FormField(
                name="action",
                title="The next start",
                value=action,
                choices=[
                    Choice(value=_ANY, title="any"),
                    *(Choice(value=one.value, title=one.value) for one in _ACTIONS),
                ],
            ),
        ],
        notes=[*notes, *_meta_notes(log_dir), *(f"{warning}." for warning in state.warnings)],
        sections=[
            _start_section(request, log_dir, state, names, survey),
            checkpoints_section(
                log_dir,
                state,
                names,
                {} if survey is None else survey.cleaned,
                None if survey is None else survey.cleaner_error,
                now_ms=request.now_ms,
            ),
            files_section(request, log_dir),
        ],
        refresh_seconds=1 if survey is None else None,
    )


def _survey(
    request: PageRequest, log_dir: LogDir, state: DirectoryState, names: Sequence[str], *, is_needed: bool
) -> tuple[_Survey | None, list[str]]:
    """Return the outlook of all logs, or None with a note. Raise StillRunningError if the query needs all."""

    def work(progress: JobProgress) -> _Survey:
        progress.expect(len(names), "directories")
        cleaned, error = _cleaned(log_dir)
        logs = survey_start(log_dir.fs, state, names, progress.advance)
        return _Survey(logs=sorted(logs, key=_importance), cleaned=cleaned, cleaner_error=error)

    is_held = state.condition is DirectoryCondition.HELD
    stats = None if is_held else tuple(read.stat for read in state.checkpoints.values())
    try:
        made = request.job(
            ("start", log_dir.key),
            work,
            title="planning the next start of the log directory",
            signature=(state.condition, tuple(names), stats),
            is_repeatable=True,
            max_age_ms=FACTS_AGE_MS if is_held else None,
        )
    except StillRunningError as running:
        if is_needed or request.query.text("start.sort").removeprefix("-") not in ("", "name"):
            raise
        return None, [f"The sizes of files are being read: {running.progress.share or 0:.0%} of the logs are done."]
    return made.value, []


def _cleaned(log_dir: LogDir) -> tuple[Mapping[TopicPartition, int], TidelogError | None]:
    try:
        return OffsetCheckpoint.read(log_dir.fs, log_dir.path / CLEANER_CHECKPOINT), None
    except StorageError as error:
        return {}, error


def _importance(log: StartOutlook) -> tuple[object, ...]:
    """Return the sort key: names that stop a start, then the bytes to recover, then all bytes."""
    return (log.action is not StartAction.REFUSE, -log.recover_bytes, -log.bytes, log.name)


def _meta_notes(log_dir: LogDir) -> list[str]:
    try:
        missing = log_dir.read_meta() is None
    except StorageError as error:
        return [f"{error}."]
    return ["There is no meta.properties, so the cluster and the broker are not known."] if missing else []


_KEYS: dict[str, Callable[[StartOutlook], Any]] = {
    "name": lambda log: log.name,
    "recover_bytes": lambda log: log.recover_bytes,
    "segments": lambda log: log.segments,
    "bytes": lambda log: log.bytes,
}


def _start_section(
    request: PageRequest, log_dir: LogDir, state: DirectoryState, names: Sequence[str], survey: _Survey | None
) -> Section:
    query = request.query
    wanted, action = query.text("name").lower(), query.text("action", _ANY)
    if survey is None:
        found = [name for name in names if wanted in name.lower()]
        some, paging = query.paged("start", found, keys={"name": lambda name: name}, sort="name")
        shown, logs = survey_start(log_dir.fs, state, some), []
        cleaned: Mapping[TopicPartition, int] = {}
    else:
        cleaned = survey.cleaned
        logs = [log for log in survey.logs if wanted in log.name.lower() and action in (_ANY, log.action.value)]
        shown, paging = query.paged("start", logs, keys=_KEYS)
    rows = [_row(log_dir, log, cleaned) for log in shown]
    return Section(
        name="start",
        title="The next start",
        text=_start_text(state, None if survey is None else survey.logs),
        picture=_picture(log_dir, logs),
        table=Table(columns=_columns(rows), rows=rows, paging=paging, empty="No log matches."),
    )


def _start_text(state: DirectoryState, logs: Sequence[StartOutlook] | None) -> str:
    match state.condition:
        case DirectoryCondition.HELD:
            first = (
                f"Process {state.holder} holds the directory, so nothing starts here now. If it were killed, the next"
                " start would do the following."
            )
        case DirectoryCondition.CLEAN:
            first = (
                "The last shutdown was clean: the next start loads each log as it is. Only the metadata log is always"
                " recovered."
            )
        case DirectoryCondition.UNCLEAN:
            first = (
                "The last shutdown was unclean: the next start reads each log from the segment of its recovery point"
                " on, checks every batch, and truncates the log at the first invalid one."
            )
    if logs is None:
        return first
    counts = Counter(log.action for log in logs)
    parts = [f"{counts[action]:,} × {action.value}" for action in StartAction if counts[action]]
    total = sum(log.recover_bytes for log in logs)
    return (
        f"{first} In all: {', '.join(parts) or 'no log'}; {size_text(total)} to recover. The bars are the largest logs."
    )


def _columns(rows: Sequence[Row]) -> list[Column]:
    columns = [
        Column(
            name="name",
            title="directory",
            kind=Kind.CODE,
            link=lambda row: None if row["url"] is None else str(row["url"]),
        ),
        Column(name="purpose"),
        Column(name="action", title="the next start"),
        Column(name="recover_bytes", title="to recover", kind=Kind.BYTES, help="Sizes of the .log files to read"),
        Column(name="recovery_point", kind=Kind.NUMBER, help="recovery-point-offset-checkpoint"),
        Column(name="log_start", kind=Kind.NUMBER, help="log-start-offset-checkpoint"),
        Column(name="high_watermark", kind=Kind.NUMBER, help="replication-offset-checkpoint"),
        Column(name="cleaned", kind=Kind.NUMBER, help="cleaner-offset-checkpoint"),
        Column(name="segments", kind=Kind.NUMBER),
        Column(name="bytes", title="space", kind=Kind.BYTES),
        Column(name="leftovers", title="leftover files", kind=Kind.NUMBER, help="The start removes or renames them"),
        Column(name="problem"),
    ]
    optional = {"cleaned", "leftovers", "problem"}
    return [one for one in columns if one.name not in optional or any(row[one.name] for row in rows)]


def _row(log_dir: LogDir, log: StartOutlook, cleaned: Mapping[TopicPartition, int]) -> Row:
    partition = log.partition
    return {
        "name": log.name,
        "url": None if log.purpose is None else urls.log_url(log_dir.key, log.name),
        "topic": None if partition is None else partition.topic,
        "partition": None if partition is None else partition.partition,
        "purpose": _purpose(log),
        "action": log.action.value,
        "does": _ACTIONS[log.action],
        "recover_segments": log.recover_segments,
        "recover_bytes": log.recover_bytes,
        "recovery_point": log.recovery_point,
        "log_start": log.log_start,
        "high_watermark": log.high_watermark,
        "cleaned": None if partition is None else cleaned.get(partition),
        "segments": log.segments,
        "log_bytes": log.log_bytes,
        "bytes": log.bytes,
        "leftovers": log.leftovers,
        "leftover_bytes": log.leftover_bytes,
        "problem": None if log.error is None else str(log.error),
    }


def _purpose(log: StartOutlook) -> str:
    if log.purpose is None:
        return "no log"
    return log.purpose.value.removeprefix("-") or "live"


def _picture(log_dir: LogDir, logs: Sequence[StartOutlook]) -> Picture | None:
    largest = sorted((log for log in logs if log.bytes), key=lambda log: -log.bytes)[:_MOST_BARS]
    items: list[Row] = [{"name": log.name, "bytes": log.bytes, "is_log": log.purpose is not None} for log in largest]

    def link(item: Row) -> str | None:
        return urls.log_url(log_dir.key, str(item["name"])) if item["is_log"] else None

    def draw() -> str:
        return draw_bars(items, title="Space by log", name="name", value="bytes", text=size_text, url=link)

    return Picture(items=items, draw=draw) if items else None
