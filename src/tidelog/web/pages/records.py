"""The records of a log: from an offset, a time or the end on, page by page, by key, and as they arrive.

A page reads a bounded number of bytes, also if a filter drops every record; then it says where another page goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tidelog.inspect.bounds import read_end
from tidelog.storage.manager.survey.log_survey import while_files_move
from tidelog.web.page import Column, Fact, Kind, Link, Page, Row, Section, Table
from tidelog.web.reports.log_trail import log_trail
from tidelog.web.reports.record_query import MOST_LIMIT, RecordQuery, before_text, form_fields, parse_record_query
from tidelog.web.reports.record_reading import ReadPage, RecordReading
from tidelog.web.reports.value_options import MOST_VALUE_BYTES, value_shape
from tidelog.web.request import PageRequest

RECORDS = "records"
_FOLLOW_SECONDS = 5


def records_page(request: PageRequest) -> Page:
    """Return a page of records. Raise StillRunningError while the log is loaded or a time is looked up."""
    query = parse_record_query(request.query)
    shape = value_shape(request)
    reading = RecordReading(request, query, shape)
    found = while_files_move(reading.view, reading.page)
    view = reading.view
    log_start, log_end = view.log_start, view.log_end
    return Page(
        title="Records",
        trail=log_trail(request),
        facts=[
            Fact(name="first_offset", title="from offset", value=found.first_offset, kind=Kind.CODE),
            Fact(name="next_offset", title="next offset", value=found.next_offset, kind=Kind.CODE,
                 help="The offset at which the next page begins"),
            Fact(name="shown", title="records shown", value=sum(row["kind"] == "record" for row in found.rows),
                 kind=Kind.NUMBER),
            Fact(name="end_offset", title="end of the read", value=found.bounds.end, kind=Kind.CODE),
            Fact(name="log_start", title="log start", value=log_start, kind=Kind.CODE),
            Fact(name="log_end", title="log end", value=log_end, kind=Kind.CODE),
        ],
        form=form_fields(query, shape),
        notes=list(_notes(query, found, log_start)),
        sections=[
            Section(
                name=RECORDS,
                title="Records",
                text=f"{read_end(view.directory_state, query.limits.isolation, query.limits.until)}.",
                links=list(_links(request, query, found, log_start)),
                table=Table(
                    columns=_columns(request, found.rows, follows=query.follows),
                    rows=found.rows,
                    empty=_empty(query, found),
                ),
            )
        ],
        links=[_follow_link(request, query)],
        refresh_seconds=_FOLLOW_SECONDS if query.follows else None,
        follow=RECORDS if query.follows else None,
        follow_query={"start": str(found.next_offset), "limit": str(MOST_LIMIT)},
    )  # fmt: skip


def _columns(request: PageRequest, rows: Sequence[Row], *, follows: bool) -> list[Column]:
    """Return the columns. A page that follows the log has all of them, since later records may need them."""

    def more(row: Row) -> str | None:
        is_more = row["value_is_shortened"] or row["key_is_shortened"]
        if not is_more or request.query.integer("value_bytes", 0) >= MOST_VALUE_BYTES:
            return None
        changes = {"start": str(row["offset"]), "limit": "1", "value_bytes": str(MOST_VALUE_BYTES), "follow": None}
        return request.query.with_changes(changes)

    has_headers = follows or any(row["headers"] for row in rows)
    has_notes = follows or any(row["notes"] for row in rows)
    formats = {row[f"{part}_format"] for row in rows for part in ("key", "value")} - {"text", "null", None}
    return [
        Column(name="offset", kind=Kind.CODE, link=lambda row: str(row["url"]), help="Leads to the record's bytes"),
        Column(name="timestamp", kind=Kind.TIME),
        Column(name="key", kind=Kind.DATA),
        Column(name="value", kind=Kind.DATA),
        *([Column(name="value_format", title="format")] if formats else []),
        *([Column(name="headers", kind=Kind.DATA)] if has_headers else []),
        Column(name="value_size", title="size", kind=Kind.BYTES, link=more, help="A link shows more of a long value"),
        *([Column(name="notes")] if has_notes else []),
    ]


def _notes(query: RecordQuery, found: ReadPage, log_start: int) -> Iterator[str]:
    asked = query.start.number if query.start_text.isdigit() else query.before
    if asked is not None and asked < log_start:
        yield f"The log begins at offset {log_start:,}; there is nothing before it."
    if asked is not None and asked > found.bounds.end:
        yield f"The read ends at offset {found.bounds.end:,}, so there is nothing at offset {asked:,}."
    if found.is_limited_by_bytes and query.before is None:
        reason = "is full" if found.rows and query.key is None else "has read enough bytes"
        yield f"The page {reason}: it goes on at offset {found.next_offset:,}."
    elif found.is_limited_by_bytes:
        yield f"The page has read enough bytes: it goes on before offset {found.first_offset:,}."


def _links(request: PageRequest, query: RecordQuery, found: ReadPage, log_start: int) -> Iterator[Link]:
    def url(start: str) -> str:
        return request.query.with_changes({"start": start, "follow": None})

    yield Link("First", url("earliest"))
    if found.first_offset > log_start:
        yield Link("Previous", url(before_text(found.first_offset)))
    if found.next_offset < found.bounds.end:
        is_search = found.is_limited_by_bytes and query.before is None
        yield Link(f"Continue at offset {found.next_offset}" if is_search else "Next", url(str(found.next_offset)))
    yield Link("Last", url(before_text(found.bounds.end)))


def _follow_link(request: PageRequest, query: RecordQuery) -> Link:
    if query.follows:
        return Link("Stop following", request.query.with_changes({"follow": None}))
    return Link("Follow", request.query.with_changes({"follow": "1", "start": None}))


def _empty(query: RecordQuery, found: ReadPage) -> str:
    if found.is_limited_by_bytes:
        return "No record matches so far."
    return "No record matches." if query.key is not None else "There are no records here."
