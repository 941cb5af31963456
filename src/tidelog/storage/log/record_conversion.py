"""The records of an append, checked and put into one new v2 batch: another codec, another format, offsets put right.

Records keep key, value, headers and timestamp (-1 where they come from format v0); their offsets are counted anew. The
new batch has the producer's fields of the first one. Deltas count from the first record's timestamp also where the log
sets the time: the header's timestamp is what readers then see. Pure.
Called by: append_validation. Source: Kafka's ``LogValidator``, ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel import BatchRow, BatchTable, ColumnDecoder, ColumnEncoder, Payload, RecordColumns, encode_records
from tidelog.kernel import seal_batch as seal
from tidelog.model import CorruptRecordError, InvalidRecordError, InvalidTimestampError, TimestampType
from tidelog.record.attributes import (
    CODEC_MASK,
    CONTROL_FLAG,
    NONE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    ZSTD,
    batch_attributes,
)
from tidelog.record.compression import compress, decompress
from tidelog.record.legacy import InvalidWrapperError, LegacyMessage, read_messages
from tidelog.storage.log.append_rules import AppendRules
from tidelog.storage.log.record_checks import check_batch, check_messages, check_records
from tidelog.storage.producer import AppendOrigin

if TYPE_CHECKING:
    from typing_extensions import Buffer

_V2 = 2
_V2_HEADER_BYTES = 61
_PREFIX_BYTES = 12
_OVERHEAD_BYTES = (14, 22)
"""Of a message of format v0 and of v1, without prefix, key and value."""


class ConversionStats(NamedTuple):
    """What an append cost beside its bytes. Source: Kafka's ``RecordValidationStats``."""

    temporary_bytes: int
    """Of records that were opened or written anew, uncompressed."""
    converted_records: int
    """Records written into a new batch."""


NO_CONVERSION = ConversionStats(0, 0)


class Converted(NamedTuple):
    batch: bytearray
    """With offset 0 and no leader epoch yet."""
    record_count: int
    max_timestamp: int
    stats: ConversionStats


def convert(
    buffer: bytearray, table: BatchTable, source_codec: int, rules: AppendRules, origin: AppendOrigin, now_ms: int
) -> Converted:
    """One v2 batch of all records of ``table``, which lie in ``buffer``.

    The errors of ``record_checks``; InvalidRecordError for records that contradict themselves, InvalidTimestampError
    for a negative timestamp other than -1, which no new batch may have.
    """
    first = table.row(0)
    read_bytes = 0
    if first.magic >= _V2:
        check_batch(first, first.magic, rules, origin)
        records = memoryview(buffer)[first.position + _V2_HEADER_BYTES : first.position + first.size]
        plain = decompress(first.attributes & CODEC_MASK, records)
        columns = check_payload(plain, first, rules, now_ms)
        read_bytes = _V2_HEADER_BYTES + len(memoryview(plain))
        payload = ColumnEncoder(columns).payload()
        lowest = int(columns.timestamp.min())
    else:
        messages = []
        for row, found in _messages(buffer, table):
            check_batch(row, first.magic, rules, origin)
            check_messages(found, row, rules, now_ms)
            read_bytes += _V2_HEADER_BYTES + sum(map(_message_bytes, found))
            messages += found
        payload = encode_records(
            (0, message.timestamp, TimestampType.CREATE, message.key, message.value, ()) for message in messages
        )
        lowest = min(message.timestamp for message in messages)
    if lowest < -1:
        raise InvalidTimestampError(f"a record has the timestamp {lowest}")
    target = rules.target_codec(source_codec)
    batch = _sealed(payload, first, target, rules)
    plain_bytes = _V2_HEADER_BYTES + len(payload.data)
    opened = read_bytes if source_codec != NONE or target != NONE else 0
    stats = ConversionStats(opened + plain_bytes, payload.record_count)
    return Converted(batch, payload.record_count, payload.max_timestamp, stats)


def check_payload(payload: Buffer, row: BatchRow, rules: AppendRules, now_ms: int) -> RecordColumns:
    """The records of a v2 batch, uncompressed and whatever their offsets; errors as ``convert``."""
    decoder = ColumnDecoder()
    try:
        decoder.add_payload(
            payload,
            base_offset=0,
            base_timestamp=row.base_timestamp,
            max_timestamp=row.max_timestamp,
            attributes=row.attributes,
            record_count=row.record_count,
            last_offset=2**31 - 1,
        )
    except CorruptRecordError as error:
        raise InvalidRecordError(error.message, position=row.position) from None
    columns = decoder.finish()
    key_valid = columns.key_valid
    assert key_valid is not None, "keys were asked for"
    is_log_append = bool(row.attributes & TIMESTAMP_TYPE_FLAG)
    check_records(key_valid, columns.timestamp, is_log_append=is_log_append, rules=rules, now_ms=now_ms)
    return columns


def _messages(buffer: bytearray, table: BatchTable) -> Iterator[tuple[BatchRow, list[LegacyMessage]]]:
    view = memoryview(buffer)
    for row in table.rows():
        if row.magic >= _V2:
            yield row, []  # refused by check_batch
            continue
        if row.attributes & CODEC_MASK == ZSTD:
            raise InvalidRecordError(f"a message of format v{row.magic} cannot be compressed with zstd")
        try:
            yield row, read_messages(view[row.position : row.position + row.size], checked=False)
        except InvalidWrapperError as error:
            raise InvalidRecordError(error.message, position=row.position) from None


def _message_bytes(message: LegacyMessage) -> int:
    data = sum(len(part) for part in (message.key, message.value) if part is not None)
    return _PREFIX_BYTES + _OVERHEAD_BYTES[message.magic] + data


def _sealed(payload: Payload, first: BatchRow, codec: int, rules: AppendRules) -> bytearray:
    if first.producer_id >= 0 and first.producer_epoch < 0:
        raise InvalidRecordError(f"a batch of producer {first.producer_id} has the epoch {first.producer_epoch}")
    is_control = bool(first.magic >= _V2 and first.attributes & CONTROL_FLAG)
    if first.producer_id >= 0 and first.base_sequence < 0 and not is_control:
        raise InvalidRecordError(f"a batch of producer {first.producer_id} has the sequence {first.base_sequence}")
    transactional = bool(first.magic >= _V2 and first.attributes & TRANSACTIONAL_FLAG)
    if transactional and first.producer_id < 0:
        raise InvalidRecordError("a transactional batch has no producer id")
    attributes = batch_attributes(
        codec=codec,
        timestamp_type=TimestampType.LOG_APPEND if rules.log_append_time else TimestampType.CREATE,
        transactional=transactional,
        control=is_control,
    )
    data = payload.data if codec == NONE else compress(codec, payload.data, rules.level)
    return seal(
        data,
        last_offset_delta=payload.last_offset_delta,
        record_count=payload.record_count,
        base_timestamp=payload.base_timestamp,
        max_timestamp=payload.max_timestamp,
        attributes=attributes,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
    )
