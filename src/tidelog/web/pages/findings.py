"""The pages of findings: all given log directories after a click, and one log at once.

Checking reads every byte. So the page of all directories first says how much that is, and checks when its URL has
``run=1``. The report is kept, and shown with the time at which it was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, cast

from tidelog.inspect.space import PartitionSpace
from tidelog.inspect.verify import verify_directory
from tidelog.inspect.verify.directory_check import SETTLED, VerifiedDirectory, log_bytes, verify_log
from tidelog.model import CancelledError, TidelogError
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY
from tidelog.storage.segment.file_names import DirectoryPurpose
from tidelog.web import urls
from tidelog.web.jobs import Finished, JobProgress, StillRunningError
from tidelog.web.page import Choice, Column, Fact, FormField, Kind, Link, Page, Row, Section, Table
from tidelog.web.pages.cluster import space_of_all
from tidelog.web.reports.log_findings import (
    SEVERITIES,
    LogFindings,
    PlacedFinding,
    all_findings,
    damage_picture,
    finding_columns,
    finding_row,
    log_findings,
    log_sizes,
    severity_counts,
    severity_rank,
)
from tidelog.web.request import PageRequest
from tidelog.web.shown import size_text
from tidelog.web.sources import LogDir

_KEY: Final = "findings"
_FRESH_MS: Final = 5_000
_DAMAGE_TEXT: Final = (
    "Each bar is a log from its first byte to its last one. A marked range has findings. Its width is that of the"
    " bytes, and at least a few pixels. A click shows the bytes."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Report:
    directories: Sequence[tuple[LogDir, VerifiedDirectory]]
    logs: Sequence[LogFindings]
    bytes: int
    errors: Sequence[str]
    """Sentences about the directories that cannot be read."""


def findings_page(request: PageRequest) -> Page:
    """Return the findings of all log directories, or before that the bytes that checking them reads."""
    kept = request.jobs.kept(_KEY)
    if request.query.flag("run") or kept is not None:
        is_wanted = request.query.flag("run")
        made = _verified(request) if is_wanted or kept is None else cast(Finished[_Report], kept)
        return _report_page(request, made)
    request.query.integer("newer", -1, minimum=-1)
    try:
        spaces = space_of_all(request)
    except StillRunningError as running:
        share = running.progress.share or 0
        return _plan_page(request, None, [f"The sizes of files are being read: {share:.0%} are done."])
    return _plan_page(request, spaces, [])


def _plan_page(
    request: PageRequest, spaces: Mapping[str, Sequence[PartitionSpace]] | None, notes: Sequence[str]
) -> Page:
    rows = [_plan_row(one, None if spaces is None else spaces[one.key]) for one in request.sources.log_dirs]
    logs, total = (None if spaces is None else sum(row[name] or 0 for row in rows) for name in ("logs", "bytes"))
    about = "Check everything" if total is None else f"Check everything: read {size_text(total)}"
    return Page(
        title="Findings",
        trail=[Link(title="Cluster", url=urls.CLUSTER)],
        facts=[
            Fact(name="logs", value=logs, kind=Kind.NUMBER),
            Fact(name="bytes_to_read", title="bytes to read", value=total, kind=Kind.BYTES),
        ],
        notes=notes,
        sections=[
            Section(
                name="plan",
                title="Before the check",
                text=(
                    "The check reads every header, CRC and record, and compares indexes, snapshots, leader epochs and"
                    " checkpoints with the logs. It runs in the background and reads as fast as it can, so on a"
                    " broker's machine choose the time. The findings of one log are on the log's own page."
                ),
                links=[Link(title=about, url=urls.with_query(urls.FINDINGS, {"run": 1}))],
                table=Table(
                    columns=[
                        Column(
                            name="path",
                            title="directory",
                            kind=Kind.CODE,
                            link=lambda row: urls.log_dir_url(str(row["key"])),
                        ),
                        Column(name="logs", kind=Kind.NUMBER),
                        Column(name="bytes", title="bytes to read", kind=Kind.BYTES),
                    ],
                    rows=rows,
                ),
            )
        ],
        refresh_seconds=1 if spaces is None else None,
    )


def _plan_row(log_dir: LogDir, spaces: Sequence[PartitionSpace] | None) -> dict[str, Any]:
    live = [one for one in spaces or () if one.purpose is DirectoryPurpose.LIVE]
    return {
        "key": log_dir.key,
        "path": str(log_dir.path),
        "logs": None if spaces is None else len(live),
        "bytes": None if spaces is None else sum(one.log_bytes for one in live),
    }


def _verified(request: PageRequest) -> Finished[_Report]:
    def work(progress: JobProgress) -> _Report:
        directories: list[tuple[LogDir, VerifiedDirectory]] = []
        errors: list[str] = []
        total = 0
        for one in request.sources.log_dirs:
            try:
                total += log_bytes(one.fs, one.path)
                progress.expect(total)
            except TidelogError:
                continue  # the check names the error
        for one in request.sources.log_dirs:
            try:
                directories.append((one, verify_directory(one.fs, one.path, advance=progress.advance)))
            except CancelledError:
                raise
            except TidelogError as error:
                errors.append(f"{one.path} cannot be checked: {error}.")
        logs = [log_findings(one.fs, one, part) for one, found in directories for part in found.partitions]
        return _Report(directories=directories, logs=logs, bytes=total, errors=errors)

    return request.job(_KEY, work, title="checking every file", is_repeatable=True)


def _report_page(request: PageRequest, made: Finished[_Report]) -> Page:
    report = made.value
    several = len(request.sources.log_dirs) > 1
    every = list(all_findings(report.directories, report.logs))
    severity = request.query.choice("severity", ("", *SEVERITIES), "")
    wanted, key = request.query.text("log"), request.query.text("dir")
    shown = [
        one
        for one in every
        if (not severity or one.finding.severity.value == severity)
        and (not wanted or wanted in one.log_name)
        and (not key or one.log_dir.key == key)
    ]
    logs = [one for one in report.logs if (not wanted or wanted in one.name) and (not key or one.log_dir.key == key)]
    return Page(
        title="Findings",
        trail=[Link(title="Cluster", url=urls.CLUSTER)],
        notes=report.errors,
        links=_again(request, made, urls.FINDINGS, {"run": 1}),
        facts=[
            *_count_facts(every),
            Fact(name="logs", title="logs checked", value=len(report.logs), kind=Kind.NUMBER),
            Fact(
                name="settled_logs",
                title="logs loaded as they are",
                value=sum(one.verified.outlook == SETTLED for one in report.logs),
                kind=Kind.NUMBER,
                help="The next start of a broker does not change these logs",
            ),
            Fact(name="bytes_read", value=report.bytes, kind=Kind.BYTES),
            *_time_facts(made),
        ],
        form=[
            FormField(
                name="severity",
                title="Severity",
                value=severity,
                choices=[Choice(value="", title="all"), *(Choice(value=one, title=one) for one in SEVERITIES)],
            ),
            FormField(name="log", title="Log", value=wanted, hint="part of a name"),
            *_directory_field(request, key),
        ],
        sections=[
            Section(
                name="damage",
                title="Damaged ranges",
                text=_DAMAGE_TEXT if any(one.is_damaged for one in logs) else "No .log file has a finding.",
                picture=damage_picture(logs, with_directory=several),
            ),
            _findings_section(request, shown, with_log=True, with_directory=several),
            _logs_section(request, logs, with_directory=several),
        ],
    )


def _again(request: PageRequest, made: Finished[Any], url: str, query: Mapping[str, object]) -> list[Link]:
    """Return a link that makes the report again, unless it is from just now."""
    if request.now_ms - made.made_at_ms - made.took_ms < _FRESH_MS:
        return []
    return [Link(title="Check again", url=urls.with_query(url, {**query, "newer": made.made_at_ms}))]


def _directory_field(request: PageRequest, key: str) -> list[FormField]:
    log_dirs = request.sources.log_dirs
    request.query.choice("dir", ("", *(one.key for one in log_dirs)), "")
    if len(log_dirs) < 2:
        return []
    choices = [Choice(value="", title="all"), *(Choice(value=one.key, title=str(one.path)) for one in log_dirs)]
    return [FormField(name="dir", title="Directory", value=key, choices=choices)]


def _count_facts(findings: Sequence[PlacedFinding]) -> list[Fact]:
    counts = severity_counts(findings)
    helps = {
        "error": "The file contradicts itself or the log",
        "warning": "Unusual, but Kafka accepts it",
        "note": "Expected after a crash",
    }
    return [
        Fact(name=f"{severity}s", value=count, kind=Kind.NUMBER, help=helps[severity])
        for severity, count in counts.items()
    ]


def _time_facts(made: Finished[Any]) -> list[Fact]:
    return [
        Fact(name="checked_at", value=made.made_at_ms, kind=Kind.TIME),
        Fact(name="took", value=made.took_ms, kind=Kind.DURATION),
    ]


def _findings_section(
    request: PageRequest, findings: Sequence[PlacedFinding], *, with_log: bool, with_directory: bool
) -> Section:
    keys: dict[str, Callable[[PlacedFinding], Any]] = {
        "severity": lambda one: severity_rank(one.finding.severity),
        "log": lambda one: one.log_name,
        "file": lambda one: (one.log_name, one.finding.path.name, one.finding.position or 0),
        "position": lambda one: one.finding.position,
        "offset": lambda one: one.finding.offset,
    }
    shown, paging = request.query.paged("findings", findings, keys=keys, sort="severity")
    return Section(
        name="findings",
        title="Findings",
        table=Table(
            columns=finding_columns(with_log=with_log, with_directory=with_directory),
            rows=[finding_row(request.sources, one) for one in shown],
            paging=paging,
            empty="There is no finding.",
        ),
    )


def _logs_section(request: PageRequest, logs: Sequence[LogFindings], *, with_directory: bool) -> Section:
    listed = [one for one in logs if one.verified.findings or one.verified.outlook != SETTLED]
    listed.sort(key=lambda one: tuple(-one.count(severity) for severity in SEVERITIES))
    keys: dict[str, Callable[[LogFindings], Any]] = {
        "log": lambda one: one.name,
        **{f"{severity}s": partial(_count_of, severity) for severity in SEVERITIES},
    }
    shown, paging = request.query.paged("logs", listed, keys=keys)
    return Section(
        name="logs",
        title="The next start",
        text=(
            "The actions of a broker on each log at its next start. A log without findings that is loaded as it is has"
            " no row."
        ),
        table=Table(
            columns=[
                Column(
                    name="log",
                    kind=Kind.CODE,
                    link=lambda row: urls.log_part_url(str(row["log_dir"]), str(row["log"]), "findings"),
                ),
                *([Column(name="directory", kind=Kind.CODE)] if with_directory else []),
                Column(name="log_start", kind=Kind.NUMBER),
                Column(name="log_end", kind=Kind.NUMBER),
                *(Column(name=f"{severity}s", kind=Kind.NUMBER) for severity in SEVERITIES),
                Column(name="outlook", title="next start"),
            ],
            rows=[_log_row(one) for one in shown],
            paging=paging,
            empty="A broker loads every log as it is, and none has a finding.",
        ),
    )


def _count_of(severity: str, log: LogFindings) -> int:
    return log.count(severity)


def _log_row(log: LogFindings) -> Row:
    return {
        "log_dir": log.log_dir.key,
        "directory": str(log.log_dir.path),
        "log": log.name,
        "log_start": log.verified.log_start,
        "log_end": log.verified.log_end,
        **{f"{severity}s": log.count(severity) for severity in SEVERITIES},
        "outlook": log.verified.outlook,
    }


def log_findings_page(request: PageRequest) -> Page:
    """Return the findings of one log. The check starts with the first request."""
    log_dir, name, partition = request.log_dir, request.log_name, request.partition

    def work(progress: JobProgress) -> LogFindings:
        progress.expect(sum(log_sizes(log_dir.fs, log_dir.path / name).values()))
        return log_findings(log_dir.fs, log_dir, verify_log(log_dir.fs, log_dir.path, name, progress.advance))

    made = request.job(
        ("findings", log_dir.key, name),
        work,
        title=f"checking every file of {name}",
        signature=None if log_dir.is_held else log_dir.signature(name),
        is_repeatable=True,
    )
    log = made.value
    findings = [PlacedFinding(finding, log_dir, log) for finding in log.verified.findings]
    severity = request.query.choice("severity", ("", *SEVERITIES), "")
    shown = [one for one in findings if not severity or one.finding.severity.value == severity]
    has_topic_page = name != METADATA_DIRECTORY and bool(request.sources.holders(partition))
    counted = Counter(one.finding.path.name for one in findings)
    return Page(
        title="Findings",
        trail=[
            Link(title="Cluster", url=urls.CLUSTER),
            *([Link(title=partition.topic, url=urls.topic_url(partition.topic))] if has_topic_page else []),
            Link(title=str(log_dir.path), url=urls.log_dir_url(log_dir.key)),
            Link(title=name, url=urls.log_url(log_dir.key, name)),
        ],
        links=_again(request, made, urls.log_part_url(log_dir.key, name, "findings"), {}),
        facts=[
            *_count_facts(findings),
            Fact(name="files", title="files with findings", value=len(counted), kind=Kind.NUMBER),
            Fact(name="outlook", title="next start", value=log.verified.outlook),
            Fact(name="log_start", value=log.verified.log_start, kind=Kind.NUMBER),
            Fact(name="log_end", value=log.verified.log_end, kind=Kind.NUMBER),
            *_time_facts(made),
        ],
        form=[
            FormField(
                name="severity",
                title="Severity",
                value=severity,
                choices=[Choice(value="", title="all"), *(Choice(value=one, title=one) for one in SEVERITIES)],
            )
        ],
        sections=[
            Section(
                name="damage",
                title="Damaged ranges",
                text=_DAMAGE_TEXT if log.is_damaged else "No .log file has a finding.",
                picture=damage_picture([log], with_directory=False),
            ),
            _findings_section(request, shown, with_log=False, with_directory=False),
        ],
    )
