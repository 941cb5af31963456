"""The records of an append: read and checked batch by batch, then converted to one v2 batch where they cannot stay.

Errors come in Kafka's order. Converted records keep key, value, headers and timestamp (-1 if they come from format v0);
they get new offsets. The new batch has the producer fields of the first batch. Deltas are relative to the first
record's timestamp even if the log sets the time: readers then use the header's timestamp. Pure. Source: Kafka's
``LogValidator``, ``DefaultRecordBatch``, ``AbstractLegacyRecordBatch``, ``MemoryRecordsBuilder``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel import (
    BatchRow,
    BatchTable,
    ColumnDecoder,
    ColumnEncoder,
    Payload,
    RecordColumns,
    encode_records,
    seal_batch,
)
from tidelog.model import (
    CorruptRecordError,
    InvalidRecordError,
    InvalidTimestampError,
    RecordTooLargeError,
    TimestampType,
)
from tidelog.record.attributes import (
    CODEC_MASK,
    CONTROL_FLAG,
    NONE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    ZSTD,
    batch_attributes,
)
from tidelog.record.batch_header import CURRENT_MAGIC, PREFIX_BYTES, SMALLEST_LENGTHS, V2_HEADER_BYTES
from tidelog.record.codec.limit import PayloadTooLargeError
from tidelog.record.compression import compress, decompress
from tidelog.record.legacy import InvalidWrapperError, LegacyMessage, read_messages
from tidelog.record.record_size import require_messages, require_records
from tidelog.record.rows import iter_records
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.append.record_checks import check_batch, check_messages, check_records
from tidelog.storage.producer import AppendOrigin

if TYPE_CHECKING:
    from typing_extensions import Buffer

_NO_PRODUCER = -1
_NO_EPOCH = -1


class ConversionStats(NamedTuple):
    """The memory and conversion cost of an append. Source: Kafka's ``RecordValidationStats``."""

    temporary_bytes: int
    """Uncompressed bytes of records that were decompressed or rebuilt."""
    converted_records: int
    """Records written into a new batch."""


NO_CONVERSION = ConversionStats(0, 0)


class OpenedRecords(NamedTuple):
    """Checked records: ``columns`` of one v2 batch, or ``messages`` of format v0 or v1."""

    first: BatchRow
    columns: RecordColumns | None
    messages: list[LegacyMessage]
    plain_bytes: int
    """Bytes of headers and records as Kafka counts them: each batch has the header of the stored v2 batch."""

    @property
    def lowest_timestamp(self) -> int:
        if self.columns is not None:
            return int(self.columns.timestamp.min())
        return min(message.timestamp for message in self.messages)


def open_records(
    buffer: bytearray, table: BatchTable, rules: AppendRules, origin: AppendOrigin, now_ms: int
) -> OpenedRecords:
    """Read and check all records of ``table``, at least one batch, from ``buffer``.

    Raise the errors of ``record_checks``, InvalidRecordError for malformed records, and InvalidTimestampError for a
    negative timestamp other than -1, which no new batch may have.
    """
    first = table.row(0)
    columns, messages, plain_bytes = None, [], 0
    for row in table.rows():
        check_batch(row, first.magic, rules, origin)
        entry = memoryview(buffer)[row.position : row.position + row.size]
        plain_bytes += V2_HEADER_BYTES
        if row.magic >= CURRENT_MAGIC:
            payload = open_payload(entry, row, rules)
            columns = check_payload(payload, row, rules, now_ms)
            plain_bytes += len(memoryview(payload))
        else:
            found = _read(entry, row)
            if row.attributes & CODEC_MASK:
                require_messages(found, rules.max_record_bytes)
            check_messages(found, row, rules, now_ms)
            plain_bytes += sum(map(_message_bytes, found))
            messages += found
    opened = OpenedRecords(first, columns, messages, plain_bytes)
    if opened.lowest_timestamp < -1:
        raise InvalidTimestampError(f"a record has the timestamp {opened.lowest_timestamp}")
    return opened


def open_payload(batch: memoryview, row: BatchRow, rules: AppendRules) -> Buffer:
    """Return the uncompressed records of a v2 batch.

    Raise RecordTooLargeError if they exceed ``max_plain_bytes``, and InvalidRecordError if a single one is too large.
    """
    codec = row.attributes & CODEC_MASK
    try:
        payload = decompress(codec, batch[V2_HEADER_BYTES:], max_bytes=rules.max_plain_bytes)
    except PayloadTooLargeError as error:
        raise RecordTooLargeError(error.message, position=row.position) from None
    if codec:
        require_records(payload, rules.max_record_bytes)
    return payload


def check_payload(payload: Buffer, row: BatchRow, rules: AppendRules, now_ms: int) -> RecordColumns:
    """Check the uncompressed records of a v2 batch, whose offsets may be any. Raise the errors of ``open_records``."""
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


def _read(entry: memoryview, row: BatchRow) -> list[LegacyMessage]:
    if row.attributes & CODEC_MASK == ZSTD:
        raise InvalidRecordError(f"a message of format v{row.magic} cannot be compressed with zstd")
    try:
        return read_messages(entry, checked=False)
    except InvalidWrapperError as error:
        raise InvalidRecordError(error.message, position=row.position) from None


def _message_bytes(message: LegacyMessage) -> int:
    data = sum(len(part) for part in (message.key, message.value) if part is not None)
    return PREFIX_BYTES + SMALLEST_LENGTHS[message.magic] + data


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
