"""The records of a log for people: one after another, with their places, within a budget of bytes.

A scan yields each wanted record of ``[start, end)`` with its batch's position and flags, and a gap for each run of
bytes that cannot be read. It works through a bounded number of bytes, also if a filter drops all records. Long values
are shortened before they are copied. A batch of more than ``batch_walk.LARGE_BYTES`` is never held: its records are
read field by field, and its CRC is not checked. A batch whose records decompress to more than
``MAX_DECOMPRESSED_BYTES`` becomes a gap. Reads only. Thread rule: one thread for a scan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.inspect.batch_fields import ByteSource, read_batch_header
from tidelog.inspect.batch_walk import FileBytes, row_table
from tidelog.inspect.bounded_rows import BoundedRows, ByteBudget, Gap, WindowRows
from tidelog.inspect.dump.column_text import StringColumn
from tidelog.inspect.record_fields import RecordFields, Span, read_record, record_base, record_starts
from tidelog.kernel import BatchRow, BatchTable, ColumnDecoder, RecordColumns
from tidelog.model import CorruptRecordError, TidelogError, TimestampType
from tidelog.record.attributes import CONTROL_FLAG, TRANSACTIONAL_FLAG, timestamp_type_of
from tidelog.record.batch_header import CURRENT_MAGIC, MAX_SEQUENCE, V2_HEADER_BYTES
from tidelog.record.codec.limit import PayloadTooLargeError
from tidelog.record.decode import decode_chunk
from tidelog.record.internal_records.text import java_text
from tidelog.storage.log.view.transaction_scan import AbortedRanges

MAX_DECOMPRESSED_BYTES: Final = 64 * 1024 * 1024
_DATA_PER_BYTE: Final = 16
"""The decompressed bytes that cost as much of the budget as one byte of the log."""
_MOST_ROWS: Final = 4096
_MOST_COLUMN_BYTES: Final = 16 * 1024 * 1024
_MOST_HEADERS: Final = 100
_MOST_LARGE_RECORDS: Final = 10_000
_LARGE_RECORD_COST: Final = 8 * 1024


class Piece(NamedTuple):
    """The first bytes of a key or value, and its full size in bytes."""

    data: bytes
    size: int

    @property
    def is_whole(self) -> bool:
        return len(self.data) == self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRecord:
    """``segment`` is a base offset, and ``position`` that of the batch in the ``.log``. A null is None."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Piece | None
    value: Piece | None
    headers: Sequence[tuple[str, Piece | None]] = ()
    """The first hundred headers; ``header_count`` is the number of all."""
    header_count: int = 0
    segment: int
    position: int
    sequence: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    leader_epoch: int = -1
    is_transactional: bool = False
    is_control: bool = False
    is_aborted: bool = False
    is_checked: bool = True
    """False if the batch is too large to check its CRC here."""


class KeyFilter(NamedTuple):
    """Accepts keys that equal one of the patterns, or that begin with one."""

    patterns: tuple[bytes, ...]
    is_prefix: bool

    def accepts(self, key: bytes | None) -> bool:
        if key is None:
            return False
        return key.startswith(self.patterns) if self.is_prefix else key in self.patterns

    @property
    def needed_bytes(self) -> int:
        """The first bytes of a key that decide."""
        return max(map(len, self.patterns)) + 1


def no_transactions() -> AbortedRanges:
    return AbortedRanges.of(())


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanRequest:
    """Keys and values of more than ``whole_bytes`` are shortened to ``keep_bytes``."""

    start: int
    end: int
    aborted: Callable[[], AbortedRanges] = no_transactions
    """Returns the aborted transactions; asked only if there are transactional batches."""
    with_aborted: bool = True
    with_control: bool = False
    key: KeyFilter | None = None
    keep_bytes: int = 4096
    whole_bytes: int = 1024 * 1024

    def kept(self, size: int) -> int:
        return size if size <= self.whole_bytes else self.keep_bytes


