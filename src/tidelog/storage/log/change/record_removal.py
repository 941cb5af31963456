"""The removal of records at either end of a log. No lock here: PartitionLog holds it.

A deletion moves the log start forward and removes the segments below it. PartitionLog uses it for DeleteRecords, for
retention, and for a follower that takes its leader's log start. A truncation removes the records from an offset on:

=====================================  ============================================================================
the offset                             what happens
=====================================  ============================================================================
at or above the log end                leader epochs that begin at the log end are removed, nothing else
within the log                         later segments are removed; the segment with the offset is truncated before
                                       the batch that holds it; epochs and producer state follow
below the first segment                the log is emptied and continues there
=====================================  ============================================================================

The high watermark and the recovery point move down with the log end. A crash leaves a log without some of its last
segments; loading repairs the rest, and the follower truncates again. Each step is synced before the next one. Removals
come before the truncation of the remaining segment: only the last segment is recovered if the checkpoint has the old
recovery point. The truncation comes before the epochs: otherwise records that a crash restores could get a later epoch
and pass for the leader's. Source: Kafka's ``UnifiedLog.truncateTo``,
``truncateFullyAndStartAt``, ``maybeIncrementLogStartOffset`` and ``deleteSegments``.
"""

from __future__ import annotations

from tidelog.model import LogOffsetMetadata, OffsetOutOfRangeError
from tidelog.storage.log.state.log_state import LogState


def truncate_to(state: LogState, offset: int) -> bool:
    """Truncate the log at ``offset``. Return True if records were removed. Raise ValueError for a negative offset."""
    if offset < 0:
        raise ValueError(f"a log cannot be truncated to the negative offset {offset}")
    log_end = state.offsets.log_end.message_offset
    if offset >= log_end:
        if state.epochs.truncate_from_end(log_end):
            state.write_epochs()
        return False
    if state.segments.first.base_offset > offset:
        truncate_fully(state, offset, None)
        return True
    state.truncation_count += 1
    later = [segment for segment in state.segments if segment.base_offset > offset]
    state.remove_segments(reversed(later))
    state.producers.snapshots.remove_above(offset)
    state.fs.sync_dir(state.directory)
    state.active.truncate_to(offset)
    state.dirty.add(state.active.base_offset)
    state.active.flush()
    state.offsets.lower_log_start(offset)  # first: the high watermark cannot go below the log start
    state.set_log_end(LogOffsetMetadata(offset, state.active.base_offset, state.active.size))
    if state.epochs.truncate_from_end(offset):
        state.write_epochs()
    state.offsets.note_truncation(offset)
    _rebuild_producers(state, offset)
    return True


def truncate_fully(state: LogState, offset: int, log_start: int | None) -> None:
    """Remove every segment. The empty log continues at ``offset``, and starts at ``log_start`` (None: ``offset``)."""
    state.truncation_count += 1
    state.producers.snapshots.remove_all()
    state.reset_to_empty(offset)
    state.fs.sync_dir(state.directory)
    if state.epochs.clear():
        state.write_epochs()
    state.producers.state.start_at(offset)
    state.offsets.note_truncation(offset)
    state.offsets.restart(log_start=offset if log_start is None else log_start, at=LogOffsetMetadata(offset, offset, 0))
    _rebuild_producers(state, offset)


def _rebuild_producers(state: LogState, end_offset: int) -> None:
    state.producers.rebuild(
        state.segments,
        state.offsets.log_start,
        end_offset,
        after_clean_shutdown=False,
        now_ms=state.clock.now_ms(),
    )
    state.after_high_watermark()


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
    """Move the log start in memory. The leader epoch file is stale until ``LogState.write_stale_epochs``."""
    state.offsets.set_log_start(offset)
    state.epochs.truncate_from_start(offset)
    state.producers.state.on_log_start_offset_incremented(offset, state.producers.snapshots.latest)
    state.update_first_unstable()
