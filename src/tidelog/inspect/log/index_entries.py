"""The entries of a segment's indexes, counted from file sizes; no ``.log`` is read.

A finished index has no bytes but its entries, so its size gives their number. A broker preallocates the offset and the
time index of the active segment, and a kill leaves them so. Their entries are read up to the first zeros. The functions
only read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.storage.fs import FileSystem
from tidelog.storage.index import OffsetIndexReader, TimeIndexReader, TransactionIndexReader
from tidelog.storage.log.view.view_state import ViewSegment
from tidelog.storage.segment.file_names import FileKind
from tidelog.storage.segment.hints import read_offset_hints, read_time_hints


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexEntries:
    """The number of entries of each index; None if the file is missing."""

    offset: int | None
    time: int | None
    transaction: int | None


def count_index_entries(
    fs: FileSystem,
    directory: Path,
    segment: ViewSegment,
    sizes: Mapping[str, int],
    *,
    is_active: bool,
    index_bytes: int,
) -> IndexEntries:
    """Count a segment's entries. ``sizes`` are those of the directory's files, ``index_bytes`` is the size (in bytes)
    to which a broker preallocates an index (``segment.index.bytes``)."""

    def size_of(kind: FileKind) -> int | None:
        return sizes.get(segment.files.path(directory, kind).name)

    def is_preallocated(size: int, entry_bytes: int) -> bool:
        return is_active or size > index_bytes - entry_bytes

    offset, time, transaction = map(size_of, (FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX))
    base = segment.base_offset
    offsets = times = None
    if offset is not None:
        offsets = offset // OffsetIndexReader.ENTRY_SIZE
        if is_preallocated(offset, OffsetIndexReader.ENTRY_SIZE):
            path = segment.files.path(directory, FileKind.INDEX)
            offsets = len(read_offset_hints(fs, path, base, segment.size))
    if time is not None:
        times = time // TimeIndexReader.ENTRY_SIZE
        if is_preallocated(time, TimeIndexReader.ENTRY_SIZE):
            times = len(read_time_hints(fs, segment.files.path(directory, FileKind.TIME_INDEX), base))
    transactions = None if transaction is None else transaction // TransactionIndexReader.ENTRY_SIZE
    return IndexEntries(offset=offsets, time=times, transaction=transactions)
