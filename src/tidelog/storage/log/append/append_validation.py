"""The validation of a leader's append: ``analyze`` before the lock, ``assign_offsets`` under it.

``analyze`` does all work that does not depend on the log end. It drops a partial last batch, checks every batch and
record, decompresses, and rebuilds the records if they cannot be stored unchanged. ``assign_offsets`` then writes
offsets, leader epoch and, if the log sets the time, timestamps. A single plain v2 batch, as an uncompressing producer
sends it, takes one compiled pass over its bytes (``check_plain``) and a few stores.

===============================  ==============================================================================
the batches                      stored as
===============================  ==============================================================================
v2, and its codec is the log's   the batch unchanged; its max timestamp is set to that of its records
v2, another codec                its records in a new batch with the log's codec and level
v2, control batch                unchanged, with any codec
v0 and v1                        all records in one v2 batch with the log's codec
from the raft leader             unchanged, with their offsets; only sizes, CRCs, epochs and order are checked
===============================  ==============================================================================

More than one v2 batch, or more than one batch if one is compressed, is refused from any sender. A producer's batch must
begin at offset 0. No batch may be larger than ``max.message.bytes``, as sent or as rebuilt. A v2 batch that would be
stored unchanged is refused if its inner offsets are not 0, 1, 2, …. Kafka stores these offsets in an uncompressed
batch, and returns UNKNOWN_SERVER_ERROR for a compressed one. Kafka does not check lengths inside the records of a
compressed batch that it stores unchanged; here they must be valid.

Errors: CorruptRecordError, InvalidRecordError (with the records), InvalidTimestampError, RecordTooLargeError,
UnsupportedFormatError, UnsupportedCompressionError; OffsetsOutOfOrderError and UnexpectedAppendOffsetError for the raft
leader's. After an error nothing is stored, and the buffer must not be used again. The functions are pure, except that
they change the buffer, which the log takes over.
Source: Kafka's ``UnifiedLog.analyzeAndValidateRecords``, ``LogValidator``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tidelog.kernel import (
    BatchRow,
    BatchTable,
    Problem,
    Stop,
    Validation,
    scan_batches,
    set_max_timestamp,
    validate_batches,
)
from tidelog.kernel import validate_records as validate_payload
from tidelog.model import (
    CorruptRecordError,
    InvalidRecordError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
    UnexpectedAppendOffsetError,
)
from tidelog.record.attributes import CODEC_MASK, CONTROL_FLAG, NONE, TIMESTAMP_TYPE_FLAG, codec_name
from tidelog.record.batch_header import ATTRIBUTES_AT, CURRENT_MAGIC, PLACE, PREFIX_BYTES, SHAPE, V2_HEADER_BYTES
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.append.record_checks import check_batch
from tidelog.storage.log.append.record_conversion import (
    NO_CONVERSION,
    ConversionStats,
    check_payload,
    convert,
    open_payload,
    open_records,
)
from tidelog.storage.producer import AppendOrigin
from tidelog.storage.segment.file_names import MAX_OFFSET


class Analysis(NamedTuple):
    """Accepted batches, complete except for their offsets."""

    batches: bytearray
    """The bytes to store: the caller's buffer, or a rebuilt batch."""
    record_count: int
    max_timestamp: int
    """Milliseconds, or -1 without a timestamp."""
    log_append_time: bool
    source_codec: int = NONE
    kept_offsets_table: BatchTable | None = None
    """The table of batches that keep their own offsets."""
    stats: ConversionStats = NO_CONVERSION

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to append."""
        return not self.batches


class Validated(NamedTuple):
    """Batches with their final bytes and offsets."""

    batches: bytearray
    first_offset: int
    last_offset: int
    max_timestamp: int
    """Milliseconds, or -1 without a timestamp."""
    offset_of_max_timestamp: int
    """Last offset of the first batch with that timestamp, as in time indexes; -1 without one."""
    log_append_time: int
    """Milliseconds, or -1 if producers set the time."""
    stats: ConversionStats

    def table(self) -> BatchTable:
        return scan_batches(self.batches, verify_crc=False)


def analyze(
    buffer: bytearray, rules: AppendRules, origin: AppendOrigin, *, now_ms: int, leader_epoch: int = -1
) -> Analysis:
    """Check and prepare the batches in ``buffer``, before the lock. ``leader_epoch`` is the raft leader's.

    Raise ValueError for replicated batches, which only their leader validates.
    """
    if origin is AppendOrigin.REPLICATION:
        raise ValueError("a follower's batches are not validated")
    plain = check_plain(buffer, rules, origin, now_ms)
    if plain is not None:
        return Analysis(buffer, plain.record_count, plain.max_timestamp, rules.log_append_time)
    table = scan_batches(buffer)
    check_shallow(table, rules, origin, leader_epoch)
    if table.end_position < len(buffer):
        del buffer[table.end_position :]
    if origin is AppendOrigin.RAFT_LEADER:
        return _kept(buffer, table)
    return _analyzed(buffer, table, rules, origin, now_ms)


def check_plain(buffer: bytearray, rules: AppendRules, origin: AppendOrigin, now_ms: int) -> Validation | None:
    """Validate a single uncompressed v2 batch that fills the buffer and stays unchanged. Return None for others."""
    size = len(buffer)
    if size < V2_HEADER_BYTES or rules.codec or origin is AppendOrigin.RAFT_LEADER:
        return None
    length, magic = SHAPE.unpack_from(buffer)
    if length != size - PREFIX_BYTES or magic != CURRENT_MAGIC or buffer[ATTRIBUTES_AT + 1] & CODEC_MASK:
        return None
    validation = validate_batches(buffer, rules.compiled(origin), 0, -1, now_ms)
    return validation if validation else None


def assign_offsets(analysis: Analysis, *, first_offset: int, leader_epoch: int, now_ms: int) -> Validated:
    """Write the fields that depend on the log end, under the lock. ``now_ms`` becomes the log append time, if used."""
    if analysis.kept_offsets_table is not None:
        return _as_given(analysis, analysis.kept_offsets_table, first_offset)
    batches = analysis.batches
    last_offset = first_offset + analysis.record_count - 1
    if last_offset > MAX_OFFSET:
        raise InvalidRecordError("the offsets would exceed 63 bits", offset=first_offset)
    PLACE.pack_into(batches, 0, first_offset, len(batches) - PREFIX_BYTES, leader_epoch)
    max_timestamp, append_time = analysis.max_timestamp, -1
    if analysis.log_append_time:
        max_timestamp = append_time = now_ms
        set_max_timestamp(batches, now_ms, True)
    offset_of_max = last_offset if max_timestamp >= 0 else -1
    return Validated(batches, first_offset, last_offset, max_timestamp, offset_of_max, append_time, analysis.stats)


def check_shallow(table: BatchTable, rules: AppendRules, origin: AppendOrigin, leader_epoch: int) -> None:
    """Check the batch headers. Malformed bytes are reported only after the errors of the batches before them."""
    last_offset = -1
    for row in table.rows():
        at = row.position
        if origin is AppendOrigin.RAFT_LEADER and row.leader_epoch != leader_epoch:
            raise InvalidRecordError(
                f"a batch has leader epoch {row.leader_epoch}, but its leader has epoch {leader_epoch}", position=at
            )
        if row.magic >= CURRENT_MAGIC and origin is AppendOrigin.CLIENT and row.base_offset != 0:
            raise InvalidRecordError(f"a producer's batch begins at offset {row.base_offset}, not 0", position=at)
        if row.size > rules.max_batch_bytes:
            raise RecordTooLargeError(
                f"a batch has {row.size} bytes, above the limit of {rules.max_batch_bytes}", position=at
            )
        if not row.crc_ok:
            raise CorruptRecordError(f"the CRC of a batch does not match the stored {row.crc:#010x}", position=at)
        if origin is AppendOrigin.RAFT_LEADER and row.last_offset <= last_offset:
            raise OffsetsOutOfOrderError(
                f"a batch ends at offset {row.last_offset}, the previous one at {last_offset}", position=at
            )
        last_offset = row.last_offset
    if table.stop not in (Stop.END, Stop.PARTIAL):
        raise CorruptRecordError("a batch has an invalid size or format", position=table.end_position)


def _kept(buffer: bytearray, table: BatchTable) -> Analysis:
    max_timestamp = int(table.max_timestamp.max(initial=-1))
    count = int(np.maximum(table.record_count, 0).sum())
    return Analysis(buffer, count, max_timestamp, False, kept_offsets_table=table)


def _as_given(analysis: Analysis, table: BatchTable, log_end: int) -> Validated:
    first, last = table.summary.first_offset, table.summary.last_offset
    if first < log_end:
        raise UnexpectedAppendOffsetError(
            f"the batches begin at offset {first}, below the log end {log_end}", offset=first, last_offset=last
        )
    at = int(table.last_offset[int(np.argmax(table.max_timestamp))]) if analysis.max_timestamp >= 0 else -1
    return Validated(analysis.batches, first, last, analysis.max_timestamp, at, -1, NO_CONVERSION)


def _analyzed(buffer: bytearray, table: BatchTable, rules: AppendRules, origin: AppendOrigin, now_ms: int) -> Analysis:
    if not len(table):
        return Analysis(buffer, 0, -1, rules.log_append_time)
    source, first = source_codec(table), table.row(0)
    if first.magic == CURRENT_MAGIC:
        check_batch(first, first.magic, rules, origin)
        if source == rules.target_codec(source) or first.attributes & CONTROL_FLAG:
            return _in_place(buffer, first, rules, now_ms)
    return _built(buffer, table, source, rules, origin, now_ms)


def source_codec(table: BatchTable) -> int:
    """Return the codec of an append. Raise InvalidRecordError if there may be only one batch, but there are more."""
    codecs = table.codec[table.codec != NONE]
    source = int(codecs[-1]) if len(codecs) else NONE
    codec_name(source)
    if len(table) > 1 and (table.magic[0] >= CURRENT_MAGIC or source != NONE):
        raise InvalidRecordError("more than one batch: a batch of format v2, or a compressed one, must be the only one")
    return source


def _in_place(buffer: bytearray, row: BatchRow, rules: AppendRules, now_ms: int) -> Analysis:
    """Validate the only v2 batch, whose header is checked already, to store it unchanged."""
    codec = row.attributes & CODEC_MASK
    payload = open_payload(memoryview(buffer), row, rules)
    found = validate_payload(
        payload,
        rules.of_clients,
        now_ms,
        base_offset=0,
        base_timestamp=row.base_timestamp,
        max_timestamp=row.max_timestamp,
        attributes=row.attributes,
        record_count=row.record_count,
    )
    if found.problem is Problem.CORRUPT:
        raise InvalidRecordError(f"{found.fault.sentence} (record {found.record_index})", position=row.position)
    if not found or (rules.log_append_time and row.attributes & TIMESTAMP_TYPE_FLAG):
        check_payload(payload, row, rules, now_ms)
        raise InvalidRecordError(f"{found.problem.sentence} (record {found.record_index})", position=row.position)
    if not rules.log_append_time:
        set_max_timestamp(buffer, found.max_timestamp)
    opened = codec != NONE or rules.codec  # Kafka counts a batch as decompressed if the log has a codec
    stats = ConversionStats(V2_HEADER_BYTES + len(memoryview(payload)), 0) if opened else NO_CONVERSION
    return Analysis(buffer, row.record_count, found.max_timestamp, rules.log_append_time, codec, stats=stats)


def _built(
    buffer: bytearray, table: BatchTable, source: int, rules: AppendRules, origin: AppendOrigin, now_ms: int
) -> Analysis:
    """Rebuild all records as one new batch."""
    records = open_records(buffer, table, rules, origin, now_ms)
    built = convert(records, source, rules)
    check_size(built.batch, rules)
    return Analysis(
        built.batch, built.record_count, built.max_timestamp, rules.log_append_time, source, stats=built.stats
    )


def check_size(batch: bytearray, rules: AppendRules) -> None:
    if len(batch) > rules.max_batch_bytes:
        raise RecordTooLargeError(
            f"the rebuilt batch has {len(batch)} bytes, above the limit of {rules.max_batch_bytes}"
        )
