"""The recovery of a segment from its ``.log``: truncate the invalid end, rebuild the three indexes.

``walk_segment`` reads block by block and collects the indexes' contents. It checks format, CRC, and that offsets lie
within 31 bits above the base offset. It writes nothing and runs mostly without the GIL, so several segments are walked
in parallel. ``rebuild_segment`` writes. A crash after any of its steps leaves a segment that is recovered again:

1. If no recovery point forces another recovery of the segment, ``.index`` is removed: a missing index always does.
2. The ``.log`` is truncated behind the last valid batch, durably. If it has another name, a private copy replaces it.
3. ``.timeindex``, ``.txnindex`` (if it existed or a transaction was aborted), and last ``.index`` are written, without
   preallocation. If step 1 removed ``.index``, each step is fsynced before the next, and ``.index`` appears atomically:
   from then on the segment is not checked again. Otherwise nothing is fsynced here: the caller must call
   ``sync_segment`` before it moves the recovery point.

If a batch's last offset does not ascend in the offset index, the segment is emptied: nothing shows which of the batches
is wrong. Kafka does the same. Source: Kafka's ``LogSegment.recover``; the bytes are equal to Kafka's.
Thread rule: one thread, and no other may use the partition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tidelog.kernel import BatchTable
from tidelog.model import FileMissingError, InvalidOffsetError, StorageError
from tidelog.storage.fs import File, FileSystem, end_sharing, sync_whole, write_atomically, write_whole
from tidelog.storage.index import AbortedTxn, encode_transactions
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, segment_file
from tidelog.storage.segment.index_builder import Entries, IndexBuilder, offset_index_bytes, time_index_bytes
from tidelog.storage.segment.limits import MAX_SEGMENT_BYTES
from tidelog.storage.segment.segment_reader import SegmentReader

BatchListener = Callable[[SegmentReader, BatchTable], None]
"""The callback gets the valid batches of the segment in pieces, ascending, and the reader for their bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredSegment:
    """The result; sizes are in bytes. ``end_offset`` follows the last valid batch (empty segment: the base offset)."""

    base_offset: int
    end_offset: int
    size: int
    truncated_bytes: int
    batches: int
    emptied: bool
    """True if the segment was emptied, because its offsets cannot ascend in any index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentWalk:
    """The future contents of a segment: sizes in bytes, complete indexes; other fields as in RecoveredSegment."""

    base_offset: int
    end_offset: int
    size_before: int
    size: int
    batches: int
    emptied: bool
    offset_index: bytes
    time_index: bytes


class _ValidBatches:
    """The valid batches so far."""

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
        """Build the indexes. Raise InvalidOffsetError if a larger timestamp has a smaller offset."""
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
    fs: FileSystem,
    directory: Path,
    base_offset: int,
    *,
    index_interval_bytes: int,
    on_batches: BatchListener,
    file: File | None = None,
) -> SegmentWalk:
    """Read the segment to the end of its valid batches, without writing. ``file`` is that of ``SegmentReader``.

    Raise OffsetOverflowError (a StorageError) if a valid batch's offset is more than 31 bits above the base offset.
    Raise StorageError if an offset is below the base offset, or the file is larger than 2 GiB.
    """
    gathered = _ValidBatches(base_offset, index_interval_bytes)
    with SegmentReader(fs, directory, base_offset, file=file) as reader:
        size = reader.size
        if size > MAX_SEGMENT_BYTES:
            raise StorageError(f"{size} bytes are more than a segment can hold (2 GiB)", path=reader.path)
        try:
            _walk_batches(reader, gathered, on_batches)
            return gathered.finish(size, emptied=False)
        except InvalidOffsetError:
            return _ValidBatches(base_offset, index_interval_bytes).finish(size, emptied=True)


def rebuild_segment(
    fs: FileSystem,
    directory: Path,
    walk: SegmentWalk,
    aborted: Sequence[AbortedTxn],
    *,
    below_recovery_point: bool = False,
) -> RecoveredSegment:
    """Write the files of a walked segment. ``aborted`` are the transactions that the segment's markers aborted.

    ``below_recovery_point`` is True if the segment may lie below it: then step 1 protects against a crash.
    """
    base_offset = walk.base_offset
    index_path = segment_file(directory, base_offset, FileKind.INDEX)
    if below_recovery_point:
        fs.remove(index_path, missing_ok=True)
        fs.sync_dir(directory)
    log_path = segment_file(directory, base_offset, FileKind.LOG)
    if walk.size < walk.size_before and not end_sharing(fs, log_path, walk.size):
        with fs.open(log_path, write=True) as file:
            file.truncate(walk.size)
            file.sync()  # before appends: a power loss must not leave removed bytes behind new batches
    write_whole(fs, segment_file(directory, base_offset, FileKind.TIME_INDEX), walk.time_index)
    transactions = segment_file(directory, base_offset, FileKind.TXN_INDEX)
    kept = () if walk.emptied else aborted
    if kept or fs.exists(transactions):
        write_whole(fs, transactions, encode_transactions(kept))
    if below_recovery_point:
        sync_segment(fs, directory, base_offset)
        fs.sync_dir(directory)
        write_atomically(fs, index_path, walk.offset_index)
    else:
        write_whole(fs, index_path, walk.offset_index)
    return RecoveredSegment(
        base_offset=base_offset,
        end_offset=walk.end_offset,
        size=walk.size,
        truncated_bytes=walk.size_before - walk.size,
        batches=walk.batches,
        emptied=walk.emptied,
    )


def sync_segment(fs: FileSystem, directory: Path, base_offset: int) -> None:
    """Fsync a segment's files unchanged: the log first, then its indexes."""
    for kind in SEGMENT_KINDS:
        try:
            sync_whole(fs, segment_file(directory, base_offset, kind))
        except FileMissingError:
            if kind is FileKind.LOG:
                raise


def _walk_batches(reader: SegmentReader, gathered: _ValidBatches, on_batches: BatchListener) -> None:
    for table in reader.tables():
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
            on_batches(reader, sound)
        if len(sound) < len(table):
            return
