"""Make one segment whole again from its ``.log``: cut what is not a sound batch, rebuild the three indexes.

Steps, and what a crash after each leaves:

1. Where the segment had been flushed, ``.index`` is removed: a segment without it is recovered again, whatever the
   recovery point says.
2. The batches are walked in chunks (format, CRC, offset within 31 bits above the base). Nothing is written.
3. The ``.log`` is cut behind the last sound batch.
4. ``.timeindex``, ``.txnindex`` (where it existed or a transaction was aborted), and at last ``.index`` are written,
   without preallocation. Nothing is synced here: whoever moves the recovery point syncs first (``sync_segment``).

A batch whose last offset would not ascend in the offset index makes the whole segment unusable: it is emptied (as in
Kafka, which cannot tell which of the batches is wrong).

Called by: the loader, with the partition to itself. Source: Kafka's ``LogSegment.recover``; bytes equal to its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tidelog.kernel import BatchTable
from tidelog.model import FileMissingError, InvalidOffsetError, StorageError
from tidelog.storage.fs import FileSystem
from tidelog.storage.index import AbortedTransaction, encode_transactions
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, segment_file
from tidelog.storage.segment.index_builder import Entries, IndexBuilder, offset_index_bytes, time_index_bytes
from tidelog.storage.segment.segment_reader import SegmentReader

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_SEGMENT_BYTES = 2**31 - 1
_CHUNK_BYTES = 8 * 1024 * 1024
"""Large, so that what is done once a chunk does not count."""

BatchListener = Callable[["Buffer", BatchTable], Iterable[AbortedTransaction]]
"""Takes the sound batches of a chunk (buffer index = position - the chunk's first position), in order; gives the
transactions that their markers aborted."""


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


class _Walk:
    """What the walk over a segment gathers."""

    def __init__(self, base_offset: int, index_interval_bytes: int) -> None:
        self.base_offset = base_offset
        self.builder = IndexBuilder(base_offset, index_interval_bytes)
        self.entries: list[Entries] = []
        self.aborted: list[AbortedTransaction] = []
        self.size = 0
        self.batches = 0
        self.end_offset = base_offset

    def add(self, table: BatchTable) -> None:
        self.entries.append(self.builder.add(table))
        self.size = int(table.position[-1]) + int(table.size[-1])
        self.end_offset = int(table.last_offset[-1]) + 1
        self.batches += len(table)

    def offset_index(self) -> bytes:
        return offset_index_bytes(self.base_offset, self.entries)

    def time_index(self) -> bytes:
        return time_index_bytes(self.base_offset, self.entries, self.builder.largest)


def recover_segment(
    fs: FileSystem,
    directory: Path,
    base_offset: int,
    *,
    index_interval_bytes: int,
    on_batches: BatchListener,
    was_flushed: bool = False,
) -> RecoveredSegment:
    """Recover the segment. StorageError if a sound batch's offset does not fit, or the file is larger than 2 GiB.

    ``was_flushed``: no recovery point says that it has to be recovered, so step 1 sees to it that a crash does not
    leave it half rebuilt for good.
    """
    index_path = segment_file(directory, base_offset, FileKind.INDEX)
    if was_flushed:
        fs.remove(index_path, missing_ok=True)
    walk = _Walk(base_offset, index_interval_bytes)
    emptied = False
    with SegmentReader(fs, directory, base_offset) as reader:
        size_before = reader.size
        if size_before > MAX_SEGMENT_BYTES:
            raise StorageError(f"{size_before} bytes are more than a segment can hold (2 GiB)", path=reader.path)
        try:
            _walk_batches(reader, walk, on_batches)
            time_index = walk.time_index()
        except InvalidOffsetError:
            emptied = True
            walk = _Walk(base_offset, index_interval_bytes)
            time_index = walk.time_index()
    if walk.size < size_before:
        with fs.open(segment_file(directory, base_offset, FileKind.LOG), write=True) as file:
            file.truncate(walk.size)
    _write(fs, segment_file(directory, base_offset, FileKind.TIME_INDEX), time_index)
    transactions = segment_file(directory, base_offset, FileKind.TXN_INDEX)
    if walk.aborted or fs.exists(transactions):
        _write(fs, transactions, encode_transactions(walk.aborted))
    _write(fs, index_path, walk.offset_index())
    return RecoveredSegment(
        base_offset=base_offset,
        end_offset=walk.end_offset,
        size=walk.size,
        cut_bytes=size_before - walk.size,
        batches=walk.batches,
        emptied=emptied,
    )


def sync_segment(fs: FileSystem, directory: Path, base_offset: int) -> None:
    """fsync a segment's files as they are: the log first, then its indexes."""
    for kind in SEGMENT_KINDS:
        try:
            with fs.open(segment_file(directory, base_offset, kind), write=True) as file:
                file.sync()
        except FileMissingError:
            if kind is FileKind.LOG:
                raise


def _walk_batches(reader: SegmentReader, walk: _Walk, on_batches: BatchListener) -> None:
    for buffer, table, _ in reader.chunks(0, verify_crc=True, chunk_bytes=_CHUNK_BYTES):
        if not len(table):
            return
        sound = table if table.summary.crcs_ok else table.take(slice(0, int(np.argmin(table.crc_ok))))
        if len(sound):
            try:
                walk.add(sound)
            except InvalidOffsetError:
                raise
            except StorageError as error:
                raise StorageError(
                    error.message, path=reader.path, position=error.position, offset=error.offset
                ) from None
            walk.aborted.extend(on_batches(buffer, sound))
        if len(sound) < len(table):
            return


def _write(fs: FileSystem, path: Path, data: bytes) -> None:
    with fs.open(path, create=True) as file:
        if data:
            file.pwrite(data, 0)
        file.truncate(len(data))
