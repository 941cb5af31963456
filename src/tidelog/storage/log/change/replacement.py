"""The replacement of an open log's segments by rewritten ones. No lock here: PartitionLog holds it.

==============================================  =====================================================================
the old segments                                what happens
==============================================  =====================================================================
unchanged since they were read                  the drafts are swapped in (``segment_swap``); the old segments wait
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
from tidelog.storage.segment.file_names import MAX_OFFSET, FileState
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_draft import FinishedDraft, SegmentDraft


def new_draft(state: LogState, base_offset: int) -> SegmentDraft:
    """Return an empty draft."""
    interval_bytes = state.config.index_interval_bytes
    return SegmentDraft(state.fs, state.directory, base_offset, index_interval_bytes=interval_bytes)


def replace_segments(
    state: LogState, new: Sequence[FinishedDraft], old: Sequence[LogSegment], truncation_count: int
) -> None:
    """Replace ``old`` by the finished drafts ``new``. ``truncation_count`` was read with ``old``."""
    present = {segment.base_offset: segment for segment in state.segments}
    there = [segment for segment in old if present.get(segment.base_offset) is segment]
    is_what_was_read = (
        truncation_count == state.truncation_count
        and bool(there)
        and there == list(old[-len(there) :])
        and state.active not in there
        and all(draft.path.parent == state.directory for draft in new)
    )
    if not is_what_was_read:
        raise LogCleaningAbortedError(
            f"the segments from {old[0].base_offset} to {old[-1].base_offset} have changed since they were read",
            path=state.directory,
        )
    # Before the swap, so that a file opened from here on is the old segment's, or missing, but never the new one's.
    for segment in there:
        segment.renamed(FileState.DELETED)
    try:
        swap_in(state.fs, state.directory, [draft.base_offset for draft in new], [one.base_offset for one in there])
    except StorageError:
        for segment in there:
            segment.renamed(FileState.LIVE)
        raise
    now_ms, limits = state.clock.now_ms(), state.config.segment_limits
    replaced = [
        LogSegment(state.fs, state.directory, draft.base_offset, limits, now_ms=now_ms, size=draft.size)
        for draft in new
    ]
    state.replace_segments(there, replaced)
    watermark = state.offsets.high_watermark
    if watermark.segment_base_offset in (segment.base_offset for segment in there):
        state.offsets.resolved_high_watermark(state.resolve(watermark.message_offset))


def split_into_drafts(state: LogState, segment: LogSegment) -> list[SegmentDraft]:
    """Copy an overflowed segment into finished drafts. Raise StorageError, with no file left, if that fails."""
    following = state.segments.higher(segment.base_offset)
    pieces = plan_pieces(
        state.fs, state.directory, segment.base_offset, None if following is None else following.base_offset
    )
    ends = [*(piece.base_offset for piece in pieces[1:]), MAX_OFFSET]
    drafts: list[SegmentDraft] = []
    try:
        for piece, end_offset in zip(pieces, ends, strict=True):
            drafts.append(new_draft(state, piece.base_offset))
            _copy(segment, piece, end_offset, drafts[-1])
            drafts[-1].finish(mtime_ms=segment.modified_ms)
    except BaseException:
        discard(drafts)
        raise
    return drafts


def discard(drafts: Iterable[SegmentDraft]) -> None:
    """Remove the drafts' remaining files. Drafts that were swapped in have none."""
    for draft in drafts:
        draft.discard()


def _copy(segment: LogSegment, piece: SegmentPiece, end_offset: int, draft: SegmentDraft) -> None:
    position = piece.start
    for chunk in segment.chunks(piece.start, piece.end, verify_crc=True):
        if not chunk.table.summary.crcs_ok:
            break
        position = chunk.table.end_position
        draft.append(chunk.buffer[: position - chunk.base_position], chunk.table)
    if position < piece.end:
        raise CorruptRecordError("the segment is damaged and cannot be split", path=segment.path, position=position)
    for transaction in segment.collect_aborted(0, MAX_OFFSET).transactions:
        if piece.base_offset <= transaction.last_offset < end_offset:
            draft.append_aborted(transaction)
