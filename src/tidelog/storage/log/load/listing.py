"""What lies in a partition directory, as one frozen value. Listing opens nothing and changes nothing.

The names alone say which segments there are, which files each has, and what a crash or a running broker left over.
What the leftovers mean (Kafka's ``LogLoader``):

==============================  ==================================================================
``.deleted``                    rubbish
``.cleaned``                    an unfinished result of cleaning or splitting: rubbish
``.swap`` at or above the       part of an unfinished split: rubbish (``invalid_swaps``)
smallest ``.cleaned``
other ``.log.swap``             a finished result that replaces the segments it covers (``swaps``)
other ``.swap`` without it      an index that follows its log to the final name (``swap_parts``)
index without ``.log``          rubbish (``orphans``)
``.tmp``                        an unfinished small file: rubbish
==============================  ==================================================================

Called by: the loader of a writer (which then settles the leftovers) and the view (which only takes them into account).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType

from tidelog.storage.fs import FileSystem
from tidelog.storage.segment.file_names import (
    OFFSET_DIGITS,
    SEGMENT_KINDS,
    SUFFIXES,
    FileKind,
    FileState,
    SegmentFileName,
    parse_offset,
    segment_file,
)

TEMPORARY_SUFFIX = ".tmp"
_UNKNOWN = -1
_Kinds = dict[int, dict[FileKind, int]]
"""The files of segments by base offset, each with its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """The files of one segment; ``kinds`` always has ``FileKind.LOG``."""

    base_offset: int
    sizes: Mapping[FileKind, int]
    """Bytes of each; -1 where they were not asked for, or it is no regular file."""
    state: FileState = FileState.LIVE

    @property
    def kinds(self) -> Set[FileKind]:
        return self.sizes.keys()

    def path(self, directory: Path, kind: FileKind) -> Path:
        return segment_file(directory, self.base_offset, kind, self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionListing:
    """One moment's names; every tuple ascends by offset, then by name."""

    segments: tuple[SegmentFiles, ...]
    swaps: tuple[SegmentFiles, ...] = ()
    swap_parts: tuple[SegmentFileName, ...] = ()
    """Indexes ``.swap`` whose ``.log`` has been renamed to its final name already."""
    invalid_swaps: tuple[SegmentFileName, ...] = ()
    cleaned: tuple[SegmentFileName, ...] = ()
    deleted: tuple[SegmentFileName, ...] = ()
    orphans: tuple[SegmentFileName, ...]
    snapshots: tuple[int, ...]
    """Offsets of the producer snapshots, ascending."""
    temporary: tuple[str, ...]
    others: tuple[str, ...]
    """Names that are none of the above: leader epochs, partition metadata, strangers, directories."""

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return tuple([segment.base_offset for segment in self.segments])

    @property
    def is_settled(self) -> bool:
        """Nothing was left over."""
        unsettled = self.swaps, self.swap_parts, self.invalid_swaps, self.cleaned, self.deleted
        return not (any(unsettled) or self.orphans or self.temporary)


def list_partition(fs: FileSystem, directory: Path) -> PartitionListing:
    """List a partition directory. FileMissingError, DirectoryError or StorageError if that fails."""
    return sort_names(fs.list_names(directory))


def list_with_sizes(fs: FileSystem, directory: Path) -> PartitionListing:
    """``list_partition`` with the size of every file."""
    sizes = fs.list_sizes(directory)
    return sort_names(sizes, sizes)


def sort_names(names: Iterable[str], sizes: Mapping[str, int] = MappingProxyType({})) -> PartitionListing:
    """Put names in their places; pure."""
    live: _Kinds = {}
    snapshots: list[int] = []
    unsettled: list[SegmentFileName] = []
    temporary: list[str] = []
    others: list[str] = []
    for digits, group in groupby(sorted(names), key=itemgetter(slice(OFFSET_DIGITS))):
        offset = parse_offset(digits)
        for name in group:
            known = SUFFIXES.get(name[OFFSET_DIGITS:])
            if offset is None or known is None:
                (temporary if name.endswith(TEMPORARY_SUFFIX) else others).append(name)
                continue
            kind, state = known
            if state is not FileState.LIVE:
                unsettled.append(SegmentFileName(offset, kind, state))
            elif kind is FileKind.SNAPSHOT:
                snapshots.append(offset)
            else:
                live.setdefault(offset, {})[kind] = sizes.get(name, _UNKNOWN)
    segments, orphans = _segments(live, FileState.LIVE)
    listing = PartitionListing(
        segments=segments,
        orphans=orphans,
        snapshots=tuple(snapshots),
        temporary=tuple(temporary),
        others=tuple(others),
    )
    return _with_unsettled(listing, unsettled) if unsettled else listing


def _with_unsettled(listing: PartitionListing, files: Iterable[SegmentFileName]) -> PartitionListing:
    """With the files that a directory has none of if it was left in order."""
    by_state: dict[FileState, list[SegmentFileName]] = defaultdict(list)
    for file in sorted(files):
        by_state[file.state].append(file)
    cleaned = by_state[FileState.CLEANED]
    first_cleaned = cleaned[0].offset if cleaned else None
    valid: _Kinds = defaultdict(dict)
    invalid: list[SegmentFileName] = []
    for file in by_state[FileState.SWAP]:
        if first_cleaned is not None and file.offset >= first_cleaned:
            invalid.append(file)
        elif file.kind in SEGMENT_KINDS:
            valid[file.offset][file.kind] = _UNKNOWN
    swaps, swap_parts = _segments(valid, FileState.SWAP)
    return replace(
        listing,
        swaps=swaps,
        swap_parts=swap_parts,
        invalid_swaps=tuple(invalid),
        cleaned=tuple(cleaned),
        deleted=tuple(by_state[FileState.DELETED]),
    )


def _segments(kinds: _Kinds, state: FileState) -> tuple[tuple[SegmentFiles, ...], tuple[SegmentFileName, ...]]:
    """The segments among files of one state, and the segment files that have no ``.log`` beside them."""
    whole, parts = [], []
    for offset, sizes in sorted(kinds.items()):
        if FileKind.LOG in sizes:
            whole.append(SegmentFiles(base_offset=offset, sizes=sizes, state=state))
        else:
            parts += [SegmentFileName(offset, kind, state) for kind in sorted(sizes)]
    return tuple(whole), tuple(parts)
