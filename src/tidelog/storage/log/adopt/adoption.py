"""The adoption of a staged file as the segment at the log end, atomic and without a copy.

No lock here: the partition's owner holds both. Only the fields that the CRCs do not cover are written into the file:
the base offsets and the leader epoch.

====  ======================================  ==========================================================================
step  change                                  after a crash in it, loading finds
====  ======================================  ==========================================================================
1     the active segment is finished, and     the old log, or less of its unflushed records; after this step no record
      the complete log is synced              before the new segment can be lost
2     the staged file gets its offsets and    some batches with offsets; the next adoption overwrites them, perhaps with
      is synced                               other offsets
3     its indexes are written under their     orphaned indexes: removes them; or the indexes of an empty ``.log``, which
      final names, and synced                 is at the recovery point: recovers it, which empties them
4     it is renamed to the segment's          either the staged file and the old log, or the longer log without the
      ``.log``; both directories are synced   staged file; the new segment is recovered from its batches
====  ======================================  ==========================================================================

A staged file that still exists was therefore not adopted. This requires a file system on which a rename between two
directories leaves exactly one of the two names, like those with a journal. On return the recovery point is the log end.

An empty active segment has the same base offset as the new one. Its ``.log`` is replaced, never removed, because its
name alone records the end of this log.
Source: the rules are those of a roll (``LogState.roll``) and of an append.
"""

from __future__ import annotations

from tidelog.model import LogOffsetMetadata, OffsetOutOfRangeError, StorageError
from tidelog.record.batch_header import PLACE, PREFIX_BYTES
from tidelog.storage.fs import sync_whole
from tidelog.storage.log.adopt.staged_segment import StagedSegment
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.change.flush import flush_held
from tidelog.storage.log.state.log_state import LogState
from tidelog.storage.segment.file_names import MAX_OFFSET, SEGMENT_KINDS, FileKind, FileState, segment_file
from tidelog.storage.segment.segment import LogSegment

FIRST_EPOCH = 0


def adopt(state: LogState, staged: StagedSegment) -> AppendResult:
    """Adopt a file; durable on return. Raise OffsetOutOfRangeError above 63 bits, ValueError if it lies elsewhere."""
    root = staged.path.parent
    if root != state.directory.parent:
        raise ValueError(f"{staged.path} must be in the parent directory of {state.directory}")
    first = state.offsets.log_end.message_offset
    if first + staged.record_count > MAX_OFFSET:
        raise OffsetOutOfRangeError(
            f"{staged.record_count} records do not fit after offset {first}: an offset has at most 63 bits",
            path=state.directory,
        )
    if not staged.record_count:
        state.fs.remove(staged.path)
        state.fs.sync_dir(root)
        return AppendResult.nothing(first, state.offsets.log_start)
    epoch = state.epochs.latest_epoch or FIRST_EPOCH
    _finish_log(state, first)
    _begin_epoch(state, epoch, first)
    _write_places(state, staged, first, epoch)
    replaced = state.active if state.active.base_offset == first else None
    if replaced is not None:  # before the rename: a reader that opens it from here on must not open the new file
        replaced.set_state(FileState.DELETED)
    try:
        _write_indexes(state, staged, first)
        state.fs.rename(staged.path, segment_file(state.directory, first, FileKind.LOG))
        state.fs.sync_dir(state.directory)
        state.fs.sync_dir(root)
    except StorageError:
        if replaced is not None:
            replaced.set_state(FileState.LIVE)
        raise
    _add_segment(state, staged, first)
    if replaced is not None:
        replaced.delete()
    last = first + staged.record_count - 1
    return AppendResult(first, last, state.offsets.log_start, staged.max_timestamp)


def _finish_log(state: LogState, end_offset: int) -> None:
    """Finish the log as before a roll. A recovery can begin at the new base offset, with its snapshot."""
    state.before_records(None)
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


def _add_segment(state: LogState, staged: StagedSegment, first: int) -> None:
    """Add the new segment: readers see it first, and the new log end afterwards."""
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
