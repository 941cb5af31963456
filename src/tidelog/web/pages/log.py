"""The page of one partition's log: its facts, the segment ribbon, and a table of each of the log's parts.

The outlook of each segment is computed for the moment of every request, without reading (``judged_log``).
"""

from __future__ import annotations

from tidelog.inspect.retention import Cause, DeletionTrigger
from tidelog.model import CancelledError, ConfigError, FileMissingError, TidelogError
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName
from tidelog.web import urls
from tidelog.web.jobs import BusyError
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
from tidelog.web.reports.judged_log import JudgedLog, judge_log
from tidelog.web.reports.log_reports import log_trail
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


def log_page(request: PageRequest) -> Page:
    """Return the page of the directory of one partition's log."""
    request.log_dir.directory(request.log_name)
    purpose = PartitionDirectoryName.parse(request.log_name).purpose
    if purpose in (DirectoryPurpose.DELETE, DirectoryPurpose.STRAY):
        return listed_log_page(request, log_trail(request)[:-1], None)
    try:
        judged = judge_log(request, request.query.text("now"))
    except (ConfigError, NotFoundError, FileMissingError, BusyError, CancelledError):
        raise
    except TidelogError as error:
        return listed_log_page(request, log_trail(request)[:-1], error)
    report, retention = judged.report, judged.retention
    return Page(
        title=request.log_name,
        trail=log_trail(request)[:-1],
        facts=_facts(request, judged),
        form=[
            FormField(
                name="now",
                title="Judge retention as of",
                value=request.query.text("now"),
                hint="now, or a date and time",
            )
        ],
        notes=[*([_PURPOSES[purpose]] if purpose in _PURPOSES else []), *judged.notes, *_notes(judged)],
        links=_links(request),
        sections=[
            segments_section(request, report, retention),
            offsets_section(request, report),
            start_section(request, report),
            transactions_section(request, report, judged.judged_at_ms),
            epochs_section(request, report),
            snapshots_section(request, report),
            settings_section(retention),
            files_section(request, report),
        ],
    )


def _facts(request: PageRequest, judged: JudgedLog) -> list[Fact]:
    report, retention = judged.report, judged.retention
    meta = request.log_dir.meta()
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
        Fact(name="as_of", title="as of", value=judged.made_at_ms, kind=time),
    ]


def _notes(judged: JudgedLog) -> list[str]:
    report, retention = judged.report, judged.retention
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
