"""The encoder into v2 batches; twin of _encode.pyx, _encode_records.pyx and _seal.pyx."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kernel.reference.checksums import crc32c
from kernel.reference.scan import PREFIX, V2_HEADER
from kernel.reference.varint import write_varint
from kernel.reference.wrap import wrap64
from tidelog.kernel.columns import Bitmap, Int32s, Payload, RecordColumns

if TYPE_CHECKING:
    from typing_extensions import Buffer

_INT32_LIMIT: Final = 2**31 - 1
_BAD_COLUMNS: Final = "the columns contradict themselves: offsets fall, pass the data, or a header key is null"
_BAD_OFFSET: Final = "offsets do not ascend, or one lies outside the 31 bits above the base offset"


class _Fields(NamedTuple):
    """The parts of a record; header keys are bytes."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[bytes, bytes | None]]


def _encode(records: Sequence[_Fields], base_offset: int | None, base_timestamp: int | None) -> Payload:
    if base_timestamp is None:
        base_timestamp = records[0].timestamp if records else -1
    data = bytearray()
    last_delta = -1
    for index, record in enumerate(records):
        delta = index if base_offset is None else wrap64(record.offset - base_offset)
        if not last_delta < delta <= _INT32_LIMIT:
            raise ValueError(_BAD_OFFSET)
        last_delta = delta
        data += _record(record, wrap64(record.timestamp - base_timestamp), delta)
    max_timestamp = max((record.timestamp for record in records), default=-1)
    return Payload(data, len(records), last_delta, base_timestamp, max_timestamp)


def _record(record: _Fields, timestamp_delta: int, offset_delta: int) -> bytes:
    body = b"\0" + write_varint(timestamp_delta) + write_varint(offset_delta)
    body += _part(record.key) + _part(record.value) + write_varint(len(record.headers))
    body += b"".join(_part(part) for header in record.headers for part in header)
    return write_varint(len(body)) + body


def _part(part: bytes | None) -> bytes:
    return write_varint(-1) if part is None else write_varint(len(part)) + part


class ColumnEncoder:
    """An encoder for runs of rows of a RecordColumns."""

    def __init__(self, columns: RecordColumns) -> None:
        self._columns = columns
        self.rows = len(columns.offset)

    def _fields(self, first: int, last: int) -> list[_Fields]:
        if not 0 <= first <= last <= self.rows:
            raise ValueError(f"rows [{first}:{last}] of {self.rows}")
        c = self._columns
        keys = _parts(c.key_offsets, c.key_data, c.key_validity, first, last)
        values = _parts(c.value_offsets, c.value_data, c.value_validity, first, last)
        return [
            _Fields(int(c.offset[row]), int(c.timestamp[row]), keys[row - first], values[row - first], headers)
            for row, headers in zip(range(first, last), self._headers(first, last), strict=True)
        ]

    def _headers(self, first: int, last: int) -> list[list[tuple[bytes, bytes | None]]]:
        c = self._columns
        if c.header_offsets is None:
            return [[] for _ in range(first, last)]
        if c.header_key_offsets is None or c.header_value_offsets is None:
            raise ValueError("header_offsets without header keys and values")
        bounds = [int(bound) for bound in c.header_offsets[first : last + 1]]
        if bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > len(c.header_key_offsets) - 1:
            raise ValueError(_BAD_COLUMNS)
        keys = _parts(c.header_key_offsets, c.header_key_data, None, bounds[0], bounds[-1])
        values = _parts(c.header_value_offsets, c.header_value_data, c.header_value_validity, bounds[0], bounds[-1])
        headers = [(key or b"", value) for key, value in zip(keys, values, strict=True)]
        starts = [bound - bounds[0] for bound in bounds]
        return [headers[start:end] for start, end in itertools.pairwise(starts)]

    def payload(
        self,
        first: int = 0,
        last: int | None = None,
        *,
        base_offset: int | None = None,
        base_timestamp: int | None = None,
    ) -> Payload:
        return _encode(self._fields(first, self.rows if last is None else last), base_offset, base_timestamp)

    def batch_boundaries(
        self, first: int = 0, last: int | None = None, *, max_batch_bytes: int, max_records: int = _INT32_LIMIT
    ) -> npt.NDArray[np.int64]:
        if max_records < 1:
            raise ValueError(f"max_records must be at least 1, not {max_records}")
        end = self.rows if last is None else last
        records = self._fields(first, end)
        boundaries = [first]
        size = V2_HEADER.size
        for row in range(first, end):
            length = self._record_size(records, first, row, boundaries[-1])
            if row > boundaries[-1] and (size + length > max_batch_bytes or row - boundaries[-1] == max_records):
                boundaries.append(row)
                size = V2_HEADER.size
                length = self._record_size(records, first, row, row)
            size += length
        return np.array([*boundaries, end] if end > first else boundaries, np.int64)

    @staticmethod
    def _record_size(records: Sequence[_Fields], first: int, row: int, begun: int) -> int:
        delta = wrap64(records[row - first].timestamp - records[begun - first].timestamp)
        return len(_record(records[row - first], delta, row - begun))

    def batches(
        self,
        boundaries: Sequence[int] | npt.NDArray[np.int64],
        *,
        base_offset: int = 0,
        keep_offsets: bool = False,
        attributes: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
    ) -> bytearray:
        out = bytearray()
        for first, last in itertools.pairwise(boundaries):
            if first >= last:
                raise ValueError(f"boundary {last} after {first}: boundaries must ascend")
            start = int(self._columns.offset[first]) if keep_offsets else base_offset + int(first - boundaries[0])
            payload = self.payload(int(first), int(last), base_offset=start if keep_offsets else None)
            out += seal_batch(
                payload.data,
                base_offset=start,
                last_offset_delta=payload.last_offset_delta,
                record_count=payload.record_count,
                base_timestamp=payload.base_timestamp,
                max_timestamp=payload.max_timestamp,
                attributes=attributes,
                leader_epoch=leader_epoch,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=(base_sequence + int(first - boundaries[0])) % 2**31
                if base_sequence >= 0
                else base_sequence,
            )
        return out


