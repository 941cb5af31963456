"""The files of one partition in a snapshot: which are linked, copied, truncated or new. Reads only.

=========================================  ============================================================================
a file of the source                       in the snapshot
=========================================  ============================================================================
the ``.log`` of a sealed segment below     a hard link: no owner writes into it again (see below)
the end and the high watermark
the ``.log`` of the active segment, of     a copy of its complete batches. The last batch is rebuilt with fewer records
one with the end, of one above the high    if the end lies inside of it (``record.truncated_batch``)
watermark or with bytes to truncate
``.index``, ``.timeindex``, ``.txnindex``  a copy. Recovery writes them in place, also those of sealed segments
the same of the last segments, which       omitted: the snapshot's own recovery writes them
recovery reads anyway
``.snapshot`` at or below the end          a copy
``leader-epoch-checkpoint``,               a copy; loading truncates the epochs
``partition.metadata``
=========================================  ============================================================================

The snapshot's active segment must be its own. If the last segment is linked, an empty segment begins at the end. If the
cleaner has removed the last records before the end, a new segment has an empty batch with the last offset, as the
cleaner writes it. So the log end is always the end, and committed offsets stay inside the log. Readers reach the end:
without that batch a consumer would wait for ever at the offset of the removed records.

An owner changes the bytes of a sealed ``.log`` in three cases. It truncates a divergent log above the high watermark,
so files above it are copied. After an unclean election it may truncate below it, and recovery truncates a damaged
segment: tidelog then makes a private copy first (``end_sharing``), Kafka does not. A segment becomes active again if
the next one is lost with its power: so the names in the source are synced before its snapshot is complete. Retention,
compaction, and deletion of a topic only replace or remove names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidelog.kernel import BatchRow
from tidelog.model import TopicPartition
from tidelog.record.attributes import CODEC_MASK
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.record.truncated_batch import truncate_batch
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.view_state import ViewSegment, ViewState
from tidelog.storage.manager.snapshot.partition_end import Moment, PartitionEnd, find_end
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind
from tidelog.storage.segment.segment_reader import Chunk, SegmentReader

INDEX_KINDS = tuple(kind for kind in SEGMENT_KINDS if kind is not FileKind.LOG)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchToTruncate:
    """A batch with records on both sides of the end. Position and size are in bytes of the ``.log``."""

    position: int
    size: int
    kept_bytes: int
    """The size of the rebuilt batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPart:
    """A segment of the snapshot. Sizes are in bytes."""

    segment: ViewSegment
    is_linked: bool
    size: int
    """The bytes of the complete batches that stay."""
    keeps_indexes: bool
    """The indexes are copied. Otherwise recovery writes them."""
    index_bytes: int = 0
    split_batch: BatchToTruncate | None = None

    @property
    def base_offset(self) -> int:
        return self.segment.base_offset

    @property
    def copied_bytes(self) -> int:
        split = 0 if self.split_batch is None else self.split_batch.kept_bytes
        return self.index_bytes + split + (0 if self.is_linked else self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionParts:
    """The plan of one partition. ``recovery_point`` is the first offset that the snapshot's own recovery reads."""

    partition: TopicPartition
    end: PartitionEnd
    parts: tuple[SegmentPart, ...]
    new_segment_at: int | None
    """The base offset of a new active segment, None if the last part is active."""
    ends_in_gap: bool
    """No record is left before the end. The new segment has an empty batch with the offset before the end."""
    recovery_point: int
    snapshots: tuple[int, ...]
    """Offsets of the producer snapshots to copy."""

    @property
    def name(self) -> str:
        return self.partition.directory_name

    @property
    def log_start(self) -> int:
        return min(self.end.log_start, self.end.offset)

    @property
    def starts_inside_segment(self) -> bool:
        return bool(self.parts) and self.log_start > self.parts[0].base_offset

    @property
    def linked_bytes(self) -> int:
        return sum(part.size for part in self.parts if part.is_linked)

    @property
    def copied_bytes(self) -> int:
        return sum(part.copied_bytes for part in self.parts) + self.ends_in_gap * V2_HEADER_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Sharing:
    """The segments of one partition that may be linked. ``below`` is the high watermark."""

    below: int
    allowed: bool = True


def plan_parts(view: LogView, partition: TopicPartition, moment: Moment, sharing: Sharing) -> PartitionParts:
    """Plan one partition. Raise CorruptRecordError if a batch on the way to the end is damaged."""
    return parts_of(view, partition, find_end(view, partition, moment), sharing)


def parts_of(view: LogView, partition: TopicPartition, end: PartitionEnd, sharing: Sharing) -> PartitionParts:
    """Plan one partition whose end is known."""
    state = view.state
    unflushed_from = _unflushed_from(view, partition)
    kept = _kept_segments(state, end)
    parts: list[SegmentPart] = []
    next_offset = -1
    for segment in kept:
        part, next_offset = _part(view, segment, end.offset, sharing, unflushed_from)
        if part.size or part.split_batch is not None or segment.size == 0:
            parts.append(part)
    ends_in_gap = bool(parts) and _next_offset(view, kept[-1], next_offset, end.offset) < end.offset
    new_segment_at = end.offset - ends_in_gap if next_offset < end.offset else None
    rebuilt = [part.base_offset for part in parts if not part.keeps_indexes]
    recovery_point = min([*rebuilt, end.offset if new_segment_at is None else new_segment_at])
    return PartitionParts(
        partition=partition,
        end=end,
        parts=tuple(parts),
        new_segment_at=new_segment_at,
        ends_in_gap=ends_in_gap,
        recovery_point=recovery_point,
        snapshots=tuple(offset for offset in state.listing.snapshots if offset <= recovery_point),
    )


def _unflushed_from(view: LogView, partition: TopicPartition) -> int | None:
    """Return the base offset from which a recovery of the source would walk, None after a clean shutdown.

    Above it indexes, leader epochs and snapshots may lack entries, also while the owner still runs.
    """
    state = view.state
    if state.recovered is not None:
        return state.recovered.start_offset
    if state.condition is not DirectoryCondition.HELD or not len(state.segments):
        return None
    recovery_point = view.directory_state.recovery_points.get(partition, 0)
    floor = state.segments.floor(recovery_point)
    return (state.segments.first if floor is None else floor).base_offset


def _kept_segments(state: ViewState, end: PartitionEnd) -> Sequence[ViewSegment]:
    """Return the segments with records in [log start, end)."""
    if end.offset <= end.log_start or not len(state.segments):
        return ()
    first = state.segments.floor(end.log_start) or state.segments.first
    return [one for one in state.segments if first.base_offset <= one.base_offset < end.offset]


def _part(
    view: LogView, segment: ViewSegment, log_end: int, sharing: Sharing, unflushed_from: int | None
) -> tuple[SegmentPart, int]:
    """Return the part, and the offset after its last batch in a snapshot that ends at ``log_end``.

    The offset is -1 for a sealed segment that stays whole, because no appends may follow in it.
    """
    state = view.state
    following = state.segments.higher(segment.base_offset)
    end_position = state.end_position(segment)
    whole_until = state.log_end.message_offset if following is None else following.base_offset
    if log_end < whole_until:
        return _truncated_part(view, segment, log_end, end_position)
    is_flushed = unflushed_from is None or segment.base_offset < unflushed_from
    is_sealed = end_position is None
    keeps_indexes = is_sealed and is_flushed
    part = SegmentPart(
        segment=segment,
        is_linked=is_sealed and sharing.allowed and whole_until <= sharing.below,
        size=segment.size if end_position is None else end_position,
        keeps_indexes=keeps_indexes,
        index_bytes=_index_bytes(view, segment) if keeps_indexes else 0,
    )
    return part, whole_until if following is None else -1


def _next_offset(view: LogView, last: ViewSegment, known: int, log_end: int) -> int:
    """Return the offset after the last batch. ``known`` is -1 if a sealed segment stays whole."""
    if known >= 0:
        return known
    with last.open(view.fs, view.directory) as reader:
        return _place_of(reader, log_end, None)[1]


def _truncated_part(
    view: LogView, segment: ViewSegment, log_end: int, end_position: int | None
) -> tuple[SegmentPart, int]:
    with segment.open(view.fs, view.directory) as reader:
        size, next_offset, split_batch = _place_of(reader, log_end, end_position)
    part = SegmentPart(segment=segment, is_linked=False, size=size, keeps_indexes=False, split_batch=split_batch)
    return part, next_offset if split_batch is None else log_end


def _place_of(reader: SegmentReader, log_end: int, end_position: int | None) -> tuple[int, int, BatchToTruncate | None]:
    """Return the bytes of the batches below the end, the offset after them, and a batch with the end inside."""
    size, next_offset = reader.position_of(log_end - 1), reader.base_offset
    for chunk in reader.chunks(size, end_position, verify_crc=False):
        table = chunk.table
        above = np.flatnonzero(table.last_offset >= log_end)
        below = int(above[0]) if len(above) else len(table)
        if below:
            last = table.row(below - 1)
            size, next_offset = last.position + last.size, last.last_offset + 1
        if len(above):
            return size, next_offset, _batch_to_truncate(chunk, table.row(below), log_end)
    return size, next_offset, None


def _batch_to_truncate(chunk: Chunk, row: BatchRow, log_end: int) -> BatchToTruncate | None:
    """Return the batch if a part of it stays. A wrapper of v0 or v1 has only its last record's offset."""
    is_wrapper = row.magic < 2 and row.attributes & CODEC_MASK
    if row.base_offset >= log_end and not is_wrapper:
        return None
    start = row.position - chunk.base_position
    kept = truncate_batch(chunk.buffer[start : start + row.size], log_end)
    return BatchToTruncate(position=row.position, size=row.size, kept_bytes=len(kept)) if kept else None


def _index_bytes(view: LogView, segment: ViewSegment) -> int:
    kinds = [kind for kind in INDEX_KINDS if kind in segment.files.kinds]
    return sum(view.fs.stat(segment.files.path(view.directory, kind)).size for kind in kinds)
