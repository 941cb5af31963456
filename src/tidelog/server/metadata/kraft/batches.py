"""The batches of the metadata log and of its snapshots, built from records and read back. Pure.

A batch has either control records of the quorum or metadata records without keys. All its records have one timestamp.
Source: Kafka's ``BatchAccumulator``, ``RecordsIterator``; KIP-595.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.kernel import ColumnDecoder, Stop, scan_batches
from tidelog.model import CorruptRecordError, Record, TimestampType
from tidelog.record.build import build_batch
from tidelog.record.control import ControlType, control_type
from tidelog.record.decode import decode_columns, iter_records
from tidelog.record.quorum import quorum_fields
from tidelog.server.metadata.kraft.quorum import ControlRecord
from tidelog.server.metadata.metadata_record import MetadataRecord, decode_record
from tidelog.storage.segment.segment_reader import Chunk

if TYPE_CHECKING:
    from typing_extensions import Buffer

_TYPE_AT: Final = 1
"""The position of the record type in a value, after the frame's version. Both are one byte."""
MAX_BATCH_BYTES: Final = 8 * 1024 * 1024


class MetadataBatch(NamedTuple):
    """A batch. Either ``records`` or ``control_records`` is empty."""

    base_offset: int
    last_offset: int
    epoch: int
    timestamp_ms: int
    records: tuple[MetadataRecord, ...]
    control_records: tuple[ControlRecord, ...]


def build_records(values: Sequence[bytes], *, base_offset: int, epoch: int, now_ms: int) -> bytearray:
    """Build one batch of encoded records."""
    return build_batch(
        [Record(base_offset, now_ms, TimestampType.CREATE, None, value) for value in values],
        base_offset=base_offset,
        leader_epoch=epoch,
    )


def build_control(records: Iterable[ControlRecord], *, base_offset: int, epoch: int, now_ms: int) -> bytearray:
    """Build one control batch."""
    return build_batch(
        [Record(base_offset, now_ms, TimestampType.CREATE, record.key, record.value) for record in records],
        base_offset=base_offset,
        leader_epoch=epoch,
        control=True,
    )


def read_batches(buffer: Buffer, *, start_offset: int = 0) -> Iterator[MetadataBatch]:
    """Yield the complete batches from the first that ends at or above ``start_offset``. A partial last batch is
    skipped. Raise CorruptRecordError if a batch is damaged, and UnsupportedFormatError if this release does not know a
    record."""
    data = memoryview(buffer)
    table = scan_batches(data)
    if table.stop not in (Stop.END, Stop.PARTIAL) or not table.summary.crcs_ok:
        raise CorruptRecordError("a batch of the cluster metadata is damaged", position=table.end_position)
    return chunk_batches(Chunk(data, table, 0), start_offset=start_offset)


def chunk_batches(
    chunk: Chunk, *, start_offset: int = 0, skipped_types: Collection[int] = ()
) -> Iterator[MetadataBatch]:
    """Yield the batches of a chunk, whose CRCs must be correct. Records with a type number in ``skipped_types`` are
    skipped without decoding. Raise UnsupportedFormatError as ``read_batches`` does, and CorruptRecordError if a batch
    is inconsistent."""
    table = chunk.table
    for index, row in enumerate(table.rows()):
        if row.last_offset < start_offset:
            continue
        rows = decode_columns(
            chunk.buffer,
            table.take(slice(index, index + 1)),
            ColumnDecoder(headers=False),
            base_position=chunk.base_position,
        )
        found = [record for columns in rows for record in iter_records(columns)]
        is_control = bool(table.is_control[index])
        yield MetadataBatch(
            row.base_offset,
            row.last_offset,
            row.leader_epoch,
            row.max_timestamp,
            () if is_control else tuple(map(decode_record, _values(found, skipped_types))),
            tuple(filter(None, map(_control_record, found))) if is_control else (),
        )


def _values(records: Iterable[Record], skipped_types: Collection[int]) -> Iterator[bytes]:
    for record in records:
        value = record.value or b""
        if not skipped_types or len(value) <= _TYPE_AT or value[_TYPE_AT] not in skipped_types:
            yield value


def _control_record(record: Record) -> ControlRecord | None:
    """Return the record, or None if its type is from a later release."""
    type_ = control_type(record.key)
    if type_ is ControlType.UNKNOWN:
        return None
    return ControlRecord(type_, quorum_fields(type_, record.value))