def _parts(
    offsets: Int32s | None, data: memoryview | None, validity: Bitmap | None, first: int, last: int
) -> list[bytes | None]:
    if offsets is None or data is None:
        return [None] * (last - first)
    if last > len(offsets) - 1:
        raise ValueError(_BAD_COLUMNS)
    bounds = [int(bound) for bound in offsets[first : last + 1]]
    if bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > len(data):
        raise ValueError(_BAD_COLUMNS)
    return [
        bytes(data[start:end]) if validity is None or validity[row >> 3] >> (row & 7) & 1 else None
        for row, start, end in zip(range(first, last), bounds, bounds[1:], strict=False)
    ]


def encode_payload(
    columns: RecordColumns,
    first: int = 0,
    last: int | None = None,
    *,
    base_offset: int | None = None,
    base_timestamp: int | None = None,
) -> Payload:
    return ColumnEncoder(columns).payload(first, last, base_offset=base_offset, base_timestamp=base_timestamp)


def encode_batch(columns: RecordColumns, first: int = 0, last: int | None = None, **fields: Any) -> bytearray:
    end = len(columns) if last is None else last
    return ColumnEncoder(columns).batches((first, end), **fields)


def encode_records(
    records: Iterable[tuple[Any, ...]], *, base_offset: int | None = None, base_timestamp: int | None = None
) -> Payload:
    fields = []
    for offset, timestamp, _, key, value, headers in records:
        pairs = []
        for name, part in headers:
            if not isinstance(name, str):
                raise TypeError(f"a header's key must be str, not {type(name).__name__}")
            pairs.append((name.encode("utf-8"), None if part is None else bytes(part)))
        parts = [None if part is None else bytes(part) for part in (key, value)]
        fields.append(_Fields(offset, timestamp, parts[0], parts[1], pairs))
    return _encode(fields, base_offset, base_timestamp)


def seal_batch(
    records: Buffer,
    *,
    base_offset: int = 0,
    last_offset_delta: int,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    attributes: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray:
    data = bytes(records)
    batch = bytearray(
        V2_HEADER.pack(
            base_offset,
            V2_HEADER.size - PREFIX + len(data),
            leader_epoch,
            2,
            0,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        )
        + data
    )
    batch[17:21] = crc32c(batch[21:]).to_bytes(4, "big")
    return batch
