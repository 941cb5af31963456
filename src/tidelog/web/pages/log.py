"""The page of one partition's log: its facts, the segment ribbon, and a table of each of the log's parts.

The report is made in the background and kept until the files change; while a broker runs it is read again when it gets
old. The outlook of each segment is computed for the moment of every request, without reading.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.inspect.bounds import BoundKind, parse_time
from tidelog.inspect.log.report import LogReport, read_log_report
from tidelog.inspect.retention import Cause, DeletionTrigger, PartitionRetention
from tidelog.model import CancelledError, ConfigError, FileMissingError, TidelogError
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.manager.survey.setting_sources import SettingSources, SourcedConfig
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName
from tidelog.web import urls
from tidelog.web.jobs import BusyError, JobProgress
from tidelog.web.page import Fact, FormField, Kind, Link, Page
from tidelog.web.pages.cluster import condition_text
from tidelog.web.pages.listed_log import listed_log_page
from tidelog.web.pages.log_parts import (
    epochs_section,
    files_section,
    offsets_section,
    settings_section,
    snapshots_section,
    transactions_section,
)
from tidelog.web.pages.log_segments import segments_section
from tidelog.web.pages.log_start import start_section
from tidelog.web.reports.log_reports import log_report, log_trail
from tidelog.web.request import PageRequest
from tidelog.web.sources import NotFoundError

_MOST_ERRORS = 10
_PURPOSES = {
    DirectoryPurpose.FUTURE: (
        "This is the future log of a move between log directories: a copy that grows until it has caught up. It then"
        " replaces the partition's log in the other log directory, and loses the suffix -future. If the move is"
        " cancelled, the broker deletes it."
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSubject:
    """The subject of the page: the report with its age, the retention at the page's moment, and the notes so far."""

    request: PageRequest
    report: LogReport
    retention: PartitionRetention
    made_at_ms: int
    judged_at_ms: int
    notes: tuple[str, ...]


def log_page(request: PageRequest) -> Page:
    """Return the page of the directory of one partition's log."""
    request.log_dir.directory(request.log_name)
    purpose = PartitionDirectoryName.parse(request.log_name).purpose
    if purpose in (DirectoryPurpose.DELETE, DirectoryPurpose.STRAY):
        return listed_log_page(request, log_trail(request)[:-1], None)
    try:
        subject = _read(request)
    except (ConfigError, NotFoundError, FileMissingError, BusyError, CancelledError):
        raise
    except TidelogError as error:
        return listed_log_page(request, log_trail(request)[:-1], error)
    report, retention = subject.report, subject.retention
    return Page(
        title=request.log_name,
        trail=log_trail(request)[:-1],
        facts=_facts(subject),
        form=[
            FormField(
                name="now",
                title="Judge retention as of",
                value=request.query.text("now"),
                hint="now, or a date and time",
            )
        ],
        notes=[*([_PURPOSES[purpose]] if purpose in _PURPOSES else []), *subject.notes, *_notes(subject)],
        links=_links(request),
        sections=[
            segments_section(request, report, retention),
            offsets_section(request, report),
            start_section(request, report),
            transactions_section(request, report, subject.judged_at_ms),
            epochs_section(request, report),
            snapshots_section(request, report),
            settings_section(retention),
            files_section(request, report),
        ],
    )


def _read(request: PageRequest) -> LogSubject:
    partition = request.partition
    wanted = _moment(request.query.text("now"))
    now_ms = request.now_ms
    judged_at_ms = now_ms if wanted is None else wanted
    past_ms = judged_at_ms if judged_at_ms < now_ms else None  # more records lie in the future of a past moment
    settings, sourced, notes = _settings(request)

    def work(view: LogView, progress: JobProgress) -> LogReport:
        return read_log_report(
            view,
            partition,
            settings,
            now_ms=now_ms if past_ms is None else past_ms,
            expect=progress.expect,
            advance=progress.advance,
        )

    done = log_report(request, ("segments", past_ms), work, title="reading the segments")
    return LogSubject(
        request=request,
        report=done.value,
        retention=done.value.retention.judged(judged_at_ms, sourced),
        made_at_ms=done.made_at_ms,
        judged_at_ms=judged_at_ms,
        notes=notes,
    )


def _moment(text: str) -> int | None:
    if not text:
        return None
    bound = parse_time(text)
    if bound.kind is not BoundKind.TIMESTAMP:
        raise ConfigError(f"the parameter now must be a time, not {text!r}")
    return bound.number


