"""The decoder of record batches into columns; twin of _decode.pyx, which has the contracts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kernel.reference.record_reader import FaultError, RawRecord, read_records
from kernel.reference.scan import PREFIX, SMALLEST_RECORD, V2_HEADER
from kernel.reference.wrap import wrap64
from tidelog.kernel.columns import RecordColumns
from tidelog.kernel.faults import Fault
from tidelog.kernel.table import BatchTable
from tidelog.model.errors import CorruptRecordError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_INT32_LIMIT: Final = 2**31 - 1
_LONG_MIN: Final = -(2**63)
_LONG_MAX: Final = 2**63 - 1


class _Batch(NamedTuple):
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    timestamp_type: int
    record_count: int
    base_sequence: int
    number: int
    position: int | None


class _Row(NamedTuple):
    offset: int
    timestamp: int
    timestamp_type: int
    batch: int
    sequence: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...]


class ColumnDecoder:
    """A collector of records until ``finish``; a batch is added completely or not at all."""

    def __init__(
        self,
        *,
        keys: bool = True,
        values: bool = True,
        headers: bool = True,
        sequences: bool = False,
        start_offset: int = _LONG_MIN,
        end_offset: int = _LONG_MAX,
        max_rows: int = _INT32_LIMIT,
        max_bytes: int = _INT32_LIMIT,
        limit_bytes: int = _INT32_LIMIT,
    ) -> None:
        if not 0 < limit_bytes <= _INT32_LIMIT:
            raise ValueError(f"limit_bytes must be from 1 to {_INT32_LIMIT}, not {limit_bytes}")
        if max_rows < 1 or max_bytes < 1:
            raise ValueError(f"max_rows and max_bytes must be at least 1, not {max_rows} and {max_bytes}")
        self._keys, self._values, self._headers, self._sequences = keys, values, headers, sequences
        self._start_offset, self._end_offset = start_offset, end_offset
        self._max_rows, self._max_bytes, self._limit_bytes = max_rows, max_bytes, limit_bytes
        self._rows: list[_Row] = []
        self._refused = False
        self.stopped_at = 0

    @property
    def rows(self) -> int:
        return len(self._rows)

    @property
    def data_bytes(self) -> int:
        return sum(self._column_bytes())

    @property
    def full(self) -> bool:
        return self._refused or self.rows >= self._max_rows or self.data_bytes >= self._max_bytes

    def _column_bytes(self) -> tuple[int, int, int, int]:
        headers = [header for row in self._rows for header in row.headers]
        return (
            sum(len(row.key or b"") for row in self._rows),
            sum(len(row.value or b"") for row in self._rows),
            sum(len(key) for key, _ in headers),
            sum(len(value or b"") for _, value in headers),
        )

    def fits(self, payload_bytes: int) -> bool:
        headers = sum(len(row.headers) for row in self._rows)
        if payload_bytes > self._limit_bytes - max(self._column_bytes()):
            return False
        return payload_bytes <= _INT32_LIMIT - 1 - max(self.rows, headers)

    def add_batches(
        self,
        buffer: Buffer,
        table: BatchTable,
        first: int = 0,
        last: int | None = None,
        *,
        base_position: int = 0,
        batch: int = 0,
        keep: npt.NDArray[np.bool_] | None = None,
    ) -> int:
        data = bytes(buffer)
        end = len(table) if last is None else last
        if not 0 <= first <= end <= len(table):
            raise ValueError(f"rows [{first}:{end}] of a table of {len(table)}")
        if batch < 0 or batch > _INT32_LIMIT - len(table):
            raise ValueError(f"batch numbers from {batch} on do not fit 31 bits")
        if keep is not None and len(keep) != len(table):
            raise ValueError(f"keep has {len(keep)} rows, the table {len(table)}")
        for index in range(first, end):
            self.stopped_at = index
            if keep is not None and not keep[index]:
                continue
            position = int(table.position[index])
            if not self._add_row(data, position - base_position, position, bool(table.crc_ok[index]), batch + index):
                return index
        self.stopped_at = end
        return end

    def _add_row(self, data: bytes, index: int, position: int, crc_ok: bool, number: int) -> bool:
        """Add a row; return False if this decoder cannot take it, or not now."""
        size = int.from_bytes(data[index + 8 : index + 12], "big", signed=True) if 0 <= index <= len(data) - 17 else -1
        if size < 0 or size > len(data) - index - PREFIX:
            raise ValueError(f"the batch at position {position} does not lie in this buffer")
        base_offset = int.from_bytes(data[index : index + 8], "big", signed=True)
        if not crc_ok:
            raise CorruptRecordError(Fault.CRC.sentence, position=position, offset=base_offset)
        if data[index + 16] != 2:
            return False
        if size < V2_HEADER.size - PREFIX:
            raise ValueError(f"the batch at position {position} does not lie in this buffer")
        fields = V2_HEADER.unpack_from(data, index)
        attributes, delta, base_timestamp, max_timestamp, _, _, base_sequence, count = fields[5:]
        batch = _Batch(
            base_offset,
            wrap64(base_offset + delta),
            base_timestamp,
            max_timestamp,
            attributes >> 3 & 1,
            count,
            base_sequence,
            number,
            position,
        )
        _check_header(batch)
        if batch.last_offset < self._start_offset or base_offset >= self._end_offset:
            return True
        if attributes & 7 or self.rows >= self._max_rows or self.data_bytes >= self._max_bytes:
            return False
        if not self.fits(size):
            if not self.rows:
                raise OverflowError(
                    f"the batch at offset {base_offset} alone passes the limit of {self._limit_bytes} bytes"
                )
            self._refused = True
            return False
        self._add_records(batch, data[index + V2_HEADER.size : index + PREFIX + size])
        return True

    def add_payload(
        self,
        payload: Buffer,
        *,
        base_offset: int,
        base_timestamp: int,
        max_timestamp: int,
        attributes: int,
        record_count: int,
        batch: int = 0,
        base_sequence: int = -1,
        last_offset: int | None = None,
        position: int | None = None,
    ) -> None:
        data = bytes(payload)
        if last_offset is None:
            last_offset = min(base_offset + _INT32_LIMIT, _LONG_MAX)
        fields = _Batch(
            base_offset,
            last_offset,
            base_timestamp,
            max_timestamp,
            attributes >> 3 & 1,
            record_count,
            base_sequence,
            batch,
            position,
        )
        _check_header(fields)
        if not self.fits(len(data)):
            if not self.rows:
                raise OverflowError(
                    f"the batch at offset {base_offset} alone passes the limit of {self._limit_bytes} bytes"
                )
            self._refused = True
            raise OverflowError("the payload may pass the limit of a data column: finish first")
        self._add_records(fields, data)

    def _add_records(self, batch: _Batch, payload: bytes) -> None:
        if batch.record_count * SMALLEST_RECORD > len(payload):
            _refuse(batch, Fault.RECORD_COUNT, -1)
        try:
            last_delta = batch.last_offset - batch.base_offset
            records = list(read_records(payload, batch.record_count, last_delta=last_delta))
        except FaultError as found:
            _refuse(batch, found.fault, found.index)
        for record in records:
            offset = batch.base_offset + record.offset_delta
            if self._start_offset <= offset < self._end_offset:
                self._rows.append(self._row(batch, record, offset))

    def _row(self, batch: _Batch, record: RawRecord, offset: int) -> _Row:
        timestamp = wrap64(batch.base_timestamp + record.timestamp_delta)
        sequence = (batch.base_sequence + record.offset_delta) % 2**31 if batch.base_sequence >= 0 else -1
        return _Row(
            offset,
            batch.max_timestamp if batch.timestamp_type else timestamp,
            batch.timestamp_type,
            batch.number,
            sequence,
            record.key if self._keys else None,
            record.value if self._values else None,
            record.headers if self._headers else (),
        )

    def add_record(
        self,
        *,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: Buffer | None = None,
        value: Buffer | None = None,
        headers: Iterable[tuple[Buffer, Buffer | None]] = (),
        batch: int = 0,
        sequence: int = -1,
    ) -> None:
        parts = [None if part is None else bytes(part) for part in (key, value)]
        pairs = tuple((bytes(name), None if part is None else bytes(part)) for name, part in headers)
        if not self._start_offset <= offset < self._end_offset:
            return
        total = sum(len(part or b"") for part in parts)
        total += sum(len(name) + len(part or b"") + 2 for name, part in pairs)
        if not self.fits(total + SMALLEST_RECORD):
            self._refused = True
            raise OverflowError("the record may pass the limit of a data column: finish first")
        self._rows.append(
            _Row(
                offset,
                timestamp,
                timestamp_type,
                batch,
                sequence,
                parts[0] if self._keys else None,
                parts[1] if self._values else None,
                pairs if self._headers else (),
            )
        )

    def finish(self) -> RecordColumns:
        rows, self._rows, self._refused = self._rows, [], False
        columns: dict[str, Any] = {
            "offset": np.array([row.offset for row in rows], np.int64),
            "timestamp": np.array([row.timestamp for row in rows], np.int64),
            "timestamp_type": np.array([row.timestamp_type for row in rows], np.int8),
            "batch": np.array([row.batch for row in rows], np.int32),
        }
        if self._sequences:
            columns["sequence"] = np.array([row.sequence for row in rows], np.int32)
        if self._keys:
            columns |= _strings("key", [row.key for row in rows])
        if self._values:
            columns |= _strings("value", [row.value for row in rows])
        if self._headers:
            headers = [header for row in rows for header in row.headers]
            columns["header_offsets"] = _ends([len(row.headers) for row in rows])
            columns["header_key_offsets"] = _ends([len(key) for key, _ in headers])
            columns["header_key_data"] = memoryview(b"".join(key for key, _ in headers))
            columns["header_keys_are_utf8"] = all(_is_utf8(key) for key, _ in headers)
            columns |= _strings("header_value", [value for _, value in headers])
        return RecordColumns(**columns)


def _check_header(batch: _Batch) -> None:
    span = batch.last_offset - batch.base_offset
    if batch.base_offset < 0 or batch.record_count < 0 or not 0 <= span <= _INT32_LIMIT:
        _refuse(batch, Fault.HEADER, -1)
    if batch.record_count > span + 1:
        _refuse(batch, Fault.HEADER, -1)


def _refuse(batch: _Batch, fault: Fault, index: int) -> None:
    message = f"{fault.sentence}: record {index} of {batch.record_count}" if fault.is_of_a_record else fault.sentence
    raise CorruptRecordError(message, position=batch.position, offset=batch.base_offset) from None


def _ends(lengths: list[int]) -> npt.NDArray[np.int32]:
    return np.cumsum([0, *lengths]).astype(np.int32)


def _strings(name: str, parts: list[bytes | None]) -> dict[str, Any]:
    valid = np.array([part is not None for part in parts], np.bool_)
    nulls = int(np.count_nonzero(~valid))
    return {
        f"{name}_offsets": _ends([len(part or b"") for part in parts]),
        f"{name}_data": memoryview(b"".join(part or b"" for part in parts)),
        f"{name}_validity": np.packbits(valid, bitorder="little") if nulls else None,
        f"{name}_null_count": nulls,
    }


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
