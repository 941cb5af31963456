"""The segments of a log as a picture and as a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.inspect.log.report import LogReport
from tidelog.inspect.retention import PartitionRetention
from tidelog.inspect.retention.rows import SEGMENT_COLUMNS, segment_row
from tidelog.inspect.retention.sentences import goes_text
from tidelog.web import urls
from tidelog.web.page import Column, Kind, Picture, Row, Section, Table
from tidelog.web.pages.log_ribbon import MOST_SEGMENTS, RibbonLinks, make_ribbon, state_names
from tidelog.web.request import PageRequest
from tidelog.web.svg.ribbon import draw_ribbon
from tidelog.web.svg.ribbon_items import STYLES

_ROWS = 100
_TEXT = (
    "The width of a segment is its share of the bytes, plus a few pixels so that small segments can be seen. Colour,"
    " pattern and letter give the rule that keeps or deletes it. Everything below has the same scale; offsets inside a"
    " segment are placed by its index. An open transaction keeps no segment from deletion, but read_committed consumers"
    " and the cleaner stop at its start."
)
_JOINED = " Neighbours of equal state are drawn together here, because the log has {count:,} segments."


def segments_section(request: PageRequest, report: LogReport, retention: PartitionRetention) -> Section:
    """Return the section of all segments. Rows are made for the shown slice only."""
    states = state_names(report, retention)
    keys: dict[str, Callable[[int], Any]] = {
        "base_offset": lambda number: report.segments[number].base_offset,
        "bytes": lambda number: report.segments[number].size,
        "index_entries": lambda number: report.entries[number].offset,
        "time_index_entries": lambda number: report.entries[number].time,
    }
    if retention.outlooks:
        keys |= {
            "time": lambda number: retention.outlooks[number].segment.time_ms,
            "letter": lambda number: states[number],
        }
    shown, paging = request.query.paged("segments", range(len(report.segments)), keys=keys, size=_ROWS)
    joined = _JOINED.format(count=len(report.segments)) if len(report.segments) > MOST_SEGMENTS else ""
    return Section(
        name="segments",
        title="Segments",
        text=_TEXT + joined,
        picture=_picture(request, report, retention),
        table=Table(
            columns=_columns(request),
            rows=[_row(report, retention, states[number], number) for number in shown],
            paging=paging,
            empty="The log has no segments.",
        ),
    )


def _picture(request: PageRequest, report: LogReport, retention: PartitionRetention) -> Picture | None:
    if not report.segments:
        return None
    key, name = request.log_dir.key, request.log_name
    links = RibbonLinks(
        segment=lambda base: urls.segment_url(key, name, base),
        segments=lambda number: (
            urls.with_query(
                urls.log_url(key, name), {"segments.page": number // _ROWS + 1 if number >= _ROWS else None}
            )
            + "#segments"
        ),
        transactions=urls.log_part_url(key, name, "transactions"),
    )
    ribbon = make_ribbon(report, retention, links)
    return Picture(items=ribbon.items(), draw=lambda: draw_ribbon(ribbon))


def _columns(request: PageRequest) -> list[Column]:
    key, name = request.log_dir.key, request.log_name

    def segment(row: Row) -> str:
        return urls.segment_url(key, name, int(str(row["base_offset"])))

    def records(row: Row) -> str:
        return urls.records_url(key, name, start=row["base_offset"])

    return [
        Column(name="letter", title="state", help="The letter of the picture's legend"),
        Column(name="base_offset", kind=Kind.NUMBER, link=segment, help="Leads to the segment"),
        Column(name="last_offset", kind=Kind.NUMBER, link=records, help="Leads to the segment's records"),
        Column(name="bytes", kind=Kind.BYTES, help="The size of the .log file"),
        Column(name="time", title="newest timestamp", kind=Kind.TIME, help="The time by which retention decides"),
        Column(name="time_from", title="from", help="The source of the newest timestamp"),
        Column(name="goes_text", title="goes", kind=Kind.SENTENCE, help="The moment or event of its deletion"),
        Column(name="why", kind=Kind.SENTENCE, help="The reason for its deletion, or the reasons that keep it"),
        Column(name="index_entries", title="index", kind=Kind.NUMBER, help="Entries of the .index"),
        Column(
            name="bytes_per_entry",
            title="bytes/entry",
            kind=Kind.NUMBER,
            help="Bytes of the .log for each entry of the .index",
        ),
        Column(name="time_index_entries", title="time index", kind=Kind.NUMBER, help="Entries of the .timeindex"),
        Column(
            name="txn_index_entries", title="txn index", kind=Kind.NUMBER, help="Aborted transactions in the .txnindex"
        ),
    ]


def _row(report: LogReport, retention: PartitionRetention, state: str, number: int) -> Row:
    placed, entries = report.segments[number], report.entries[number]
    row: dict[str, object] = dict.fromkeys(SEGMENT_COLUMNS) | {"goes_text": None}
    if retention.outlooks:
        outlook = retention.outlooks[number]
        row = segment_row(retention, outlook) | {"goes_text": goes_text(retention, outlook)}
    last_offset = placed.end_offset - 1 if placed.end_offset > placed.base_offset else None
    return row | {
        "letter": STYLES[state].letter,
        "state": state,
        "base_offset": placed.base_offset,
        "last_offset": last_offset,
        "bytes": placed.size,
        "valid_bytes": placed.end - placed.start,
        "start": placed.start,
        "index_entries": entries.offset,
        "bytes_per_entry": placed.size // entries.offset if entries.offset else None,
        "time_index_entries": entries.time,
        "txn_index_entries": entries.transaction,
    }
