"""The second half of a clean: batches without the records that the offset map made obsolete.

=========================================  ============================================================================
record                                     stays
=========================================  ============================================================================
in a batch to discard                      never
in a control batch                         always
above the map's latest offset              always
without a key                              never; it is counted
older than the map's offset of its key     never
with a value                               always
a tombstone, v2                            until its batch's delete horizon, set by the first clean that reads it
a tombstone, v0 and v1                     if the rules retain them
=========================================  ============================================================================

=========================================  ============================================================================
batch                                      becomes
=========================================  ============================================================================
it keeps no record                         nothing; with RETAIN_EMPTY an uncompressed header with its timestamp type,
                                           producer, sequence, offsets and largest timestamp
v2, it keeps all records, no new horizon   the same bytes
any other                                  a v2 batch of the same codec, timestamp type, producer, epoch, sequence and
                                           leader epoch; a v2 batch also keeps its base and last offset
=========================================  ============================================================================

The base timestamp of a rebuilt batch is its delete horizon or its first record's time. Its largest timestamp is that of
its records, or unchanged with log append time. Keys, values and headers are copied byte for byte. Kafka gives up the
clean for timestamps below -1 and offsets that do not ascend; here they stay.

Pure. Thread rule: several threads may clean with one map, but no thread may write to it at the same time.
Source: KIP-98, KIP-534, Kafka's ``MemoryRecords.filterTo`` and ``Cleaner.shouldRetainRecord`` (4.1).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tidelog.kernel import BatchTable, FilteredBatches, OffsetMap, filter_batches, pack_batches, scan_batches
from tidelog.kernel.batch_retention import BatchRetention, CleaningRules, Retention
from tidelog.record.attributes import codec_of
from tidelog.record.batch_header import ATTRIBUTES_AT, V2_HEADER_BYTES
from tidelog.record.cleaning.codec_turns import turn
from tidelog.record.cleaning.opened_batches import opened_parts
from tidelog.record.compression import compress
from tidelog.record.record_size import MAX_RECORD_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanStats:
    """The counts of a clean; a batch that was deleted without reading counts with its bytes only."""

    records_read: int
    records_kept: int
    invalid_records: int
    """Records that were removed because they have no key."""
    bytes_read: int
    bytes_kept: int


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CleanedBatches:
    data: Buffer
    """Complete batches, back to back."""
    table: BatchTable
    """The table of ``data``, whose first byte is position 0."""
    stats: CleanStats


def clean_batches(
    buffer: Buffer,
    table: BatchTable,
    decisions: BatchRetention,
    offset_map: OffsetMap,
    rules: CleaningRules,
    *,
    base_position: int = 0,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> CleanedBatches:
    """Clean the batches of ``table``; ``buffer`` begins at ``base_position`` in its positions.

    ``buffer`` is not read if all batches are deleted, or superseded without RETAIN_EMPTY. Raise CorruptRecordError or
    UnsupportedCompressionError (position, offset) for a batch that cannot be read. Raise InvalidRecordError for a
    record above ``max_record_bytes``. As in Kafka, also raise it for a v0 or v1 batch that must stay without records.
    """
    superseded = offset_map.superseded(table)
    if (superseded & (decisions.retention != Retention.RETAIN_EMPTY) | (decisions.retention == Retention.DELETE)).all():
        return _nothing_stays(table, decisions)
    decisions = replace(decisions, discard=decisions.discard | superseded)
    read = (decisions.retention != Retention.DELETE) & ~decisions.discard
    parts = []
    records_read = records_kept = invalid_records = 0
    for rows, opened in opened_parts(
        buffer, table, read, base_position=base_position, max_record_bytes=max_record_bytes
    ):
        filtered = filter_batches(
            buffer,
            table.take(rows),
            decisions.take(rows),
            offset_map,
            rules,
            opened=opened,
            base_position=base_position,
        )
        parts.append(_packed(filtered) if len(filtered.unpacked) else filtered.data)
        records_read += filtered.records_read
        records_kept += filtered.records_kept
        invalid_records += filtered.invalid_records
    data = parts[0] if len(parts) == 1 else b"".join(parts)
    stats = CleanStats(
        records_read=records_read,
        records_kept=records_kept,
        invalid_records=invalid_records,
        bytes_read=int(table.size.sum()),
        bytes_kept=memoryview(data).nbytes,
    )
    return CleanedBatches(data=data, table=scan_batches(data, verify_crc=False), stats=stats)


def _nothing_stays(table: BatchTable, decisions: BatchRetention) -> CleanedBatches:
    stats = CleanStats(
        records_read=int(table.record_count[decisions.retention != Retention.DELETE].sum()),
        records_kept=0,
        invalid_records=0,
        bytes_read=int(table.size.sum()),
        bytes_kept=0,
    )
    return CleanedBatches(data=b"", table=scan_batches(b""), stats=stats)


def _packed(filtered: FilteredBatches) -> Buffer:
    view = memoryview(filtered.data)
    spans = filtered.unpacked.tolist()
    codecs = [codec_of(view[start + ATTRIBUTES_AT + 1]) for start, _ in spans]
    with turn(codecs[0], len(spans), sum(end - start for start, end in spans)):
        packed = [
            compress(codec, view[start + V2_HEADER_BYTES : end])
            for codec, (start, end) in zip(codecs, spans, strict=True)
        ]
    return pack_batches(filtered, packed)
