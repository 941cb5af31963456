"""The conversion of checked records to one v2 batch, for another codec or format, or new offsets.

Records keep key, value, headers and timestamp (-1 if they come from format v0); they get new offsets. The new batch has
the producer fields of the first batch. Deltas are relative to the first record's timestamp even if the log sets the
time: readers then use the header's timestamp. Pure. Source: Kafka's ``LogValidator``, ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.kernel import BatchRow, ColumnEncoder, Payload, encode_records, seal_batch
from tidelog.model import InvalidRecordError, TimestampType
from tidelog.record.attributes import CONTROL_FLAG, NONE, TRANSACTIONAL_FLAG, batch_attributes
from tidelog.record.compression import compress
from tidelog.record.rows import iter_records
from tidelog.storage.log.append.append_rules import CURRENT_MAGIC, AppendRules
from tidelog.storage.log.append.record_opening import V2_HEADER_BYTES, ConversionStats, OpenedRecords

_NO_PRODUCER = -1
_NO_EPOCH = -1


class Converted(NamedTuple):
    batch: bytearray
    """The new batch, with offset 0 and without a leader epoch."""
    record_count: int
    max_timestamp: int
    stats: ConversionStats


def convert(records: OpenedRecords, source_codec: int, rules: AppendRules) -> Converted:
    """Build one v2 batch of all ``records``. Raise InvalidRecordError if the producer fields are inconsistent."""
    if records.columns is not None and records.columns.header_keys_are_utf8:
        payload = ColumnEncoder(records.columns).payload()
    elif records.columns is not None:
        payload = encode_records(iter_records(records.columns))  # invalid UTF-8 becomes U+FFFD, as in Kafka
    else:
        payload = encode_records(
            (0, message.timestamp, TimestampType.CREATE, message.key, message.value, ()) for message in records.messages
        )
    target = rules.target_codec(source_codec)
    batch = _sealed(payload, records.first, target, rules)
    opened = records.plain_bytes if source_codec != NONE or target != NONE else 0
    stats = ConversionStats(opened + V2_HEADER_BYTES + len(payload.data), payload.record_count)
    return Converted(batch, payload.record_count, payload.max_timestamp, stats)


def _sealed(payload: Payload, first: BatchRow, codec: int, rules: AppendRules) -> bytearray:
    is_control = first.magic >= CURRENT_MAGIC and bool(first.attributes & CONTROL_FLAG)
    is_transactional = first.magic >= CURRENT_MAGIC and bool(first.attributes & TRANSACTIONAL_FLAG)
    if first.producer_id != _NO_PRODUCER and first.producer_epoch == _NO_EPOCH:
        raise InvalidRecordError(f"a batch of producer {first.producer_id} has the epoch {first.producer_epoch}")
    if first.producer_id != _NO_PRODUCER and first.base_sequence < 0 and not is_control:
        raise InvalidRecordError(f"a batch of producer {first.producer_id} has the sequence {first.base_sequence}")
    if is_transactional and first.producer_id == _NO_PRODUCER:
        raise InvalidRecordError("a transactional batch has no producer id")
    attributes = batch_attributes(
        codec=codec,
        timestamp_type=TimestampType.LOG_APPEND if rules.log_append_time else TimestampType.CREATE,
        transactional=is_transactional,
        control=is_control,
    )
    return seal_batch(
        payload.data if codec == NONE else compress(codec, payload.data, rules.level),
        last_offset_delta=payload.last_offset_delta,
        record_count=payload.record_count,
        base_timestamp=payload.base_timestamp,
        max_timestamp=payload.max_timestamp,
        attributes=attributes,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
    )
