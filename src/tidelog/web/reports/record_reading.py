"""The reading of one page of records: bounded in records, bytes of the log, and bytes of the page.

The reading runs in the page's own thread. Work without a bound runs in the background: the lookup of a time, the last
stable offset, the aborted transactions, and the search for the end of damage.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from tidelog.inspect.batch_walk import position_of_offset
from tidelog.inspect.bounded_rows import BoundedRows, ByteBudget, Gap, SearchRange, search_next
from tidelog.inspect.bounds import BoundKind, resolve_bound
from tidelog.inspect.record_scan import FoundRecord, RecordScan, ScanRequest
from tidelog.inspect.shown_values import ValueShape, shown_control, shown_record
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.view_producers import ViewTransactions
from tidelog.storage.log.view.view_state import ViewSegment
from tidelog.web import urls
from tidelog.web.page import Row
from tidelog.web.reports.record_query import RecordQuery
from tidelog.web.reports.segment_place import SegmentPlace
from tidelog.web.reports.value_rows import headers_json, value_columns
from tidelog.web.request import PageRequest

_PAGE_BYTES: Final = 4 * 1024 * 1024
"""The characters of all keys and values on one page."""
_MOST_GAPS: Final = 50
_BACKWARD_STEP: Final = 8
"""Each step backward is this many times as wide as the one before."""
_BACKWARD_WIDTH: Final = 2**63
_BACKWARD_BYTES: Final = 32 * 1024 * 1024
_LOOKUP_BYTES: Final = 8 * 1024 * 1024
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordBounds:
    """The offsets that the query names. The log may begin above ``start``."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPage:
    """``rows`` are records and gaps by ascending offset. ``next_offset`` is where the next page begins."""

    bounds: RecordBounds
    rows: Sequence[Row]
    first_offset: int
    next_offset: int
    is_limited_by_bytes: bool = False
    """True if the page ends before its limit, because it has read or shown enough bytes."""


class _Read(NamedTuple):
    """The result of one scan."""

    rows: list[Row]
    next_offset: int
    is_spent: bool


