"""The segments that loading must recover, decided from names, sizes, indexes and the recovery point.

==========================  =====================  ==========================  ====================================
a segment's index           clean shutdown         unclean shutdown, the       unclean shutdown, the recovery point
                                                   recovery point is in a      is in this segment or below it
                                                   later segment
==========================  =====================  ==========================  ====================================
``.index`` missing          INDEX_MISSING          INDEX_MISSING               UNFLUSHED (``index_lost``)
an index is invalid         INDEX_CORRUPT          INDEX_CORRUPT               UNFLUSHED (``index_lost`` if it is the
                                                                               ``.txnindex``)
else                        kept                   kept                        UNFLUSHED
==========================  =====================  ==========================  ====================================

``index_lost`` has one effect. Kafka recovers this segment while it lists the files, before it looks for unflushed
segments. It therefore does not notice a truncated tail, and keeps the segments after it. We end with the same files. A
missing ``.timeindex`` alone is no error: an empty one is created.

An index is invalid if it contradicts itself. Only its size and ends are read. The size must be a multiple of the entry
size. The last offset must not be below the base offset, nor the last timestamp below the first one, and no transaction
may end below the base offset. IndexCorruptError in ``storage/index`` names the failed check. Preallocated zeros pass in
``.index``, but fail in a ``.timeindex`` with entries.

After a clean shutdown, offset and time indexes were trimmed and synced and have not changed since. Only their sizes are
checked then (``indexes_of_wrong_size``): opening them would take most of the start time of a broker with many logs.
Kafka 4.1 checks less after any shutdown: that ``.index`` exists, and the transaction index.
Source: Kafka's ``LogLoader`` and ``LogSegment.sanityCheck``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import IndexCorruptError
from tidelog.storage.fs import FileSystem, read_whole
from tidelog.storage.index import OffsetIndexReader, TimeIndexReader, TransactionIndexReader
from tidelog.storage.log.load.listing import PartitionListing, SegmentFiles
from tidelog.storage.segment.file_names import FileKind

_ENTRY_SIZES = {FileKind.INDEX: OffsetIndexReader.ENTRY_SIZE, FileKind.TIME_INDEX: TimeIndexReader.ENTRY_SIZE}
_SMALL_BYTES = 4096
"""A file of at most this size is read with one call: a second one costs more."""
_EMPTY: Mapping[str, bytes] = {}
_ALL_INDEXES = frozenset({FileKind.INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX})
TXN_INDEX_ALONE = frozenset({FileKind.TXN_INDEX})


class RecoveryReason(enum.StrEnum):
    UNFLUSHED = "unflushed"
    INDEX_MISSING = "index missing"
    INDEX_CORRUPT = "index corrupt"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentToRecover:
    base_offset: int
    reason: RecoveryReason
    index_lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPlan:
    """The segments to recover and the time indexes to create, with ascending base offsets."""

    recover: tuple[SegmentToRecover, ...]
    new_time_indexes: tuple[int, ...]
    """Kept segments without a ``.timeindex``."""

    @property
    def base_offsets(self) -> frozenset[int]:
        return frozenset(segment.base_offset for segment in self.recover)


def plan_recovery(
    fs: FileSystem,
    directory: Path,
    listing: PartitionListing,
    *,
    clean_shutdown: bool,
    recovery_point: int,
    unchecked: frozenset[int] = frozenset(),
) -> LoadPlan:
    """Return the segments that loading will recover in a settled directory. Opens indexes, changes nothing.

    The indexes of ``unchecked`` segments are not checked, because their files do not have the final name yet.
    """
    checked = [segment for segment in listing.segments if segment.base_offset not in unchecked]
    if clean_shutdown:
        corrupt = indexes_of_wrong_size(fs, directory, checked)
    else:
        first = first_unflushed_base(listing.base_offsets, recovery_point)
        flushed = [segment for segment in checked if first is None or segment.base_offset < first]
        corrupt = corrupt_indexes(fs, directory, flushed, _ALL_INDEXES, listing.index_ends)
        corrupt |= corrupt_indexes(fs, directory, checked[len(flushed) :], TXN_INDEX_ALONE)
    return decide_recovery(listing, clean_shutdown=clean_shutdown, recovery_point=recovery_point, corrupt=corrupt)


def decide_recovery(
    listing: PartitionListing,
    *,
    clean_shutdown: bool,
    recovery_point: int,
    corrupt: Mapping[int, frozenset[FileKind]],
) -> LoadPlan:
    """Decide the recovery. ``corrupt`` holds the invalid indexes by their segment's base offset."""
    first_unflushed = None if clean_shutdown else first_unflushed_base(listing.base_offsets, recovery_point)
    recover, new_time_indexes = [], []
    for segment in listing.segments:
        base = segment.base_offset
        bad = corrupt.get(base, frozenset())
        missing = FileKind.INDEX not in segment.kinds
        if first_unflushed is not None and base >= first_unflushed:
            lost = missing or FileKind.TXN_INDEX in bad
            recover.append(SegmentToRecover(base_offset=base, reason=RecoveryReason.UNFLUSHED, index_lost=lost))
        elif missing or bad:
            reason = RecoveryReason.INDEX_MISSING if missing else RecoveryReason.INDEX_CORRUPT
            recover.append(SegmentToRecover(base_offset=base, reason=reason, index_lost=True))
        elif FileKind.TIME_INDEX not in segment.kinds:
            new_time_indexes.append(base)
    return LoadPlan(recover=tuple(recover), new_time_indexes=tuple(new_time_indexes))


