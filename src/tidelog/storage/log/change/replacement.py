"""The replacement of an open log's segments by rewritten ones. No lock here: PartitionLog holds it.

==============================================  =====================================================================
the old segments                                what happens
==============================================  =====================================================================
unchanged since they were read                  the new segments are swapped in (``segment_swap``); the old ones wait
                                                as ``.deleted`` for ``file.delete.delay.ms``, for their readers
some of the oldest are gone                     the same with the remaining ones; records that were deleted meanwhile
                                                lie below the log start, and the next retention deletes them again
all are gone, the log was truncated since,      LogCleaningAbortedError, nothing has changed
or the last one is active again
==============================================  =====================================================================

A crash leaves the old or the new segments: see ``segment_swap``. A producer snapshot whose base offset has no segment
any longer is removed like a segment. The cleaner and the split of an overflowed segment use this module.
Source: Kafka's ``UnifiedLog.replaceSegments`` and ``splitOverflowedSegment``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.model import CorruptRecordError, LogCleaningAbortedError, StorageError
from tidelog.storage.log.load.overflow_split import SegmentPiece, plan_pieces
from tidelog.storage.log.load.segment_swap import swap_in
from tidelog.storage.log.state.log_state import LogState
from tidelog.storage.segment.cleaned_segment import CleanedSegment, FinishedSegment
from tidelog.storage.segment.file_names import MAX_OFFSET, FileState
from tidelog.storage.segment.segment import LogSegment


def create_cleaned_segment(state: LogState, base_offset: int) -> CleanedSegment:
    """Return an empty segment."""
    interval_bytes = state.config.index_interval_bytes
    return CleanedSegment(state.fs, state.directory, base_offset, index_interval_bytes=interval_bytes)


def replace_segments(
    state: LogState, new: Sequence[FinishedSegment], old: Sequence[LogSegment], truncation_count: int
) -> None:
    """Replace ``old`` by the finished segments ``new``. ``truncation_count`` was read with ``old``."""
    present = {segment.base_offset: segment for segment in state.segments}
    remaining = [segment for segment in old if present.get(segment.base_offset) is segment]
    is_unchanged = (
        truncation_count == state.truncation_count
        and bool(remaining)
        and remaining == list(old[-len(remaining) :])
        and state.active not in remaining
        and all(cleaned.path.parent == state.directory for cleaned in new)
    )
    if not is_unchanged:
        raise LogCleaningAbortedError(
            f"the segments from {old[0].base_offset} to {old[-1].base_offset} have changed since they were read",
            path=state.directory,
        )
    # Before the swap, so that a file opened from here on is the old segment's, or missing, but never the new one's.
    for segment in remaining:
        segment.set_state(FileState.DELETED)
    try:
        swap_in(
            state.fs, state.directory, [cleaned.base_offset for cleaned in new], [one.base_offset for one in remaining]
        )
    except StorageError:
        for segment in remaining:
            segment.set_state(FileState.LIVE)
        raise
    now_ms, limits = state.clock.now_ms(), state.config.segment_limits
    replaced = [
        LogSegment(state.fs, state.directory, cleaned.base_offset, limits, now_ms=now_ms, size=cleaned.size)
        for cleaned in new
    ]
    state.replace_segments(remaining, replaced)
    watermark = state.offsets.high_watermark
    if watermark.segment_base_offset in (segment.base_offset for segment in remaining):
        state.offsets.resolved_high_watermark(state.resolve(watermark.message_offset))


def split_into_cleaned_segments(state: LogState, segment: LogSegment) -> list[CleanedSegment]:
    """Copy an overflowed segment into finished segments. Raise StorageError, with no file left, if that fails."""
    following = state.segments.higher(segment.base_offset)
    pieces = plan_pieces(
        state.fs, state.directory, segment.base_offset, None if following is None else following.base_offset
    )
    ends = [*(piece.base_offset for piece in pieces[1:]), MAX_OFFSET]
    cleaned_segments: list[CleanedSegment] = []
    try:
        for piece, end_offset in zip(pieces, ends, strict=True):
            cleaned_segments.append(create_cleaned_segment(state, piece.base_offset))
            _copy(segment, piece, end_offset, cleaned_segments[-1])
            cleaned_segments[-1].finish(mtime_ms=segment.modified_ms)
    except BaseException:
        discard(cleaned_segments)
        raise
    return cleaned_segments


def discard(cleaned_segments: Iterable[CleanedSegment]) -> None:
    """Remove the remaining files of cleaned segments. Segments that were swapped in have none."""
    for cleaned in cleaned_segments:
        cleaned.discard()


def _copy(segment: LogSegment, piece: SegmentPiece, end_offset: int, cleaned: CleanedSegment) -> None:
    position = piece.start
    for chunk in segment.chunks(piece.start, piece.end, verify_crc=True):
        if not chunk.table.summary.crcs_ok:
            break
        position = chunk.table.end_position
        cleaned.append(chunk.buffer[: position - chunk.base_position], chunk.table)
    if position < piece.end:
        raise CorruptRecordError("the segment is damaged and cannot be split", path=segment.path, position=position)
    for transaction in segment.collect_aborted(0, MAX_OFFSET).transactions:
        if piece.base_offset <= transaction.last_offset < end_offset:
            cleaned.append_aborted(transaction)
