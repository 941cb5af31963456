"""A check of a segment's indexes for contradictions. It reads their sizes and ends only.

The size must be a multiple of the entry size. The last offset must not be below the base offset, nor the last timestamp
below the first one, and no transaction may end below the base offset. IndexCorruptError in ``storage/index`` names the
failed check. Preallocated zeros pass in ``.index``, but fail in a ``.timeindex`` with entries.

After a clean shutdown, offset and time indexes were trimmed and synced and have not changed since. Only their sizes are
checked then (``indexes_of_wrong_size``): opening them would take most of the start time of a broker with many logs.
Kafka 4.1 checks less after any shutdown: that ``.index`` exists, and the transaction index.
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
"""A file of at most this size is read with one call: a second one costs more."""


def corrupt_indexes(
    fs: FileSystem, directory: Path, segments: Iterable[SegmentFiles], kinds: frozenset[FileKind]
) -> dict[int, frozenset[FileKind]]:
    """Return the invalid indexes of ``kinds`` by base offset; segments without any are left out."""
    found = {}
    for segment in segments:
        bad = frozenset(
            kind for kind in kinds & segment.kinds if not _is_sound(fs, segment.path(directory, kind), kind, segment)
        )
        if bad:
            found[segment.base_offset] = bad
    return found


def indexes_of_wrong_size(
    fs: FileSystem, directory: Path, segments: Iterable[SegmentFiles]
) -> dict[int, frozenset[FileKind]]:
    """Return indexes whose size is no multiple of the entry size, and invalid transaction indexes.

    The file system is queried for sizes that the listing lacks.
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
    """Read the first and the last entry, with a partial entry at the end of the file; a small file completely."""
    with fs.open(path) as file:
        size = file.size
        if size <= _SMALL_BYTES:
            return file.pread(size, 0) if size else b""
        tail = entry_size + size % entry_size
        return file.pread(entry_size, 0) + file.pread(tail, size - tail)