def first_unflushed_base(base_offsets: Iterable[int], recovery_point: int) -> int | None:
    """Return the base of the segment that holds the recovery point, or the first segment's if all lie above it."""
    bases = sorted(base_offsets)
    if not bases:
        return None
    return max((base for base in bases if base <= recovery_point), default=bases[0])


def corrupt_indexes(
    fs: FileSystem,
    directory: Path,
    segments: Iterable[SegmentFiles],
    kinds: frozenset[FileKind],
    ends: Mapping[str, bytes] = _EMPTY,
) -> dict[int, frozenset[FileKind]]:
    """Return the invalid indexes of ``kinds`` by base offset; segments without any are left out.

    ``ends`` are ``PartitionListing.index_ends``. Indexes that are missing there are read.
    """
    found = {}
    for segment in segments:
        bad = frozenset(
            kind
            for kind in kinds & segment.kinds
            if not _is_sound(fs, segment.path(directory, kind), kind, segment, ends)
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
            elif kind is FileKind.TXN_INDEX and not _is_sound(fs, segment.path(directory, kind), kind, segment, _EMPTY):
                bad.append(kind)
        if bad:
            found[segment.base_offset] = frozenset(bad)
    return found


def _is_sound(
    fs: FileSystem, path: Path, kind: FileKind, segment: SegmentFiles, known_ends: Mapping[str, bytes]
) -> bool:
    base_offset = segment.base_offset
    try:
        match kind:
            case FileKind.INDEX:
                ends = _ends(fs, path, OffsetIndexReader.ENTRY_SIZE, known_ends)
                OffsetIndexReader(ends, base_offset).sanity_check()
            case FileKind.TIME_INDEX:
                ends = _ends(fs, path, TimeIndexReader.ENTRY_SIZE, known_ends)
                TimeIndexReader(ends, base_offset).sanity_check()
            case FileKind.TXN_INDEX:
                TransactionIndexReader(read_whole(fs, path), segment.base_offset).sanity_check()
    except IndexCorruptError:
        return False
    return True


def _ends(fs: FileSystem, path: Path, entry_size: int, known: Mapping[str, bytes]) -> bytes:
    """Return the first and the last entry, with a partial entry at the end of the file; a small file completely."""
    if path.name in known:
        return known[path.name]
    with fs.open(path) as file:
        size = file.size
        if size <= _SMALL_BYTES:
            return file.pread(size, 0) if size else b""
        tail = entry_size + size % entry_size
        return file.pread(entry_size, 0) + file.pread(tail, size - tail)
