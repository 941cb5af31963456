"""Appends to a log of format v0 or v1, as before Kafka 4.0: records converted up, down or not at all.

Kafka 4 creates these logs in its tests only. So do we, to test readers, recovery and the conversion to v2 with them.

==========================================  ================================================================
the append                                  stored as
==========================================  ================================================================
the log's format, uncompressed, with no     the messages unchanged, with their offsets and, in v1, timestamps
codec to apply
v1 to v1 in the log's codec, with inner     the wrapper unchanged, with the last offset and the timestamp
offsets 0, 1, 2, …
anything else                               all records rebuilt, in one wrapper if there is a codec
==========================================  ================================================================

Pure. Source: Kafka's ``LogValidator``, ``UnifiedLog.appendAsLeaderWithRecordVersion``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidelog.kernel import BatchTable
from tidelog.model import UnsupportedCompressionError, UnsupportedFormatError
from tidelog.record.attributes import NONE, ZSTD
from tidelog.record.legacy_build import OVERHEAD_BYTES, PREFIX_BYTES, MessageFields, build_set, restamp_message
from tidelog.record.rows import iter_records
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.append.record_conversion import NO_CONVERSION, ConversionStats, OpenedRecords, header_bytes

_NO_PRODUCER = -1


class OldBatches(NamedTuple):
    """Messages with their offsets."""

    batches: bytearray
    max_timestamp: int
    offset_of_max_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OldFormatAppend:
    """Records whose bytes depend on their offsets, so they are built under the lock."""

    rules: AppendRules
    codec: int
    messages: tuple[MessageFields, ...]
    kept: bytearray | None
    """The received bytes, if only their offsets and timestamps change."""
    sizes: tuple[int, ...]
    """Sizes of the messages in ``kept``, or of its only wrapper."""
    stats: ConversionStats

    def assign(self, first_offset: int, now_ms: int) -> OldBatches:
        append_time = now_ms if self.rules.log_append_time else None
        if self.kept is not None:
            batches = self._restamped(self.kept, first_offset, append_time)
        else:
            batches = build_set(
                self.messages,
                magic=self.rules.magic,
                base_offset=first_offset,
                codec=self.codec,
                level=self.rules.level,
                append_time_ms=append_time,
            )
        return OldBatches(batches, *self._max_timestamp(first_offset, append_time))

    def _restamped(self, kept: bytearray, first_offset: int, append_time: int | None) -> bytearray:
        view = memoryview(kept)
        position = 0
        for number, size in enumerate(self.sizes):
            inside = self.messages if self.codec != NONE else self.messages[number : number + 1]
            timestamp = max(-1, *(message.timestamp for message in inside)) if append_time is None else append_time
            restamp_message(
                view[position : position + size],
                offset=first_offset + (len(inside) - 1 if self.codec != NONE else number),
                timestamp=timestamp if self.rules.magic else None,
                append_time=append_time is not None,
            )
            position += size
        return kept

    def _max_timestamp(self, first_offset: int, append_time: int | None) -> tuple[int, int]:
        """Return the largest timestamp and the last offset of the first batch that has it."""
        if not self.rules.magic and self.kept is not None:
            return -1, -1
        last = first_offset + len(self.messages) - 1
        if append_time is not None:
            return append_time, first_offset if self.codec == NONE else last
        times = [message.timestamp for message in self.messages]
        largest = max(times) if self.rules.magic else -1
        if largest < 0:
            return -1, -1
        return largest, first_offset + times.index(largest) if self.codec == NONE else last


def prepare(
    buffer: bytearray, table: BatchTable, records: OpenedRecords, source_codec: int, rules: AppendRules
) -> OldFormatAppend:
    """Prepare records. Raise UnsupportedFormatError (headers, producer ids) or UnsupportedCompressionError (zstd)."""
    target = rules.target_codec(source_codec)
    if target == ZSTD:
        raise UnsupportedCompressionError(f"format v{rules.magic} does not support zstd")
    if records.first.producer_id != _NO_PRODUCER:
        raise UnsupportedFormatError(f"format v{rules.magic} does not support producer ids")
    in_place = _stays(records, source_codec, target, rules)
    messages = _fields(records)
    if in_place:
        stats = ConversionStats(records.plain_bytes, 0) if target != NONE else NO_CONVERSION
    else:
        opened = records.plain_bytes if source_codec != NONE or target != NONE else 0
        data = sum(len(memoryview(part)) for one in messages for part in (one.key, one.value) if part is not None)
        plain = len(messages) * (PREFIX_BYTES + OVERHEAD_BYTES[rules.magic]) + data
        stats = ConversionStats(opened + header_bytes(rules.magic, target) + plain, len(messages))
    return OldFormatAppend(
        rules=rules,
        codec=target,
        messages=messages,
        kept=buffer if in_place else None,
        sizes=tuple(table.size.tolist()),
        stats=stats,
    )


def _stays(records: OpenedRecords, source: int, target: int, rules: AppendRules) -> bool:
    if source != target or records.first.magic != rules.magic:
        return False
    if source == NONE:
        return True
    return rules.magic > 0 and [one.offset for one in records.messages] == list(range(len(records.messages)))


def _fields(records: OpenedRecords) -> tuple[MessageFields, ...]:
    if records.columns is None:
        return tuple(MessageFields(one.timestamp, one.key, one.value) for one in records.messages)
    if records.columns.header_offsets is not None and records.columns.header_offsets[-1]:
        raise UnsupportedFormatError("formats v0 and v1 do not support headers")
    return tuple(MessageFields(one.timestamp, one.key, one.value) for one in iter_records(records.columns))
