"""The builder of v2 batches, in the layout of Kafka's producer and broker.

::

    base offset int64 | length int32 | leader epoch int32 | magic int8 = 2 | crc uint32 (CRC-32C of the rest) |
    attributes int16 | last offset delta int32 | base timestamp int64 | max timestamp int64 |
    producer id int64 | producer epoch int16 | base sequence int32 | record count int32 | records, compressed together

The base timestamp is the first record's (with a delete horizon: the horizon, KIP-534), the max timestamp the highest.
With log append time, every record has that time. Offsets are 0, 1, 2, … above ``base_offset`` unless they are kept.
Encoding, CRC and codecs are compiled and work without the GIL. Pure. Thread rule: any thread.
Source: Kafka's ``DefaultRecordBatch``, ``MemoryRecordsBuilder``; KIP-98.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from tidelog.kernel import ColumnEncoder, Payload, RecordColumns, encode_records, seal_batch
from tidelog.model import Record, TimestampType
from tidelog.record.attributes import NONE, batch_attributes, codec_number
from tidelog.record.compression import compress
from tidelog.record.control import EndTransactionMarker

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_MAX_BATCH_BYTES: Final = 1_000_000
"""A little below the default of ``max.message.bytes``, 1,048,588 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFields:
    """The header fields that do not follow from the records; the defaults mean a batch without a producer id."""

    codec: int | str = NONE
    """The codec's number or Kafka's name for it."""
    level: int | None = None
    """Kafka's level of that codec; None is Kafka's default."""
    timestamp_type: TimestampType = TimestampType.CREATE
    append_time_ms: int | None = None
    """The time of all records with timestamp type LOG_APPEND; None: their highest timestamp."""
    delete_horizon_ms: int | None = None
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    control: bool = False

    @property
    def attributes(self) -> int:
        return batch_attributes(
            codec=codec_number(self.codec),
            timestamp_type=self.timestamp_type,
            transactional=self.transactional,
            control=self.control,
            delete_horizon=self.delete_horizon_ms is not None,
        )


def build_batch(
    records: Iterable[Record] | RecordColumns,
    *,
    base_offset: int = 0,
    codec: int | str = NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE,
    append_time_ms: int | None = None,
    delete_horizon_ms: int | None = None,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    keep_offsets: bool = False,
    last_offset: int | None = None,
) -> bytearray:
    """Build one batch from at least one record.

    ``keep_offsets`` keeps the records' own offsets: ascending, not below ``base_offset``, within 31 bits above it.
    ``last_offset`` sets the batch's last offset after its last records were removed. See ``BatchFields`` for the other
    arguments. Raise ValueError for no records (use ``build_empty_batch``) or offsets that break these rules. Raise
    OverflowError for more than 2 GiB, UnsupportedCompressionError and ConfigError for an unknown codec or level.
    """
    fields = BatchFields(
        codec=codec,
        level=level,
        timestamp_type=timestamp_type,
        append_time_ms=append_time_ms,
        delete_horizon_ms=delete_horizon_ms,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
        control=control,
    )
    payload = _encode(records, fields, base_offset if keep_offsets else None)
    if not payload.record_count:
        raise ValueError("a batch needs a record; build_empty_batch makes one without")
    if last_offset is not None:
        if last_offset - base_offset < payload.last_offset_delta:
            raise ValueError(f"the last offset {last_offset} is below the last record's")
        payload = payload._replace(last_offset_delta=last_offset - base_offset)
    return _seal(payload, fields, base_offset, base_sequence)


