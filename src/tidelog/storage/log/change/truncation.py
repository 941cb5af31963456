"""The truncation of a log at an offset, or of all its records. No lock here: PartitionLog holds it.

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
and pass for the leader's. Source: Kafka's ``UnifiedLog.truncateTo`` and ``truncateFullyAndStartAt``.
"""

from __future__ import annotations

from tidelog.model import LogOffsetMetadata
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
    state.start_over(offset)
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
