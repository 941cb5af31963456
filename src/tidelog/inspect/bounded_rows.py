"""The batches of a log from an offset on, within a budget of bytes.

The walk is the counterpart of ``RowStream`` for pages. It works through a bounded number of bytes, and names the offset
at which another walk goes on. It holds no large batch. Damage is always passed over, and becomes a gap. The caller
provides the search for the end of damage, since that may read a complete segment.

A running broker may replace the files of a segment after the view has read their sizes. So a fault in a held directory
makes the walk read the state again, and only a fault that remains is damage. Reads only. Thread rule: one thread for a
walk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from tidelog.inspect.batch_walk import Window, windows
from tidelog.kernel import BatchRow, BatchTable, Stop
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import fault_reason, valid_rows
from tidelog.storage.log.view.view_state import ViewSegment, ViewState, stop_reason
from tidelog.storage.segment.resync import next_sound_batch
from tidelog.storage.segment.segment_reader import SegmentReader

BUDGET_BYTES: Final = 8 * 1024 * 1024


@dataclass(slots=True)
class ByteBudget:
    """The bytes that the walks of one request may still work through."""

    left: int = BUDGET_BYTES

    @property
    def is_spent(self) -> bool:
        return self.left <= 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """Bytes that were passed over. ``segment`` is a base offset; ``offset`` is the first that may be among them."""

    segment: int
    position: int
    size: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchRange:
    """The range for the search of the next valid batch: bytes ``[position, end)``, offsets ``[first, end_offset)``."""

    position: int
    end: int
    first_offset: int
    end_offset: int


FindNext = Callable[[ViewSegment, SearchRange], int | None]
"""Returns the position of the next valid batch after damage, or None."""


def search_next(view: LogView) -> FindNext:
    """Return the search without a bound, for work in the background."""

    def find(segment: ViewSegment, wanted: SearchRange) -> int | None:
        with segment.open(view.fs, view.directory) as reader:
            return next_sound_batch(reader, wanted.position, wanted.end, wanted.first_offset, wanted.end_offset)

    return find


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRows:
    """Valid batches with offsets of the range, or one batch that is too large to be held. The reader is open."""

    segment: ViewSegment
    reader: SegmentReader
    buffer: memoryview
    table: BatchTable
    base_position: int
    large: BatchRow | None = None


class _UnsureError(Exception):
    """A fault that may come from files that a broker has replaced. Internal."""


class BoundedRows:
    """Iterate once. All records below ``next_offset`` were delivered or passed over."""

    def __init__(
        self,
        view: LogView,
        start: int,
        end: int,
        budget: ByteBudget,
        *,
        find_next: FindNext,
        start_position: int | None = None,
    ) -> None:
        """``start_position`` is a batch boundary at or before the start in its segment; None asks the index."""
        self.next_offset = start
        self._view = view
        self._start = start
        self._end = end
        self._budget = budget
        self._find_next = find_next
        self._start_position = start_position
        self._faults: set[tuple[int, int]] = set()
        """The faults that were seen, by the segment's base offset and the position."""

    @property
    def is_complete(self) -> bool:
        return self.next_offset >= self._end

    @property
    def is_over(self) -> bool:
        """True if the walk ends: it is complete, or its budget is spent."""
        return self.is_complete or self._budget.is_spent

    def __iter__(self) -> Iterator[WindowRows | Gap]:
        """Yield batches and gaps in the sequence of the log. Raise FileMissingError if a segment disappears."""
        state = self._view.state
        segment = state.segments.floor_or_first(self.next_offset)
        while segment is not None and not self.is_over:
            following = state.segments.higher(segment.base_offset)
            end_offset = state.log_end.message_offset if following is None else following.base_offset
            try:
                with segment.open(self._view.fs, self._view.directory) as reader:
                    yield from self._segment(state, segment, reader, end_offset)
            except _UnsureError:
                state = self._view.refresh()
                segment = state.segments.floor_or_first(self.next_offset)
                continue
            if not self._budget.is_spent:
                self.next_offset = max(self.next_offset, min(end_offset, self._end))
            segment = following
        if not self._budget.is_spent:
            self.next_offset = max(self.next_offset, self._end)

    def _segment(
        self, state: ViewState, segment: ViewSegment, reader: SegmentReader, end_offset: int
    ) -> Iterator[WindowRows | Gap]:
        """Yield batches and gaps of one segment. Raise _UnsureError for a fault that a fresh state may not have."""
        end = state.end_position(segment)
        end = reader.size if end is None else min(end, reader.size)
        position, self._start_position = self._start_position, None
        if position is None:
            position = reader.position_of(self.next_offset)
        seen_to = segment.base_offset
        while position < end and not self.is_over:
            fault: tuple[int, str] | None = None
            last_offset = seen_to - 1
            for window in windows(reader, position, end):
                self._budget.left -= window.bytes_read
                valid = _valid(window, last_offset, end_offset)
                rows = self._wanted(window, valid, last_offset)
                if len(rows) or (window.large is not None and valid):
                    yield WindowRows(
                        segment=segment,
                        reader=reader,
                        buffer=window.buffer,
                        table=rows,
                        base_position=window.base_position,
                        large=window.large,
                    )
                last_offset = _last_offset(window, valid, last_offset)
                self.next_offset = max(self.next_offset, min(last_offset + 1, self._end))
                fault = _fault(window, valid, last_offset, end_offset)
                if fault is not None or self.is_over:
                    break
            if fault is None or self.is_complete:
                return
            self._confirm(state, segment, fault[0])
            seen_to = last_offset + 1
            wanted = SearchRange(position=fault[0], end=end, first_offset=seen_to, end_offset=end_offset)
            found = self._find_next(segment, wanted)
            position = end if found is None else found
            if not self._is_before_start(reader, found):
                yield Gap(
                    segment=segment.base_offset,
                    position=fault[0],
                    size=position - fault[0],
                    offset=seen_to,
                    reason=fault[1],
                )

    def _confirm(self, state: ViewState, segment: ViewSegment, position: int) -> None:
        """Return if a fault is damage: no broker runs, or the fault remains in a fresh state. Raise _UnsureError."""
        if state.condition is not DirectoryCondition.HELD:
            return
        fault = (segment.base_offset, position)
        if fault not in self._faults:
            self._faults.add(fault)
            raise _UnsureError

    def _wanted(self, window: Window, valid: int, last_offset: int) -> BatchTable:
        """Return the valid rows that may have offsets of the range."""
        table = window.table.take(slice(0, valid if window.large is None else 0))
        if not len(table):
            return table
        # A compressed set of v0 or v1 has the offset of its last message, so it begins after the batch before it.
        first = np.where(
            table.magic < 2, np.concatenate(([last_offset], table.last_offset[:-1])) + 1, table.base_offset
        )
        return table.take((table.last_offset >= self.next_offset) & (first < self._end))

    def _is_before_start(self, reader: SegmentReader, found: int | None) -> bool:
        """Return True if the damage lies before the range: the batch after it begins at or below the start."""
        if found is None or self.next_offset != self._start:
            return False
        return int.from_bytes(reader.read(found, 8), "big", signed=True) <= self._start


def _valid(window: Window, last_offset: int, end_offset: int) -> int:
    """Return the number of leading valid batches; the CRC of a large one is not checked."""
    large = window.large
    if large is None:
        return valid_rows(window.table, last_offset, end_offset)
    return int(large.header_ok and large.base_offset > last_offset and large.last_offset < end_offset)


def _last_offset(window: Window, valid: int, before: int) -> int:
    if not valid:
        return before
    return window.large.last_offset if window.large is not None else int(window.table.last_offset[valid - 1])


def _fault(window: Window, valid: int, last_offset: int, end_offset: int) -> tuple[int, str] | None:
    """Return position and reason of the first invalid batch of a window, or None."""
    if window.large is not None:
        reason = "the header of a batch contradicts itself or its segment"
        return None if valid else (window.large.position, reason)
    if valid < len(window.table):
        before = int(window.table.last_offset[valid - 1]) if valid else last_offset
        return int(window.table.position[valid]), fault_reason(window.table, valid, before, end_offset)
    return None if window.stop is Stop.END else (window.next_position, stop_reason(window.stop))
