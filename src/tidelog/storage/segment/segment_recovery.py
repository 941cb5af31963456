"""Make one segment whole again from its ``.log``: cut what is not a sound batch, rebuild the three indexes.

Steps, and what a crash after each leaves:

1. ``.index`` is removed: a segment without it is recovered again, whatever the recovery point says.
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
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable
from tidelog.model import FileMissingError, InvalidOffsetError, StorageError
from tidelog.storage.fs import FileSystem
from tidelog.storage.index import AbortedTransaction, encode_transactions
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, segment_file
from tidelog.storage.segment.index_builder import IndexBuilder, OffsetEntries, TimeEntries
from tidelog.storage.segment.segment_reader import SegmentReader

if TYPE_CHECKING:
    from typing_extensions import Buffer

MAX_RELATIVE_OFFSET = 2**31 - 1

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
        self.builder = IndexBuilder(base_offset, index_interval_bytes)
        self.offset_entries: list[OffsetEntries] = []
        self.time_entries: list[TimeEntries] = []
        self.aborted: list[AbortedTransaction] = []
        self.size = 0
        self.batches = 0
        self.end_offset = base_offset

    def add(self, table: BatchTable) -> None:
        entries = self.builder.add(table)
        self.offset_entries.append(entries.offset_entries)
        self.time_entries.append(entries.time_entries)
        self.size = int(table.position[-1]) + int(table.size[-1])
        self.end_offset = int(table.last_offset[-1]) + 1
        self.batches += len(table)

    def finish(self) -> None:
        self.time_entries.append(self.builder.final_time_entry())


def recover_segment(
    fs: FileSystem,
    directory: Path,
    base_offset: int,
    *,
    index_interval_bytes: int,
    on_batches: BatchListener,
) -> RecoveredSegment:
    """Recover the segment. StorageError if a sound batch's offset does not fit, or the file is larger than 2 GiB."""
    index_path = segment_file(directory, base_offset, FileKind.INDEX)
    fs.remove(index_path, missing_ok=True)
    walk = _Walk(base_offset, index_interval_bytes)
    emptied = False
    with SegmentReader(fs, directory, base_offset) as reader:
        size_before = reader.size
        try:
            _walk_batches(reader, walk, on_batches)
            walk.finish()
        except InvalidOffsetError:
            emptied = True
            walk = _Walk(base_offset, index_interval_bytes)
    if walk.size < size_before:
        with fs.open(segment_file(directory, base_offset, FileKind.LOG), write=True) as file:
            file.truncate(walk.size)
    _write(fs, segment_file(directory, base_offset, FileKind.TIME_INDEX), walk.time_entries)
    transactions = segment_file(directory, base_offset, FileKind.TXN_INDEX)
    if walk.aborted or fs.exists(transactions):
        _write(fs, transactions, [np.frombuffer(encode_transactions(walk.aborted), np.uint8)])
    _write(fs, index_path, walk.offset_entries)
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
    for buffer, table in reader.chunks(0, verify_crc=True):
        if not len(table):
            return
        sound = table if table.crc_ok.all() else table.take(slice(0, int(np.argmin(table.crc_ok))))
        if len(sound):
            _require_offsets_in_range(reader, sound)
            walk.add(sound)
            walk.aborted.extend(on_batches(buffer, sound))
        if len(sound) < len(table):
            return


def _require_offsets_in_range(reader: SegmentReader, table: BatchTable) -> None:
    relative = table.last_offset - reader.base_offset
    if int(relative.min()) >= 0 and int(relative.max()) <= MAX_RELATIVE_OFFSET:
        return
    row = int(np.flatnonzero((relative < 0) | (relative > MAX_RELATIVE_OFFSET))[0])
    raise StorageError(
        f"a batch ends at offset {int(table.last_offset[row])}, not within 31 bits above the segment's base offset",
        path=reader.path,
        position=int(table.position[row]),
        offset=int(table.base_offset[row]),
    )


def _write(fs: FileSystem, path: Path, parts: Iterable[npt.NDArray[Any]]) -> None:
    data = b"".join(part.tobytes() for part in parts)
    with fs.open(path, create=True) as file:
        file.truncate(0)
        if data:
            file.pwrite(data, 0)
