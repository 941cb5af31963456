"""Do a segment's indexes contradict themselves? A look at their sizes and ends only; reading changes nothing.

What is asked, per kind (IndexCorruptError in ``storage/index`` says it in words): the size is a multiple of the entry
size; the last offset is not below the base offset; the last timestamp is not below the first; no transaction ended
below the base offset. Preallocated zeros pass in ``.index`` and fail in ``.timeindex`` that has entries.
Called by: the loader and the recovery's planner.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidelog.model import IndexCorruptError
from tidelog.storage.fs import FileSystem, read_whole
from tidelog.storage.index import OffsetIndexReader, TimeIndexReader, TransactionIndexReader
from tidelog.storage.log.load.listing import SegmentFiles
from tidelog.storage.segment.file_names import FileKind


def corrupt_indexes(
    fs: FileSystem, directory: Path, segments: Iterable[SegmentFiles], kinds: frozenset[FileKind]
) -> dict[int, frozenset[FileKind]]:
    """The indexes of ``kinds`` that contradict themselves, by base offset; segments without any are left out."""
    found = {}
    for segment in segments:
        bad = frozenset(
            kind for kind in kinds & segment.kinds if not _is_sound(fs, segment.path(directory, kind), kind, segment)
        )
        if bad:
            found[segment.base_offset] = bad
    return found


def _is_sound(fs: FileSystem, path: Path, kind: FileKind, segment: SegmentFiles) -> bool:
    try:
        match kind:
            case FileKind.INDEX:
                OffsetIndexReader(_ends(fs, path, OffsetIndexReader.ENTRY_SIZE), segment.base_offset).sanity_check()
            case FileKind.TIME_INDEX:
                TimeIndexReader(_ends(fs, path, TimeIndexReader.ENTRY_SIZE), segment.base_offset).sanity_check()
            case FileKind.TXN_INDEX:
                TransactionIndexReader(read_whole(fs, path), segment.base_offset).sanity_check()
    except IndexCorruptError:
        return False
    return True


def _ends(fs: FileSystem, path: Path, entry_size: int) -> bytes:
    """The first and the last entry, with what is too much at the end of the file."""
    with fs.open(path) as file:
        size = file.size
        tail = entry_size + size % entry_size
        if size <= entry_size + tail:
            return file.pread(size, 0)
        return file.pread(entry_size, 0) + file.pread(tail, size - tail)
