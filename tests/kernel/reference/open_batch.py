"""A batch with its records as plain v2 bytes, for any format and codec; twin of _open_batch.pxd."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kernel.reference.record_reader import FaultError, RawRecord, read_records
from kernel.reference.scan import HEADER_UP_TO_MAGIC, PREFIX, SMALLEST_RECORD, V2_HEADER
from kernel.reference.wrap import wrap64
from tidelog.kernel.faults import Fault, OpenFault, open_error
from tidelog.kernel.table import BatchTable

if TYPE_CHECKING:
    from typing_extensions import Buffer

CODEC: Final = 0x07
LOG_APPEND: Final = 0x08
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40
_INT64_LIMIT: Final = 2**63 - 1


class Header(NamedTuple):
    """The fields of a v2 header, in their order."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int


_NO_HEADER: Final = Header(*[0] * 13)


class OpenBatch(NamedTuple):
    """An opened batch. A legacy row has its opened batch's ``header``, or zeros if not opened; ``codec`` is its own."""

    whole: bytes
    header: Header
    records: bytes | None
    """None if the records were not opened."""
    codec: int
    is_legacy: bool
    position: int

    @property
    def delete_horizon(self) -> int | None:
        return self.header.base_timestamp if self.header.attributes & DELETE_HORIZON else None

    def timestamp_of(self, record: RawRecord) -> int:
        if self.header.attributes & LOG_APPEND:
            return self.header.max_timestamp
        return wrap64(self.header.base_timestamp + record.timestamp_delta)

    def read(self) -> Iterator[RawRecord]:
        """Yield all records. Raise an error for a record that contradicts itself or the header."""
        count, span = self.header.record_count, self.header.last_offset_delta
        if self.records is None and (self.is_legacy or count):
            raise self.error(OpenFault.NOT_OPENED)
        records = self.records or b""
        if not 0 <= self.header.base_offset <= _INT64_LIMIT - max(span, 0) or span < 0 or not 0 <= count <= span + 1:
            raise self.error(Fault.HEADER)
        if count * SMALLEST_RECORD > len(records):
            raise self.error(Fault.RECORD_COUNT)
        try:
            yield from read_records(records, count, last_delta=span)
        except FaultError as found:
            raise self.error(found.fault, found.index) from None

    def error(self, fault: int, record: int = -1) -> Exception:
        offset = int.from_bytes(self.whole[:8], "big", signed=True)
        return open_error(fault, position=self.position, offset=offset, record=record, count=self.header.record_count)


def open_batch(
    data: memoryview, table: BatchTable, row: int, opened: Sequence[Buffer | None] | None, base_position: int
) -> OpenBatch:
    """Return the batch of a row; ``opened`` has a compressed row's records, or a v2 batch for a legacy row."""
    position = int(table.position[row])
    start = position - base_position
    whole = _batch_at(data, start)
    batch = OpenBatch(whole, _NO_HEADER, None, 0, is_legacy=False, position=position)
    if not whole:
        raise batch.error(OpenFault.NOT_IN_BUFFER)
    if not table.crc_ok[row]:
        raise batch.error(Fault.CRC)
    is_legacy = whole[16] != 2
    given = None if opened is None else opened[row]
    contents = None if given is None else bytes(given)
    batch = batch._replace(codec=whole[17 if is_legacy else 22] & CODEC, is_legacy=is_legacy)
    if is_legacy:
        if contents is None:
            return batch
        if len(contents) < V2_HEADER.size or contents[16] != 2:
            raise batch.error(OpenFault.NO_OPENED_BATCH)
        return batch._replace(header=Header(*V2_HEADER.unpack_from(contents)), records=contents[V2_HEADER.size :])
    header = Header(*V2_HEADER.unpack_from(whole))
    return batch._replace(header=header, records=contents if batch.codec else whole[V2_HEADER.size :])


def _batch_at(data: memoryview, start: int) -> bytes:
    """Return the bytes of the batch at ``start``, or empty bytes."""
    if not 0 <= start < len(data) - HEADER_UP_TO_MAGIC + 1:
        return b""
    length = int.from_bytes(data[start + 8 : start + 12], "big", signed=True)
    least = (V2_HEADER.size if data[start + 16] == 2 else HEADER_UP_TO_MAGIC + 1) - PREFIX
    return bytes(data[start : start + PREFIX + length]) if least <= length <= len(data) - start - PREFIX else b""


def check_rows(table: BatchTable, **columns: Any) -> None:
    """Raise ValueError if a column has more or fewer rows than the table."""
    for name, column in columns.items():
        if column is not None and len(column) != len(table):
            raise ValueError(f"{name} has {len(column)} rows, the table {len(table)}")
