"""The scan of a buffer's batches into a BatchTable. This is the twin of _scan.pyx."""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final

import numpy as np

from kernel.reference.checksums import crc32, crc32c
from kernel.reference.wrap import wrap64
from tidelog.kernel.table import COLUMNS, BatchRow, BatchTable, Stop

if TYPE_CHECKING:
    from typing_extensions import Buffer

PREFIX: Final = 12
"""The bytes of the offset and length fields, which the length does not count."""
HEADER_UP_TO_MAGIC: Final = 17
V2_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
SMALLEST_LENGTH: Final = {0: 14, 1: 22, 2: 49}
SMALLEST_RECORD: Final = 7
_SIZE_LIMIT: Final = 2**31 - 1


def scan_batches(
    buffer: Buffer, start: int = 0, end: int | None = None, *, base_position: int = 0, verify_crc: bool = True
) -> BatchTable:
    """Scan ``buffer[start:end]``. Invalid bytes end the scan and set ``stop``; they raise no error."""
    data = bytes(buffer)
    stop_at = len(data) if end is None else end
    if not 0 <= start <= stop_at <= len(data):
        raise ValueError(f"cannot scan [{start}:{end}] of a buffer of {len(data)} bytes")
    rows: list[BatchRow] = []
    index = start
    while True:
        stop, size = _next_batch(data, index, stop_at)
        if stop is not None:
            break
        batch = data[index : index + size]
        read = _v2_row if batch[16] == 2 else _legacy_row
        rows.append(read(batch, base_position + index, verify_crc))
        index += size
    columns = {
        name: np.array([getattr(row, name) for row in rows], dtype) if rows else np.zeros(0, dtype)
        for name, dtype in COLUMNS
    }
    partial_size = size if stop is Stop.PARTIAL else 0
    return BatchTable.from_columns(columns, base_position + index, stop, partial_size, verify_crc)


class BatchScan:
    """A scan of buffers that follow each other."""

    def __init__(self, position: int = 0, *, expected_bytes: int = 0, verify_crc: bool = True) -> None:
        self.end_position, self._verify = position, verify_crc
        self.partial_size = 0
        self._tables = [scan_batches(b"", base_position=position, verify_crc=verify_crc)]

    def add(self, buffer: Buffer) -> Stop:
        self._tables.append(scan_batches(buffer, base_position=self.end_position, verify_crc=self._verify))
        self.end_position, self.partial_size = self._tables[-1].end_position, self._tables[-1].partial_size
        return self._tables[-1].stop

    def table(self) -> BatchTable:
        return BatchTable.concat(self._tables)


def scan_headers(descriptor: int, start: int, end: int) -> BatchTable:
    """Scan the bytes from ``start`` to ``end`` of a file. They may end earlier."""
    if not 0 <= start <= end:
        raise ValueError(f"cannot scan [{start}:{end}] of a file")
    return scan_batches(os.pread(descriptor, end - start, start), base_position=start, verify_crc=False)


def _next_batch(data: bytes, index: int, end: int) -> tuple[Stop | None, int]:
    """Return the reason why no complete batch is at ``index`` (None: there is one), and its actual or claimed size."""
    left = end - index
    if left <= HEADER_UP_TO_MAGIC:
        return (Stop.PARTIAL if left else Stop.END), 0
    length = int.from_bytes(data[index + 8 : index + 12], "big", signed=True)
    magic = int.from_bytes(data[index + 16 : index + 17], "big", signed=True)
    if length < SMALLEST_LENGTH[0]:
        return Stop.BAD_SIZE, 0
    if length > left - PREFIX:
        return Stop.PARTIAL, PREFIX + length
    if magic not in SMALLEST_LENGTH:
        return Stop.BAD_MAGIC, 0
    if length < SMALLEST_LENGTH[magic] or length > _SIZE_LIMIT - PREFIX:
        return Stop.BAD_SIZE, 0
    return None, PREFIX + length


def _v2_row(batch: bytes, position: int, verify_crc: bool) -> BatchRow:
    (
        base_offset,
        length,
        leader_epoch,
        magic,
        crc,
        attributes,
        delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        record_count,
    ) = V2_HEADER.unpack_from(batch)
    last_offset = base_offset + delta
    header_ok = base_offset >= 0 and delta >= 0 and last_offset < 1 << 63 and 0 <= record_count <= delta + 1
    if header_ok and not attributes & 7:
        header_ok = record_count * SMALLEST_RECORD <= len(batch) - V2_HEADER.size
    return BatchRow(
        position=position,
        base_offset=base_offset,
        last_offset=wrap64(last_offset),
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        producer_id=producer_id,
        size=PREFIX + length,
        record_count=record_count,
        leader_epoch=leader_epoch,
        base_sequence=base_sequence,
        crc=crc,
        producer_epoch=producer_epoch,
        attributes=attributes,
        magic=magic,
        crc_ok=not verify_crc or crc32c(batch[21:]) == crc,
        header_ok=header_ok,
    )


def _legacy_row(message: bytes, position: int, verify_crc: bool) -> BatchRow:
    offset, length, crc, magic, attributes = struct.unpack_from(">qiIbB", message)
    timestamp = int.from_bytes(message[18:26], "big", signed=True) if magic == 1 else -1
    return BatchRow(
        position=position,
        base_offset=offset,
        last_offset=offset,
        base_timestamp=timestamp,
        max_timestamp=timestamp,
        producer_id=-1,
        size=PREFIX + length,
        record_count=-1 if attributes & 7 else 1,
        leader_epoch=-1,
        base_sequence=-1,
        crc=crc,
        producer_epoch=-1,
        attributes=attributes,
        magic=magic,
        crc_ok=not verify_crc or crc32(message[16:]) == crc,
        header_ok=offset >= 0,
    )
