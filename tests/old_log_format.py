"""Appends to a log of format v0 or v1, as before Kafka 4.0: records converted up, down or not at all.

Kafka 4 creates these logs in its tests only. So do we: the results are compared with Kafka's, and readers, recovery and
the conversion to v2 are tested with them.

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

from legacy_build import MessageFields, build_set, restamp_message
from tidelog.kernel import BatchTable, scan_batches
from tidelog.model import UnsupportedCompressionError, UnsupportedFormatError
from tidelog.record.attributes import NONE, TRANSACTIONAL_FLAG, ZSTD
from tidelog.record.batch_header import CURRENT_MAGIC, PREFIX_BYTES, SMALLEST_LENGTHS, V2_HEADER_BYTES
from tidelog.record.rows import iter_records
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.append.append_validation import (
    Validated,
    analyze,
    assign_offsets,
    check_shallow,
    check_size,
    source_codec,
)
from tidelog.storage.log.append.record_checks import check_batch
from tidelog.storage.log.append.record_conversion import NO_CONVERSION, ConversionStats, OpenedRecords, open_records
from tidelog.storage.producer import AppendOrigin

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
    magic: int
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
                magic=self.magic,
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
                timestamp=timestamp if self.magic else None,
                append_time=append_time is not None,
            )
            position += size
        return kept

    def _max_timestamp(self, first_offset: int, append_time: int | None) -> tuple[int, int]:
        """Return the largest timestamp and the last offset of the first batch that has it."""
        if not self.magic and self.kept is not None:
            return -1, -1
        last = first_offset + len(self.messages) - 1
        if append_time is not None:
            return append_time, first_offset if self.codec == NONE else last
        times = [message.timestamp for message in self.messages]
        largest = max(times) if self.magic else -1
        if largest < 0:
            return -1, -1
        return largest, first_offset + times.index(largest) if self.codec == NONE else last


def append_in_format(
    buffer: bytearray,
    rules: AppendRules,
    magic: int,
    origin: AppendOrigin,
    *,
    now_ms: int,
    first_offset: int,
    leader_epoch: int,
    append_time_ms: int | None = None,
) -> Validated:
    """Validate an append to a log of format ``magic``, and assign offsets. ``append_time_ms`` is by default now."""
    append_time_ms = now_ms if append_time_ms is None else append_time_ms
    table = scan_batches(buffer)
    if magic == CURRENT_MAGIC or origin is AppendOrigin.RAFT_LEADER or not len(table):
        analysis = analyze(buffer, rules, origin, now_ms=now_ms)
        return assign_offsets(analysis, first_offset=first_offset, leader_epoch=leader_epoch, now_ms=append_time_ms)
    check_shallow(table, rules, origin, -1)
    del buffer[table.end_position :]
    source, first = source_codec(table), table.row(0)
    if first.magic == CURRENT_MAGIC:
        check_batch(first, first.magic, rules, origin)
        if first.attributes & TRANSACTIONAL_FLAG or first.producer_id >= 0:
            raise UnsupportedFormatError(f"format v{magic} has neither producer ids nor transactions")
    old = prepare(buffer, table, open_records(buffer, table, rules, origin, now_ms), source, rules, magic)
    last_offset = first_offset + len(old.messages) - 1
    made = old.assign(first_offset, append_time_ms)
    if old.codec != NONE:
        check_size(made.batches, rules)
    return Validated(
        made.batches,
        first_offset,
        last_offset,
        made.max_timestamp,
        made.offset_of_max_timestamp,
        append_time_ms if rules.log_append_time else -1,
        old.stats,
    )


def prepare(
    buffer: bytearray, table: BatchTable, records: OpenedRecords, source: int, rules: AppendRules, magic: int
) -> OldFormatAppend:
    """Prepare records. Raise UnsupportedFormatError (headers, producer ids) or UnsupportedCompressionError (zstd)."""
    target = rules.target_codec(source)
    if target == ZSTD:
        raise UnsupportedCompressionError(f"format v{magic} does not support zstd")
    if records.first.producer_id != _NO_PRODUCER:
        raise UnsupportedFormatError(f"format v{magic} does not support producer ids")
    wrappers = sum(_header_bytes(magic, codec) - V2_HEADER_BYTES for codec in table.codec.tolist())
    plain_bytes = records.plain_bytes + wrappers
    in_place = _stays(records, source, target, magic)
    messages = _fields(records)
    if in_place:
        stats = ConversionStats(plain_bytes, 0) if target != NONE else NO_CONVERSION
    else:
        opened = plain_bytes if source != NONE or target != NONE else 0
        data = sum(len(memoryview(part)) for one in messages for part in (one.key, one.value) if part is not None)
        plain = len(messages) * (PREFIX_BYTES + SMALLEST_LENGTHS[magic]) + data
        stats = ConversionStats(opened + _header_bytes(magic, target) + plain, len(messages))
    return OldFormatAppend(
        rules=rules,
        magic=magic,
        codec=target,
        messages=messages,
        kept=buffer if in_place else None,
        sizes=tuple(table.size.tolist()),
        stats=stats,
    )


def _stays(records: OpenedRecords, source: int, target: int, magic: int) -> bool:
    if source != target or records.first.magic != magic:
        return False
    if source == NONE:
        return True
    return magic > 0 and [one.offset for one in records.messages] == list(range(len(records.messages)))


def _fields(records: OpenedRecords) -> tuple[MessageFields, ...]:
    if records.columns is None:
        return tuple(MessageFields(one.timestamp, one.key, one.value) for one in records.messages)
    if records.columns.header_offsets is not None and records.columns.header_offsets[-1]:
        raise UnsupportedFormatError("formats v0 and v1 do not support headers")
    return tuple(MessageFields(one.timestamp, one.key, one.value) for one in iter_records(records.columns))


def _header_bytes(magic: int, codec: int) -> int:
    """Return the bytes around a batch's records: a v2 header, a wrapper, or none around single old messages."""
    if magic >= CURRENT_MAGIC:
        return V2_HEADER_BYTES
    return 0 if codec == NONE else PREFIX_BYTES + SMALLEST_LENGTHS[magic]
