"""A bounded part of a log as batch headers: the last batches before an offset, or the first ones from an offset on.

The part has at most ``most_batches`` batches, and about ``most_bytes`` of the files are read for it. An offset index
gives the place where reading begins; without one, the segment is read from its start. Damaged bytes are left out and
reported. Reads only.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tidelog.kernel import BatchTable, scan_batches
from tidelog.runtime.progress import Advance
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import CorruptPolicy, ReadRange, Rows, RowStream, SkippedRange, counted
from tidelog.storage.log.view.transaction_scan import TransactionRows, header_rows

MOST_BATCHES = 2_000
MOST_BYTES = 4 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchWindow:
    """The batches with offsets in ``[start, end)``. ``log_start`` and ``log_end`` are those at the time of reading."""

    start: int
    end: int
    log_start: int
    log_end: int
    table: BatchTable
    """All batches. Positions count from the start of each batch's file."""
    segments: NDArray[np.int64] = field(repr=False)
    """The base offset of each batch's segment."""
    transactions: TransactionRows
    """The transactional batches and the markers among them."""
    skipped: tuple[SkippedRange, ...] = ()

    @property
    def is_first(self) -> bool:
        return self.start <= self.log_start

    @property
    def is_last(self) -> bool:
        return self.end >= self.log_end


def read_window(
    view: LogView,
    *,
    start: int | None = None,
    end: int | None = None,
    most_batches: int = MOST_BATCHES,
    most_bytes: int = MOST_BYTES,
    advance: Advance = lambda _bytes: None,
) -> BatchWindow:
    """Return the first batches from ``start`` on, or else the last ones before ``end``, by default the log end. Offsets
    outside the log are moved to its borders."""
    log_start, log_end = view.log_start, view.log_end
    if start is not None:
        first = min(max(start, log_start), log_end)
        last = log_end
    else:
        last = log_end if end is None else min(max(end, log_start), log_end)
        first = _offset_before(view, last, most_bytes)
    skipped: list[SkippedRange] = []
    stream = RowStream(
        view,
        ReadRange(start=first, end=last, control=True),
        on_corrupt=CorruptPolicy.SKIP,
        on_skipped=skipped.append,
        chunk_bytes=_CHUNK_BYTES,
    )
    parts: list[_Part] = []
    batches = size = 0
    for rows in counted(stream, advance):
        parts.append(_part(rows))
        batches += len(rows.table)
        size += int(rows.table.size.sum())
        if start is not None and (batches >= most_batches or size >= most_bytes):
            last = int(rows.table.last_offset[-1]) + 1
            break
    read = BatchWindow(
        start=first,
        end=last,
        log_start=log_start,
        log_end=log_end,
        table=BatchTable.concat([part.table for part in parts]) if parts else scan_batches(b""),
        segments=np.concatenate(
            [np.full(len(part.table), part.segment, np.int64) for part in parts] or [np.empty(0, np.int64)]
        ),
        transactions=TransactionRows.concat([part.transactions for part in parts]),
        skipped=tuple(skipped),
    )
    return _limited(read, most_batches, keeps_first=start is not None)


class _Part(NamedTuple):
    table: BatchTable
    segment: int
    transactions: TransactionRows


def _part(rows: Rows) -> _Part:
    return _Part(rows.table, rows.segment_offset, header_rows(rows.table, rows.batch_at))


def _limited(window: BatchWindow, most_batches: int, *, keeps_first: bool) -> BatchWindow:
    """Return the window with at most this number of batches: the first or the last ones."""
    table, count = window.table, len(window.table)
    if not count:
        return window
    start, end = max(window.log_start, min(window.start, int(table.base_offset[0]))), window.end
    if count <= most_batches:
        return replace(window, start=start)
    kept = np.arange(most_batches) if keeps_first else np.arange(count - most_batches, count)
    table = table.take(kept)  # a copy, so the other rows need not stay in memory
    first, last = int(table.base_offset[0]), int(table.last_offset[-1])
    if keeps_first:
        end = last + 1
    else:
        start = max(window.log_start, first)
    transactions = window.transactions
    return replace(
        window,
        start=start,
        end=end,
        table=table,
        segments=window.segments[kept],
        transactions=transactions.take((transactions.base_offset >= first) & (transactions.last_offset <= last)),
        skipped=tuple(one for one in window.skipped if start <= one.offset < end),
    )


def _offset_before(view: LogView, end: int, size: int) -> int:
    """Return an offset from which on about ``size`` bytes lie before ``end``, by the offset indexes."""
    state = view.state
    segment = state.segments.lower(end)
    while segment is not None:
        with segment.open(view.fs, view.directory) as reader:
            hints = reader.offset_hints
            top = state.end_position(segment)
            top = reader.size if top is None else top
            higher = state.segments.higher(segment.base_offset)
            next_base = state.log_end.message_offset if higher is None else higher.base_offset
            if end < next_base:
                row = int(np.searchsorted(hints.offsets, end))
                top = int(hints.positions[row]) if row < len(hints) else top
        if top > size:
            row = int(np.searchsorted(hints.positions, top - size, side="right")) - 1
            return max(view.log_start, int(hints.offsets[row]) if row >= 0 else segment.base_offset)
        size -= top
        segment = state.segments.lower(segment.base_offset)
    return view.log_start
