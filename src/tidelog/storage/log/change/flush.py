"""The flush of a log in three steps, so that appends go on while the disk works. No lock here.

==============  ==================  =================================================================================
step            lock                what it does
==============  ==================  =================================================================================
``plan_flush``  held                selects segments with unsynced bytes and the offset they reach, and writes their
                                    pending index entries; later writes make a segment dirty again
``sync``        ``files`` only      fsync: each segment's log before its indexes, oldest segment first, then snapshots,
                                    leader epochs, then the directory
``note``        held                moves the recovery point
==============  ==================  =================================================================================

A crash before ``note`` leaves the recovery point unchanged. PartitionLog holds ``files`` throughout, so that no
segment is removed during a flush. Source: Kafka's ``UnifiedLog.flush``.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.storage.log.state.log_state import LogState
from tidelog.storage.segment.segment import LogSegment


class FlushPlan(NamedTuple):
    target: int
    """The recovery point after the flush, unless it is higher already."""
    segments: tuple[LogSegment, ...]


def plan_flush(state: LogState, up_to: int | None, *, force: bool) -> FlushPlan | None:
    """Plan to flush the dirty segments that begin below ``up_to`` (None: the log end). Raise StorageError on failure.

    ``force`` also flushes an empty active segment, and segments that need no flush. Return None without ``force`` if
    the recovery point has reached ``up_to``.
    """
    log_end = state.offsets.log_end.message_offset
    target = log_end if up_to is None else min(up_to, log_end)
    if not force and target <= state.offsets.recovery_point:
        return None
    segments = tuple(
        segment
        for segment in state.segments
        if segment.base_offset in state.dirty and (force or segment.base_offset < target)
    )
    for segment in segments:
        segment.write_index_entries()
    state.dirty -= {segment.base_offset for segment in segments}
    return FlushPlan(target, segments)


def sync(state: LogState, plan: FlushPlan) -> None:
    """Sync the plan's segments and the log's small files. Raise StorageError if the disk fails."""
    for segment in plan.segments:
        segment.sync()
    state.producers.snapshots.sync()
    state.write_stale_epochs(syncs_name=False)
    state.fs.sync_dir(state.directory)


def flush_held(state: LogState) -> None:
    """Flush the complete log. The caller holds both locks. Raise StorageError if the disk fails."""
    plan = plan_flush(state, None, force=True)
    if plan is not None:
        sync(state, plan)
        note(state, plan)


def note(state: LogState, plan: FlushPlan) -> bool:
    """Note that ``sync`` is done. Return True if the recovery point moved."""
    has_moved = plan.target > state.offsets.recovery_point
    state.offsets.note_synced(plan.target)
    return has_moved
