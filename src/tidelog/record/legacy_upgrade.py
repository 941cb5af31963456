"""The v2 batch of messages of the formats v0 and v1, with their offsets and timestamps.

The base offset is the first record's, as in Kafka's cleaner, which writes only v2 since 4.0. Pure. Thread rule: any
thread.
"""

from __future__ import annotations

from tidelog.model import CorruptRecordError, Record, TimestampType
from tidelog.record.attributes import CODEC_MASK, NONE
from tidelog.record.build import build_batch
from tidelog.record.legacy import LegacyMessage


def as_v2(messages: list[LegacyMessage], *, codec: int = NONE, last_offset: int | None = None) -> bytearray:
    """Return the v2 batch of a message or of a wrapper's messages; like Kafka, ignore inner formats and checksums."""
    is_log_append = messages[0].timestamp_type is TimestampType.LOG_APPEND
    records = []
    for message in messages:
        if message.attributes & CODEC_MASK:
            raise CorruptRecordError("a message inside a compressed wrapper is compressed itself")
        key, value = (None if part is None else bytes(part) for part in (message.key, message.value))
        records.append(Record(message.offset, message.timestamp, message.timestamp_type, key, value))
    try:
        return build_batch(
            records,
            base_offset=messages[0].offset,
            codec=codec,
            last_offset=last_offset,
            keep_offsets=True,
            timestamp_type=TimestampType.LOG_APPEND if is_log_append else TimestampType.CREATE,
        )
    except ValueError as error:
        raise CorruptRecordError(f"the messages of a wrapper cannot be kept: {error}") from None
