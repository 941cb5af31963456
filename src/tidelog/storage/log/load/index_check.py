"""Do a segment's indexes contradict themselves? A look at their sizes and ends only; reading changes nothing.

What is asked, per kind (IndexCorruptError in ``storage/index`` says it in words): the size is a multiple of the entry
size; the last offset is not below the base offset; the last timestamp is not below the first; no transaction ended
below the base offset. Preallocated zeros pass in ``.index`` and fail in ``.timeindex`` that has entries.

After an orderly stop nothing wrote to the indexes since they were trimmed and synced, so only their sizes are asked for
(``misshapen_indexes``), which opens none of them: most of the time of a start with many logs would go there. Kafka
since 4.1 asks for less, whatever the stop: only whether there is an ``.index``, and for the transactions.
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

_ENTRY_SIZES = {FileKind.INDEX: OffsetIndexReader.ENTRY_SIZE, FileKind.TIME_INDEX: TimeIndexReader.ENTRY_SIZE}
_SMALL_BYTES = 4096
"""Read at once: a second call costs more."""


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


def misshapen_indexes(
    fs: FileSystem, directory: Path, segments: Iterable[SegmentFiles]
) -> dict[int, frozenset[FileKind]]:
    """The indexes whose size is no multiple of their entries', and the transaction indexes that contradict themselves.

    The file system is asked for sizes that the listing does not have.
    """
    found = {}
    for segment in segments:
        bad = []
        for kind in segment.kinds:
            entry_size = _ENTRY_SIZES.get(kind)
            if entry_size is not None:
                size = segment.sizes.get(kind, -1)
                if size < 0:
                    size = fs.stat(segment.path(directory, kind)).size
                if size % entry_size:
                    bad.append(kind)
            elif kind is FileKind.TXN_INDEX and not _is_sound(fs, segment.path(directory, kind), kind, segment):
                bad.append(kind)
        if bad:
            found[segment.base_offset] = frozenset(bad)
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
    """The first and the last entry, with what is too much at the end of the file; or all of it."""
    with fs.open(path) as file:
        size = file.size
        if size <= _SMALL_BYTES:
            return file.pread(size, 0) if size else b""
        tail = entry_size + size % entry_size
        return file.pread(entry_size, 0) + file.pread(tail, size - tail)