def _settings(request: PageRequest) -> tuple[SettingSources, SourcedConfig, tuple[str, ...]]:
    """Return the sources of settings and the topic's, with notes. Settings that Kafka refuses count as its defaults."""
    topic = request.partition.topic
    found = request.settings()
    try:
        sourced = found.of_topic(topic)
    except TidelogError as error:
        default = SettingSources()
        return default, default.of_topic(topic), (f"Kafka's defaults are used, because of a setting: {error.message}.",)
    if found.metadata_from is None:
        return found, sourced, ("There is no cluster metadata here, so the settings are Kafka's defaults.",)
    return found, sourced, ()


def _facts(subject: LogSubject) -> list[Fact]:
    report, retention, log_dir = subject.report, subject.retention, subject.request.log_dir
    meta = log_dir.meta()
    going = [one for one in retention.outlooks if one.trigger is DeletionTrigger.NEXT_CHECK]
    state = report.state
    offset, count, size, time = Kind.NUMBER, Kind.NUMBER, Kind.BYTES, Kind.TIME
    sizes = [found for found in report.sizes.values() if found > 0]
    return [
        Fact(name="partition", value=str(report.partition), kind=Kind.CODE),
        Fact(name="topic_id", value=report.topic_id, kind=Kind.CODE, help="From the file partition.metadata"),
        Fact(name="node_id", title="node", value=None if meta is None else meta.node_id, help="From meta.properties"),
        Fact(name="condition", title="last shutdown", value=condition_text(report.directory_state)),
        Fact(name="log_start", value=state.log_start, kind=offset),
        Fact(name="last_stable", title="last stable offset", value=report.transactions.last_stable, kind=offset),
        Fact(name="high_watermark", value=report.high_watermark, kind=offset),
        Fact(name="log_end", value=report.log_end, kind=offset),
        Fact(name="recovery_point", value=report.recovery_point, kind=offset),
        Fact(name="leader_epoch", value=report.epochs[-1].epoch if report.epochs else None, kind=count),
        Fact(name="segments", value=len(report.segments), kind=count),
        Fact(name="log_bytes", title="bytes of .log files", value=sum(one.size for one in report.segments), kind=size),
        Fact(name="bytes", title="bytes of all files", value=sum(sizes), kind=size),
        Fact(name="first_timestamp", value=report.heads.first_timestamp, kind=time, help="Of the first batch"),
        Fact(name="last_timestamp", value=report.last_timestamp, kind=time, help="The largest of all records"),
        Fact(name="formats", value=list(report.heads.formats), help="Of the first batch of each segment"),
        Fact(name="open_transactions", value=len(report.transactions.open), kind=count),
        Fact(
            name="leftovers",
            title="leftover files",
            value=sum(file.is_leftover for file in report.files),
            kind=count,
            url="#files",
        ),
        Fact(name="next_check_segments", title="next check: segments", value=len(going), kind=count),
        Fact(
            name="next_check_bytes",
            title="next check: bytes",
            value=sum(one.segment.size_bytes for one in going),
            kind=size,
        ),
        Fact(name="as_of", title="as of", value=subject.made_at_ms, kind=time),
    ]


def _notes(subject: LogSubject) -> list[str]:
    report, retention = subject.report, subject.retention
    notes = [f"Reading {one.part} failed: {one.error}." for one in report.errors[:_MOST_ERRORS]]
    if len(report.errors) > _MOST_ERRORS:
        notes.append(f"There are {len(report.errors) - _MOST_ERRORS:,} more errors of this kind.")
    tail = report.state.invalid_tail
    if tail is not None and report.condition is DirectoryCondition.CLEAN:
        notes.append(
            f"{tail.length:,} bytes at position {tail.position:,} of {tail.path.name} follow the log end, and they are"
            f" no valid batch: {tail.reason}. A start after a clean shutdown does not look at them."
        )
    future = sum(Cause.FUTURE_TIMESTAMP in one.causes for one in retention.outlooks)
    if future:
        waiting = sum(Cause.WAITS in one.causes for one in retention.outlooks)
        notes.append(f"Segments that timestamps in the future keep: {future:,}. Segments that wait: {waiting:,}.")
    return notes


def _links(request: PageRequest) -> list[Link]:
    key, name = request.log_dir.key, request.log_name
    links = [
        Link("Records", urls.records_url(key, name)),
        Link("Producers", urls.log_part_url(key, name, "producers")),
        Link("Transactions", urls.log_part_url(key, name, "transactions")),
        Link("Cleaner", urls.log_part_url(key, name, "cleaner")),
        Link("Findings", urls.log_part_url(key, name, "findings")),
        Link("Exact counts", urls.log_part_url(key, name, "count")),
    ]
    if len(request.sources.holders(request.partition)) > 1:
        links.append(Link("Compare replicas", urls.compare_url(request.partition.directory_name)))
    return links