class RecordReading:
    """The reading for one request. Every call may raise StillRunningError."""

    def __init__(self, request: PageRequest, query: RecordQuery, shape: ValueShape) -> None:
        self._request = request
        self._query = query
        self._shape = shape
        self._view: LogView = request.view()
        self._transactions_found: ViewTransactions | None = None

    @property
    def view(self) -> LogView:
        return self._view

    def page(self) -> ReadPage:
        """Read the page."""
        bounds = self.bounds()
        if self._query.before is not None:
            return self._page_before(bounds, min(self._query.before, bounds.end))
        read = self._read(bounds.start, bounds.end, self._query.limit, ByteBudget())
        return ReadPage(
            bounds=bounds,
            rows=read.rows,
            first_offset=bounds.start,
            next_offset=read.next_offset,
            is_limited_by_bytes=read.is_spent,
        )

    def bounds(self) -> RecordBounds:
        """Return the start and the end of the read."""
        view, query = self._view, self._query

        def resolve() -> RecordBounds:
            end = view.limit(query.limits.isolation, query.limits.until)
            return RecordBounds(start=resolve_bound(view, query.start, query.limits), end=end)

        if not query.is_committed and query.start.kind is not BoundKind.TIMESTAMP:
            return resolve()
        key = ("record-bounds", query.start, query.limits)
        return self._job(key, resolve, f"finding the start of the read in {self._request.log_name}")

    def _page_before(self, bounds: RecordBounds, before: int) -> ReadPage:
        """Read the last records before an offset: step by step back, until there are enough."""
        limit, first = self._query.limit, self._view.log_start
        found: list[Row] = []
        upper, width, widest, left = before, limit, _BACKWARD_WIDTH, _BACKWARD_BYTES
        while upper > first and len(found) < limit and left > 0:
            lower, budget = max(first, upper - width), ByteBudget()
            before_step = budget.left
            read = self._read(lower, upper, limit - len(found), budget, is_backward=True)
            left -= before_step - budget.left
            if read.next_offset < upper:  # too many bytes for one step: records just below its end are missing
                width = widest = max(1, width // _BACKWARD_STEP)
                continue
            found = [*read.rows, *found]
            upper, width = lower, min(widest, width * _BACKWARD_STEP)
        shown = found[-limit:]
        is_full = len(found) >= limit
        return ReadPage(
            bounds=bounds,
            rows=shown,
            first_offset=_offset(shown[0]) if is_full else upper,
            next_offset=before,
            is_limited_by_bytes=not is_full and upper > first,
        )

    def _read(self, start: int, end: int, limit: int, budget: ByteBudget, *, is_backward: bool = False) -> _Read:
        """Read up to ``limit`` records of ``[start, end)``: the first ones, or with ``is_backward`` the last ones."""
        request = ScanRequest(
            start=start,
            end=end,
            aborted=lambda: self._transactions().aborted,
            with_aborted=not self._query.is_committed,
            with_control=self._query.with_control,
            key=self._query.key,
            keep_bytes=self._shape.most_bytes,
        )
        position = self._position(start) if start < end else None
        rows = BoundedRows(self._view, start, end, budget, find_next=self._find_next, start_position=position)
        scan = RecordScan(rows, request, budget)
        found: deque[Row] = deque(maxlen=limit if is_backward else None)
        records = shown_bytes = 0
        for one in scan:
            is_gap = isinstance(one, Gap)
            row = self._gap_row(one) if isinstance(one, Gap) else self._record_row(one)
            found.append(row)
            if is_backward:
                continue
            records += not is_gap
            shown_bytes += _shown_size(row)
            is_large = shown_bytes > _PAGE_BYTES
            if records >= limit or len(found) - records >= _MOST_GAPS or is_large:
                return _Read(list(found), scan.next_offset if is_gap else one.offset + 1, is_large)
        return _Read(list(found), scan.next_offset, scan.next_offset < end)

    def _position(self, start: int) -> int | None:
        """Return a batch boundary at or a little before an offset, so that a read makes progress from there."""
        segments = self._view.state.segments
        segment = segments.floor(start)
        if segment is None:
            return None
        with segment.open(self._view.fs, self._view.directory) as reader:
            found = position_of_offset(reader, start, most_bytes=_LOOKUP_BYTES)
            if found is not None or reader.size <= _LOOKUP_BYTES:
                return found
        following = segments.higher(segment.base_offset)
        if following is not None and start >= following.base_offset:
            return None
        place = SegmentPlace(
            request=self._request,
            view=self._view,
            base_offset=segment.base_offset,
            state=segment.files.state,
            segment=segment,
        )
        survey = place.survey()
        row = bisect_left(survey.mark_offsets, start) - 1
        return survey.marks[row] if row >= 0 else None

    def _find_next(self, segment: ViewSegment, wanted: SearchRange) -> int | None:
        """Search for the next valid batch after damage, in the background."""
        key = ("next-batch", segment.base_offset, wanted)
        find = search_next(self._view)
        return self._job(key, lambda: find(segment, wanted), f"searching the next batch of {self._request.log_name}")

    def _transactions(self) -> ViewTransactions:
        if self._transactions_found is None:
            view, until = self._view, self._query.limits.until
            self._transactions_found = self._job(
                ("record-transactions", until),
                lambda: view.transactions(view.end_offset(until)),
                f"reading the transactions of {self._request.log_name}",
            )
        return self._transactions_found

    def _job(self, key: tuple[object, ...], work: Callable[[], T], title: str) -> T:
        request = self._request
        log_dir, name = request.log_dir, request.log_name
        return request.job(
            (*key, log_dir.key, name), lambda _progress: work(), title=title, signature=log_dir.signature(name)
        ).value

    def _record_row(self, record: FoundRecord) -> Row:
        shape = self._shape
        if record.is_control:
            shown = shown_control(record.key, record.value, shape.most_bytes)
        else:
            shown = shown_record(record.key, record.value, shape)
        row = {
            "kind": "record",
            "offset": record.offset,
            "timestamp": record.timestamp,
            "timestamp_type": record.timestamp_type.name.lower(),
            **value_columns(shown),
            "headers": headers_json(record.headers, record.header_count, shape.most_bytes),
            "segment": record.segment,
            "position": record.position,
            "url": self._batch_url(record.segment, record.position, record.offset),
            "sequence": record.sequence if record.sequence >= 0 else None,
            "producer_id": record.producer_id if record.producer_id >= 0 else None,
            "producer_epoch": record.producer_epoch if record.producer_id >= 0 else None,
            "leader_epoch": record.leader_epoch if record.leader_epoch >= 0 else None,
            "is_transactional": record.is_transactional,
            "is_control": record.is_control,
            "is_aborted": record.is_aborted,
            "is_tombstone": record.value is None and record.key is not None and not record.is_control,
        }
        return {**row, "notes": list(self._notes(record, row))}

    def _notes(self, record: FoundRecord, row: Row) -> Iterator[str]:
        if record.is_control:
            yield "control record"
        if row["is_tombstone"]:
            yield "tombstone"
        if record.is_aborted:
            yield "aborted"
        elif record.is_transactional and not record.is_control and self._is_open(record):
            yield "open transaction"
        for name in ("key", "value"):
            if row[f"{name}_is_shortened"]:
                yield f"{name} shortened"
            if row[f"{name}_problem"]:
                yield f"{name}: {row[f'{name}_problem']}"
            if row[f"{name}_schema"] is not None:
                yield f"{'key ' if name == 'key' else ''}schema {row[f'{name}_schema']}"
        if not record.is_checked:
            yield "CRC not checked"

    def _is_open(self, record: FoundRecord) -> bool:
        first = self._transactions().scan.open.get(record.producer_id)
        return first is not None and first <= record.offset

    def _batch_url(self, segment: int, position: int, offset: int | None = None) -> str:
        request = self._request
        url = urls.batch_url(request.log_dir.key, request.log_name, segment, position)
        return url if offset is None else f"{urls.with_query(url, {'offset': offset})}#record"

    def _gap_row(self, gap: Gap) -> Row:
        """Return the row of bytes that cannot be read, with the members of a record's row."""
        return {
            **_NO_RECORD,
            "kind": "gap",
            "offset": gap.offset,
            "segment": gap.segment,
            "position": gap.position,
            "url": self._batch_url(gap.segment, gap.position),
            "value_size": gap.size,
            "notes": [f"{gap.size:,} bytes cannot be read: {gap.reason}"],
        }


_NO_RECORD: Final = dict.fromkeys(
    (
        "timestamp",
        "timestamp_type",
        *(
            f"{name}{suffix}"
            for name in ("key", "value")
            for suffix in ("", "_format", "_size", "_is_shortened", "_schema", "_problem")
        ),
        "headers",
        "sequence",
        "producer_id",
        "producer_epoch",
        "leader_epoch",
        "is_transactional",
        "is_control",
        "is_aborted",
        "is_tombstone",
    )
)


def _shown_size(row: Row) -> int:
    return sum(len(one) if isinstance(one, str) else len(json.dumps(one)) for one in (row["key"], row["value"]))


def _offset(row: Row) -> int:
    offset = row["offset"]
    return offset if isinstance(offset, int) else 0
