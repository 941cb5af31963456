"""One batch of a table with its records as plain v2 bytes, whatever its format and codec. Used by clean.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.kernel.faults import Fault
from tidelog.kernel.reference.record_reader import FaultError, RawRecord, read_records
from tidelog.kernel.reference.scan import HEADER_UP_TO_MAGIC, PREFIX, SMALLEST_RECORD, V2_HEADER
from tidelog.kernel.reference.wrap import wrap64
from tidelog.kernel.table import BatchTable
from tidelog.model.errors import CorruptRecordError

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
    """A legacy row's ``header`` is its stand-in's, or nonsense where it was not opened; ``codec`` is the row's own."""

    whole: bytes
    header: Header
    records: bytes | None
    """None where they were not opened."""
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

    def read(self) -> list[RawRecord]:
        """All records; CorruptRecordError where they contradict themselves or the header."""
        if self.records is None:
            raise ValueError(f"the batch at position {self.position} is compressed or legacy, and was not opened")
        count, span = self.header.record_count, self.header.last_offset_delta
        if not 0 <= self.header.base_offset <= _INT64_LIMIT - max(span, 0) or span < 0 or not 0 <= count <= span + 1:
            raise self.refusal(Fault.HEADER, -1)
        if count * SMALLEST_RECORD > len(self.records):
            raise self.refusal(Fault.RECORD_COUNT, -1)
        try:
            return list(read_records(self.records, count, last_delta=span))
        except FaultError as found:
            raise self.refusal(found.fault, found.index) from None

    def refusal(self, fault: Fault, index: int) -> CorruptRecordError:
        message = fault.sentence
        if fault.is_of_a_record:
            message = f"{message}: record {index} of {self.header.record_count}"
        offset = int.from_bytes(self.whole[:8], "big", signed=True)
        return CorruptRecordError(message, position=self.position, offset=offset)


def open_batch(
    data: memoryview, table: BatchTable, row: int, plain: Sequence[Buffer | None] | None, base_position: int
) -> OpenBatch:
    """The batch of a row; ``plain`` holds its records where it is compressed, its stand-in where it is legacy."""
    position = int(table.position[row])
    start = position - base_position
    length = int.from_bytes(data[start + 8 : start + 12], "big", signed=True) if 0 <= start <= len(data) - 17 else -1
    least = (V2_HEADER.size if length >= 0 and data[start + 16] == 2 else HEADER_UP_TO_MAGIC + 1) - PREFIX
    if not least <= length <= len(data) - start - PREFIX:
        raise ValueError(f"the batch at position {position} does not lie in this buffer")
    whole = bytes(data[start : start + PREFIX + length])
    is_legacy = whole[16] != 2
    batch = OpenBatch(whole, _NO_HEADER, None, whole[17 if is_legacy else 22] & CODEC, is_legacy, position)
    if not table.crc_ok[row]:
        raise batch.refusal(Fault.CRC, -1)
    given = None if plain is None else plain[row]
    opened = None if given is None else bytes(given)
    if is_legacy:
        if opened is None:
            return batch
        if len(opened) < V2_HEADER.size or opened[16] != 2:
            raise ValueError(f"the stand-in of the batch at position {position} is no v2 batch")
        return batch._replace(header=Header(*V2_HEADER.unpack_from(opened)), records=opened[V2_HEADER.size :])
    header = Header(*V2_HEADER.unpack_from(whole))
    return batch._replace(header=header, records=opened if batch.codec else whole[V2_HEADER.size :])