def build_batches(
    records: RecordColumns | pa.RecordBatch | pa.Table,
    *,
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES,
    max_batch_records: int = 2**31 - 1,
    base_offset: int = 0,
    codec: int | str = NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE,
    append_time_ms: int | None = None,
    default_timestamp_ms: int = -1,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    keep_offsets: bool = False,
) -> list[bytearray]:
    """Build batches of all ``records``; offsets continue from ``base_offset``, sequences from ``base_sequence``.

    ``keep_offsets`` keeps the records' own ascending offsets. As in a compacted log, a batch begins at the end of the
    one before, and its offsets must lie within 31 bits above that, else ValueError.

    No batch exceeds ``max_batch_bytes`` (with header, before compression), except for a single large record. Arrow data
    and ``default_timestamp_ms`` follow ``arrow.from_arrow``. It raises the same errors, and those of ``build_batch``.
    Without records there are no batches.
    """
    fields = BatchFields(
        codec=codec,
        level=level,
        timestamp_type=timestamp_type,
        append_time_ms=append_time_ms,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=transactional,
    )
    built = []
    done = 0
    for part in _parts(records, default_timestamp_ms):
        columns = _with_append_time(part, fields)
        encoder = ColumnEncoder(columns)
        boundaries = encoder.batch_boundaries(max_batch_bytes=max_batch_bytes, max_records=max_batch_records).tolist()
        for first, last in pairwise(boundaries):
            base = base_offset + done
            if keep_offsets and done:
                base = int(columns.offset[first - 1]) + 1
            payload = encoder.payload(first, last, base_offset=base if keep_offsets else None)
            built.append(_seal(payload, fields, base, sequence_after(base_sequence, done)))
            done += last - first
    return built


def build_empty_batch(*, base_offset: int, last_offset: int, max_timestamp: int, fields: BatchFields) -> bytearray:
    """Build a batch without records, which the cleaner keeps for its producer's state: no codec, no delete horizon."""
    if last_offset < base_offset:
        raise ValueError(f"the last offset {last_offset} is below the base offset {base_offset}")
    payload = Payload(bytearray(), 0, last_offset - base_offset, -1, max_timestamp)
    bare = replace(fields, codec=NONE, level=None, delete_horizon_ms=None)
    return _seal(payload, bare, base_offset, fields.base_sequence)


def build_end_transaction_batch(
    marker: EndTransactionMarker,
    *,
    base_offset: int,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    leader_epoch: int = -1,
) -> bytearray:
    """Build the control batch that ends a producer's transaction; ``timestamp`` is in ms."""
    record = Record(base_offset, timestamp, TimestampType.CREATE, marker.key(), marker.value())
    return build_batch(
        [record],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def sequence_after(base_sequence: int, count: int) -> int:
    """Return the sequence ``count`` records later: 0 follows 2^31 - 1; -1 (none) stays (``incrementSequence``)."""
    return base_sequence if base_sequence < 0 else (base_sequence + count) & 0x7FFFFFFF


def _encode(records: Iterable[Record] | RecordColumns, fields: BatchFields, kept_base: int | None) -> Payload:
    if isinstance(records, RecordColumns):
        columns = _with_append_time(records, fields)
        return ColumnEncoder(columns).payload(base_offset=kept_base, base_timestamp=fields.delete_horizon_ms)
    if fields.timestamp_type is TimestampType.LOG_APPEND:
        listed = list(records)
        time = fields.append_time_ms
        if time is None:
            time = max((record.timestamp for record in listed), default=-1)
        records = [record._replace(timestamp=time) for record in listed]
    return encode_records(records, base_offset=kept_base, base_timestamp=fields.delete_horizon_ms)


def _with_append_time(columns: RecordColumns, fields: BatchFields) -> RecordColumns:
    if fields.timestamp_type is not TimestampType.LOG_APPEND or not len(columns):
        return columns
    time = int(columns.timestamp.max()) if fields.append_time_ms is None else fields.append_time_ms
    return replace(columns, timestamp=np.full(len(columns), time, np.int64))


def _seal(payload: Payload, fields: BatchFields, base_offset: int, base_sequence: int) -> bytearray:
    codec = codec_number(fields.codec)
    data = payload.data if codec == NONE else compress(codec, payload.data, fields.level)
    return seal_batch(
        data,
        base_offset=base_offset,
        last_offset_delta=payload.last_offset_delta,
        record_count=payload.record_count,
        base_timestamp=payload.base_timestamp,
        max_timestamp=payload.max_timestamp,
        attributes=fields.attributes,
        leader_epoch=fields.leader_epoch,
        producer_id=fields.producer_id,
        producer_epoch=fields.producer_epoch,
        base_sequence=base_sequence,
    )


def _parts(records: RecordColumns | pa.RecordBatch | pa.Table, default_timestamp_ms: int) -> Iterator[RecordColumns]:
    if isinstance(records, RecordColumns):
        yield records
        return
    from tidelog.record.arrow import from_arrow  # pyarrow takes time to import, and this path may never be used

    batches = records.to_batches() if hasattr(records, "to_batches") else [records]
    for batch in batches:
        yield from_arrow(batch, default_timestamp_ms=default_timestamp_ms)