class RecordScan:
    """Iterate once. All wanted records below ``next_offset`` were yielded."""

    def __init__(self, rows: BoundedRows, request: ScanRequest, budget: ByteBudget) -> None:
        self.next_offset = request.start
        self._rows = rows
        self._request = request
        self._budget = budget
        self._is_interrupted = False

    @property
    def is_complete(self) -> bool:
        return self.next_offset >= self._request.end

    def __iter__(self) -> Iterator[FoundRecord | Gap]:
        """Yield records and gaps by ascending offset. Raise FileMissingError if a segment disappears."""
        for found in self._rows:
            if isinstance(found, Gap):
                self.next_offset = max(self.next_offset, self._rows.next_offset)
                yield found
            else:
                yield from self._large_records(found) if found.large is not None else self._records(found)
                if self._is_interrupted:
                    return
            self.next_offset = max(self.next_offset, self._rows.next_offset)
        self.next_offset = max(self.next_offset, self._rows.next_offset)

    def _records(self, rows: WindowRows) -> Iterator[FoundRecord | Gap]:
        request = self._request
        is_aborted = self._aborted(rows.table)
        wanted = np.ones(len(rows.table), np.bool_)
        if not request.with_control:
            wanted &= ~rows.table.is_control
        if not request.with_aborted:
            wanted &= ~is_aborted
        table = rows.table.take(wanted)
        decoder = ColumnDecoder(
            sequences=True,
            start_offset=request.start,
            end_offset=request.end,
            max_rows=_MOST_ROWS,
            max_bytes=_MOST_COLUMN_BYTES,
        )
        row = 0
        while row < len(table):
            if row and self._budget.is_spent:
                self._interrupt(int(table.last_offset[row - 1]) + 1)
                return
            error: TidelogError | None = None
            try:
                row = decode_chunk(
                    rows.buffer,
                    table,
                    decoder,
                    base_position=rows.base_position,
                    first=row,
                    max_bytes=MAX_DECOMPRESSED_BYTES,
                )
            except TidelogError as failure:
                error, row = failure, decoder.stopped_at + 1
                if isinstance(failure, PayloadTooLargeError):
                    error = CorruptRecordError(f"the batch decompresses to more than {MAX_DECOMPRESSED_BYTES:,} bytes")
            if decoder.rows:
                columns = decoder.finish()
                self._budget.left -= columns.data_bytes // _DATA_PER_BYTE
                yield from self._found(rows, table, is_aborted[wanted].tolist(), columns)
            if error is not None:
                batch = table.row(row - 1)
                self.next_offset = max(self.next_offset, batch.last_offset + 1)
                yield _gap(rows, batch, 0, batch.base_offset, error.message)

    def _aborted(self, table: BatchTable) -> npt.NDArray[np.bool_]:
        if table.summary.attributes & TRANSACTIONAL_FLAG:
            return self._request.aborted().hits(table)
        return np.zeros(len(table), np.bool_)

    def _interrupt(self, next_offset: int) -> None:
        self.next_offset = max(self.next_offset, next_offset)
        self._is_interrupted = True

    def _found(
        self, rows: WindowRows, table: BatchTable, is_aborted: list[bool], columns: RecordColumns
    ) -> Iterator[FoundRecord]:
        assert columns.batch is not None
        assert columns.sequence is not None
        keys, values = StringColumn.keys(columns), StringColumn.values(columns)
        accepted = range(len(columns)) if self._request.key is None else _accepted(keys, self._request.key)
        for number in accepted:
            at = int(columns.batch[number])
            yield replace(
                _blank(table.row(at), rows.segment.base_offset, is_aborted=is_aborted[at]),
                offset=int(columns.offset[number]),
                timestamp=int(columns.timestamp[number]),
                timestamp_type=TimestampType(int(columns.timestamp_type[number])),
                key=self._piece(keys, number),
                value=self._piece(values, number),
                headers=self._headers(columns, number),
                header_count=_header_count(columns, number),
                sequence=int(columns.sequence[number]),
            )

    def _piece(self, column: StringColumn, number: int) -> Piece | None:
        if not column.valid[number]:
            return None
        start, end = int(column.offsets[number]), int(column.offsets[number + 1])
        return Piece(bytes(column.data[start : start + self._request.kept(end - start)]), end - start)

    def _headers(self, columns: RecordColumns, number: int) -> Sequence[tuple[str, Piece | None]]:
        if columns.header_offsets is None:
            return ()
        start, end = int(columns.header_offsets[number]), int(columns.header_offsets[number + 1])
        if start == end:
            return ()
        keys, values = StringColumn.header_keys(columns), StringColumn.header_values(columns)
        shown = range(start, min(end, start + _MOST_HEADERS))
        return [(_key_text(self._piece(keys, at)), self._piece(values, at)) for at in shown]

    def _large_records(self, rows: WindowRows) -> Iterator[FoundRecord | Gap]:
        """Yield the records of a batch that is too large to be held, as far as they can be read field by field."""
        batch, request = rows.large, self._request
        assert batch is not None
        header = read_batch_header(rows.buffer[:V2_HEADER_BYTES], available=batch.size)
        is_aborted = bool(self._aborted(row_table(batch))[0])
        if (header.is_control and not request.with_control) or (is_aborted and not request.with_aborted):
            return
        if header.is_legacy or header.codec:
            yield _gap(rows, batch, 0, batch.base_offset, f"a compressed batch of {batch.size:,} bytes is too large")
            return
        blank = _blank(batch, rows.segment.base_offset, is_aborted=is_aborted)
        source = FileBytes(rows.reader, batch.position, batch.size)
        base = record_base(header)
        next_offset, end = batch.base_offset, V2_HEADER_BYTES
        for number, start in enumerate(record_starts(source, end, batch.size, batch.record_count)):
            if number and self._budget.is_spent:
                self._interrupt(next_offset)
                return
            self._budget.left -= _LARGE_RECORD_COST
            record = read_record(source, start, batch.size, number=number, base=base)
            if record.problem is not None or number == _MOST_LARGE_RECORDS:
                reason = f"more than {_MOST_LARGE_RECORDS:,} records lie in this batch of {batch.size:,} bytes"
                reason = reason if record.problem is None else record.problem.reason
                yield _gap(rows, batch, start, next_offset, reason)
                return
            assert record.offset is not None
            next_offset, end = record.offset + 1, record.end
            if request.start <= record.offset < request.end and self._accepts(source, record):
                yield self._of_fields(blank, source, record)
        if end < batch.size:
            yield _gap(rows, batch, end, next_offset, "the records of a large batch end before it")

    def _accepts(self, source: ByteSource, record: RecordFields) -> bool:
        wanted, key = self._request.key, record.key
        if wanted is None or key is None:
            return wanted is None
        return wanted.accepts(source.read(key.start, min(key.end, key.start + wanted.needed_bytes)))

    def _of_fields(self, blank: FoundRecord, source: ByteSource, record: RecordFields) -> FoundRecord:
        assert record.offset is not None
        assert record.timestamp is not None
        first_sequence = blank.sequence
        sequence = -1 if first_sequence < 0 else (first_sequence + record.offset - blank.offset) & MAX_SEQUENCE
        headers = [
            (_key_text(self._read(source, header.key)), self._read(source, header.value)) for header in record.headers
        ]
        return replace(
            blank,
            offset=record.offset,
            timestamp=record.timestamp,
            key=self._read(source, record.key),
            value=self._read(source, record.value),
            headers=headers[:_MOST_HEADERS],
            header_count=record.header_count,
            sequence=sequence,
            is_checked=False,
        )

    def _read(self, source: ByteSource, span: Span | None) -> Piece | None:
        if span is None:
            return None
        return Piece(source.read(span.start, span.start + self._request.kept(span.size)), span.size)


