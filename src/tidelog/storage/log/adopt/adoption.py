"""Make a staged file the segment at the log end: without a copy, all of it or nothing. No lock: PartitionLog has it.

Only what the CRCs do not cover is written into the file, the base offsets and the leader epoch.

====  ======================================  ==========================================================================
step  what                                    a crash in it, and what the next loading makes of it
====  ======================================  ==========================================================================
1     the active segment is finished, all of  the log as it was, or with less of what was not flushed; behind this step
      the log is brought to the disk          nothing can be lost any more that lies before the new segment
2     the staged file gets its offsets and    some batches have them; the next adoption writes them again, others
      is synced                               perhaps
3     its indexes are written under their     they have no ``.log`` and are removed; or an empty one, which lies behind
      final names, and synced                 the recovery point: it is recovered, and they are emptied
4     it is renamed to the segment's          the staged file is there, and the log without it, or it is not, and the
      ``.log``; both directories are synced   log is the longer; the new segment is recovered from its batches
====  ======================================  ==========================================================================

So whether the staged file is there says whether it was adopted. That needs a file system on which a renaming between
two directories leaves one of the two names, as those with a journal do. On return the recovery point is the log end.

An empty active segment has the same base offset: its ``.log`` is replaced, never removed, for its name alone says where
such a log ends. Called by: PartitionLog. Source: the rules are those of a roll (``LogState.roll``) and of an append.
"""

from __future__ import annotations

from tidelog.model import LogOffsetMetadata, OffsetOutOfRangeError, StorageError
from tidelog.record.batch_place import PLACE, PREFIX_BYTES
from tidelog.storage.fs import sync_whole
from tidelog.storage.log.adopt.staged_segment import StagedSegment
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.flush import flush_held
from tidelog.storage.log.log_state import LogState
from tidelog.storage.segment.file_names import MAX_OFFSET, SEGMENT_KINDS, FileKind, FileState, segment_file
from tidelog.storage.segment.segment import LogSegment

FIRST_EPOCH = 0


def adopt(state: LogState, staged: StagedSegment) -> AppendResult:
    """Durable on return. OffsetOutOfRangeError where the offsets end, ValueError for a file that lies elsewhere."""
    root = staged.path.parent
    if root != state.directory.parent:
        raise ValueError(f"{staged.path} does not lie beside {state.directory}")
    first = state.offsets.log_end.message_offset
    if first + staged.record_count > MAX_OFFSET:
        raise OffsetOutOfRangeError(f"{staged.record_count} records do not fit behind {first}", path=state.directory)
    if not staged.record_count:
        state.fs.remove(staged.path)
        state.fs.sync_dir(root)
        return AppendResult.nothing(first, state.offsets.log_start)
    epoch = state.epochs.latest_epoch or FIRST_EPOCH
    _finish_log(state, first)
    _begin_epoch(state, epoch, first)
    _write_places(state, staged, first, epoch)
    replaced = state.active if state.active.base_offset == first else None
    if replaced is not None:  # first: what a reader opens of it from here on is its own file, never the new one's
        replaced.renamed(FileState.DELETED)
    try:
        _write_indexes(state, staged, first)
        state.fs.rename(staged.path, segment_file(state.directory, first, FileKind.LOG))
        state.fs.sync_dir(state.directory)
        state.fs.sync_dir(root)
    except StorageError:
        if replaced is not None:
            replaced.renamed(FileState.LIVE)
        raise
    _take_over(state, staged, first)
    if replaced is not None:
        replaced.delete()
    last = first + staged.record_count - 1
    return AppendResult(first, last, state.offsets.log_start, staged.max_timestamp)


def _finish_log(state: LogState, end_offset: int) -> None:
    """As before a roll; the snapshot at the new base offset lets a recovery begin there."""
    state.topic.write()
    if state.active.size:
        state.dirty.add(state.active.base_offset)
        state.active.on_become_inactive()
    state.producers.state.map_end_offset = end_offset
    state.producers.take_snapshot()
    flush_held(state)


def _begin_epoch(state: LogState, epoch: int, first: int) -> None:
    if state.epochs.latest_epoch is None:
        state.assign_epoch(epoch, first)


def _write_places(state: LogState, staged: StagedSegment, first: int, epoch: int) -> None:
    rows = zip(staged.positions.tolist(), staged.first_offsets.tolist(), staged.sizes.tolist(), strict=True)
    with state.fs.open(staged.path, write=True) as file:
        for position, offset, size in rows:
            file.pwrite(PLACE.pack(first + offset, size - PREFIX_BYTES, epoch), position)
        file.sync()


def _write_indexes(state: LogState, staged: StagedSegment, first: int) -> None:
    for kind in reversed(SEGMENT_KINDS[1:]):
        state.fs.remove(segment_file(state.directory, first, kind), missing_ok=True)
    for kind, data in ((FileKind.TIME_INDEX, staged.time_index), (FileKind.INDEX, staged.offset_index)):
        path = segment_file(state.directory, first, kind)
        with state.fs.open(path, create=True) as file:
            if data:
                file.pwrite(data, 0)
        sync_whole(state.fs, path)


def _take_over(state: LogState, staged: StagedSegment, first: int) -> None:
    """The new segment is there: readers see it, then that the log ends behind it."""
    now_ms, limits = state.clock.now_ms(), state.config.segment_limits
    segment = LogSegment(state.fs, state.directory, first, limits, now_ms=now_ms, size=staged.size)
    segment.grow_indexes()
    state.dirty.discard(first)
    state.segments.add(segment)
    end = first + staged.record_count
    state.set_log_end(LogOffsetMetadata(end, first, staged.size))
    state.producers.state.map_end_offset = end
    state.offsets.note_synced(end)
    state.after_high_watermark()
