"""Make one segment whole again from its ``.log``: cut what is not a sound batch, rebuild the three indexes.

Two halves. ``walk_segment`` reads: format, CRC, offset within 31 bits above the base, chunk by chunk, and gathers what
the indexes will hold; it writes nothing and runs nearly all of its time without the GIL, so several segments are walked
at once. ``rebuild_segment`` writes; a crash after each of its steps leaves a segment that is recovered again:

1. Where no recovery point says that it has to be recovered, ``.index`` is removed: without it a segment always is.
2. The ``.log`` is cut behind the last sound batch.
3. ``.timeindex``, ``.txnindex`` (where it existed or a transaction was aborted), and at last ``.index`` are written,
   without preallocation. Where ``.index`` was removed in step 1, every step is synced before the next, and it appears
   whole: from then on nobody looks whether the rest is. Else nothing is synced here: whoever moves the recovery point
   syncs first (``sync_segment``).

A batch whose last offset would not ascend in the offset index makes the whole segment unusable: it is emptied (as in
Kafka, which cannot tell which of the batches is wrong).

Called by: the loader, with the partition to itself. Source: Kafka's ``LogSegment.recover``; bytes equal to its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidelog.kernel import BatchTable
from tidelog.model import FileMissingError, InvalidOffsetError, StorageError
from tidelog.storage.fs import FileSystem, sync_whole, write_atomically
from tidelog.storage.index import AbortedTransaction, encode_transactions
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, segment_file
from tidelog.storage.segment.index_builder import Entries, IndexBuilder, offset_index_bytes, time_index_bytes
from tidelog.storage.segment.segment_reader import SegmentReader

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_SEGMENT_BYTES = 2**31 - 1
_CHUNK_BYTES = 8 * 1024 * 1024
"""Large, so that what is done once a chunk does not count."""

BatchListener = Callable[["Buffer", BatchTable], None]
"""Takes the sound batches of a chunk (buffer index = position - the chunk's first position), in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredSegment:
    """Sizes in bytes. ``end_offset`` follows the last sound batch; it is the base offset of an empty segment."""

    base_offset: int
    end_offset: int
    size: int
    cut_bytes: int
    batches: int
    emptied: bool
    """The segment held offsets that no index can hold in order, and was emptied."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentWalk:
    """What a segment will be: sizes in bytes, indexes whole. ``emptied`` and ``end_offset`` as in RecoveredSegment."""

    base_offset: int
    end_offset: int
    size_before: int
    size: int
    batches: int
    emptied: bool
    offset_index: bytes
    time_index: bytes


class _Gathered:
    """The sound batches so far."""

    def __init__(self, base_offset: int, index_interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.builder = IndexBuilder(base_offset, index_interval_bytes)
        self.entries: list[Entries] = []
        self.size = 0
        self.batches = 0
        self.end_offset = base_offset

    def add(self, table: BatchTable) -> None:
        self.entries.append(self.builder.add(table))
        self.size = int(table.position[-1]) + int(table.size[-1])
        self.end_offset = int(table.last_offset[-1]) + 1
        self.batches += len(table)

    def finish(self, size_before: int, *, emptied: bool) -> SegmentWalk:
        """InvalidOffsetError where a larger timestamp comes with a smaller offset."""
        return SegmentWalk(
            base_offset=self.base_offset,
            end_offset=self.end_offset,
            size_before=size_before,
            size=self.size,
            batches=self.batches,
            emptied=emptied,
            offset_index=offset_index_bytes(self.base_offset, self.entries),
            time_index=time_index_bytes(self.base_offset, self.entries, self.builder.largest),
        )


def walk_segment(
    fs: FileSystem, directory: Path, base_offset: int, *, index_interval_bytes: int, on_batches: BatchListener
) -> SegmentWalk:
    """Read the segment to the end of its sound batches; writes nothing.

    OffsetOverflowError (a StorageError) if a sound batch's offset is out of reach, StorageError if it is below the base
    offset or the file is larger than 2 GiB.
    """
    gathered = _Gathered(base_offset, index_interval_bytes)
    with SegmentReader(fs, directory, base_offset) as reader:
        size = reader.size
        if size > MAX_SEGMENT_BYTES:
            raise StorageError(f"{size} bytes are more than a segment can hold (2 GiB)", path=reader.path)
        try:
            _walk_batches(reader, gathered, on_batches)
            return gathered.finish(size, emptied=False)
        except InvalidOffsetError:
            return _Gathered(base_offset, index_interval_bytes).finish(size, emptied=True)


def rebuild_segment(
    fs: FileSystem,
    directory: Path,
    walk: SegmentWalk,
    aborted: Sequence[AbortedTransaction],
    *,
    below_recovery_point: bool = False,
) -> RecoveredSegment:
    """Write what the walk found. ``aborted``: the transactions that the segment's markers aborted.

    ``below_recovery_point``: or perhaps so; step 1 sees to it that a crash does not leave it half rebuilt for good.
    """
    base_offset = walk.base_offset
    index_path = segment_file(directory, base_offset, FileKind.INDEX)
    if below_recovery_point:
        fs.remove(index_path, missing_ok=True)
        fs.sync_dir(directory)
    if walk.size < walk.size_before:
        with fs.open(segment_file(directory, base_offset, FileKind.LOG), write=True) as file:
            file.truncate(walk.size)
    _write(fs, segment_file(directory, base_offset, FileKind.TIME_INDEX), walk.time_index)
    transactions = segment_file(directory, base_offset, FileKind.TXN_INDEX)
    kept = () if walk.emptied else aborted
    if kept or fs.exists(transactions):
        _write(fs, transactions, encode_transactions(kept))
    if below_recovery_point:
        sync_segment(fs, directory, base_offset)
        fs.sync_dir(directory)
        write_atomically(fs, index_path, walk.offset_index)
    else:
        _write(fs, index_path, walk.offset_index)
    return RecoveredSegment(
        base_offset=base_offset,
        end_offset=walk.end_offset,
        size=walk.size,
        cut_bytes=walk.size_before - walk.size,
        batches=walk.batches,
        emptied=walk.emptied,
    )


def sync_segment(fs: FileSystem, directory: Path, base_offset: int) -> None:
    """fsync a segment's files as they are: the log first, then its indexes."""
    for kind in SEGMENT_KINDS:
        try:
            sync_whole(fs, segment_file(directory, base_offset, kind))
        except FileMissingError:
            if kind is FileKind.LOG:
                raise


def _walk_batches(reader: SegmentReader, gathered: _Gathered, on_batches: BatchListener) -> None:
    for buffer, table, _ in reader.chunks(0, verify_crc=True, chunk_bytes=_CHUNK_BYTES):
        if not len(table):
            return
        sound = table if table.summary.crcs_ok else table.take(slice(0, int(np.argmin(table.crc_ok))))
        if len(sound):
            try:
                gathered.add(sound)
            except InvalidOffsetError:
                raise
            except StorageError as error:
                raise type(error)(
                    error.message, path=reader.path, position=error.position, offset=error.offset
                ) from None
            on_batches(buffer, sound)
        if len(sound) < len(table):
            return


def _write(fs: FileSystem, path: Path, data: bytes) -> None:
    with fs.open(path, create=True) as file:
        if data:
            file.pwrite(data, 0)
        file.truncate(len(data))
