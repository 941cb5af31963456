"""Bring a log's bytes to the disk, in three steps, so that appends go on while the disk works. No lock here.

==============  ==================  =================================================================================
step            lock                what it does
==============  ==================  =================================================================================
``plan_flush``  held                which segments have bytes to sync, and up to which offset that reaches; their index
                                    entries that wait are written, and what is written from here on is dirty again
``sync``        flush lock only     fsync: each segment's log before its indexes, oldest segment first, then snapshots,
                                    leader epochs, then the directory
``note``        held                the recovery point moves
==============  ==================  =================================================================================

A crash in between leaves the recovery point where it was. Called by: PartitionLog, whose flush lock keeps segments from
being removed meanwhile. Source: Kafka's ``UnifiedLog.flush``.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.storage.log.log_state import LogState
from tidelog.storage.segment.segment import LogSegment


class FlushPlan(NamedTuple):
    target: int
    """The recovery point afterwards, if it is not there already."""
    segments: tuple[LogSegment, ...]


def plan_flush(state: LogState, up_to: int | None, *, force: bool) -> FlushPlan | None:
    """Plan to flush the segments that begin below ``up_to``; None: those below the log end. StorageError.

    ``force``: flush the active segment even if it is empty, and even if nothing was appended since the last flush.
    Without it there is nothing to do where the recovery point is there already, and the plan is None.
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
    """StorageError where the disk fails."""
    for segment in plan.segments:
        segment.sync()
    state.producers.snapshots.sync()
    state.write_epochs_behind(syncs_name=False)
    state.fs.sync_dir(state.directory)


def flush_held(state: LogState) -> None:
    """All of it at once, for who holds both locks. StorageError where the disk fails."""
    plan = plan_flush(state, None, force=True)
    if plan is not None:
        sync(state, plan)
        note(state, plan)


def note(state: LogState, plan: FlushPlan) -> bool:
    """Note that ``sync`` is done. Return whether the recovery point moved."""
    has_moved = plan.target > state.offsets.recovery_point
    state.offsets.note_synced(plan.target)
    return has_moved