def _blank(batch: BatchRow, segment: int, *, is_aborted: bool) -> FoundRecord:
    """Return a record with the values of its batch only."""
    is_v2 = batch.magic >= CURRENT_MAGIC
    return FoundRecord(
        offset=batch.base_offset,
        timestamp=batch.max_timestamp,
        timestamp_type=timestamp_type_of(batch.attributes, batch.magic),
        key=None,
        value=None,
        segment=segment,
        position=batch.position,
        sequence=batch.base_sequence,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        leader_epoch=batch.leader_epoch,
        is_transactional=is_v2 and bool(batch.attributes & TRANSACTIONAL_FLAG),
        is_control=is_v2 and bool(batch.attributes & CONTROL_FLAG),
        is_aborted=is_aborted,
    )


def _gap(rows: WindowRows, batch: BatchRow, start: int, offset: int, reason: str) -> Gap:
    """Return the gap from byte ``start`` of a batch to its end."""
    return Gap(
        segment=rows.segment.base_offset,
        position=batch.position + start,
        size=batch.size - start,
        offset=offset,
        reason=reason,
    )


def _accepted(keys: StringColumn, wanted: KeyFilter) -> Iterator[int]:
    data, valid, needed = bytes(keys.data), keys.valid.tolist(), wanted.needed_bytes
    for number, (start, end) in enumerate(pairwise(keys.offsets.tolist())):
        if valid[number] and wanted.accepts(data[start : min(end, start + needed)]):
            yield number


def _header_count(columns: RecordColumns, number: int) -> int:
    bounds = columns.header_offsets
    return 0 if bounds is None else int(bounds[number + 1] - bounds[number])


def _key_text(piece: Piece | None) -> str:
    return "" if piece is None else java_text(piece.data)
