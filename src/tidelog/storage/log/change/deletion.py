"""The deletion of a log's oldest records. No lock here: PartitionLog holds it.

A deletion moves the log start forward and removes the segments below it. PartitionLog uses it for DeleteRecords, for
retention, and for a follower that takes its leader's log start.
Source: Kafka's ``UnifiedLog.maybeIncrementLogStartOffset`` and ``deleteSegments``.
"""

from __future__ import annotations

from tidelog.model import OffsetOutOfRangeError
from tidelog.storage.log.change.retention import RetentionSegment, RetentionState
from tidelog.storage.log.state.log_state import LogState


def increment_log_start(state: LogState, offset: int) -> bool:
    """Move the log start forward to ``offset``. Return False if it is there already.

    Raise OffsetOutOfRangeError above the high watermark, because unreplicated records must not be deleted.
    """
    watermark = state.offsets.high_watermark.message_offset
    if offset > watermark:
        raise OffsetOutOfRangeError(
            f"the log cannot begin at {offset}, above its high watermark {watermark}",
            path=state.directory,
            offset=offset,
        )
    if offset <= state.offsets.log_start:
        return False
    _move_log_start(state, offset)
    return True


def delete_oldest(state: LogState, count: int) -> None:
    """Remove the first ``count`` segments. If these are all segments, roll first."""
    gone = list(state.segments)[:count]
    if not gone:
        return
    if len(gone) == len(state.segments):
        state.roll(state.offsets.log_end.message_offset)
    following = state.segments.higher(gone[-1].base_offset)
    assert following is not None
    if following.base_offset > state.offsets.log_start:
        _move_log_start(state, following.base_offset)
    state.remove_segments(gone)


def _move_log_start(state: LogState, offset: int) -> None:
    """Move the log start in memory. The leader epoch file is stale until ``LogState.write_epochs_behind``."""
    state.offsets.set_log_start(offset)
    state.epochs_behind |= state.epochs.truncate_from_start(offset)
    state.producers.state.on_log_start_offset_incremented(offset, state.producers.snapshots.latest)
    state.update_first_unstable()


def retention_state(state: LogState, now_ms: int) -> RetentionState:
    """Return the input of the retention rules."""
    segments = list(state.segments)
    ends = [segment.base_offset for segment in segments[1:]] + [state.offsets.log_end.message_offset]
    return RetentionState(
        segments=tuple(
            RetentionSegment(
                base_offset=segment.base_offset,
                end_offset=end,
                size_bytes=segment.size,
                largest_timestamp_ms=segment.max_timestamp.timestamp if segment.max_timestamp.timestamp >= 0 else None,
                modified_ms=segment.modified_ms,
            )
            for segment, end in zip(segments, ends, strict=True)
        ),
        config=state.config,
        log_start_offset=state.offsets.log_start,
        high_watermark=state.offsets.high_watermark.message_offset,
        now_ms=now_ms,
    )
