"""The files of a partition directory as one frozen value. Listing opens and changes nothing.

The names alone determine the segments, the files of each, and the files that a crash or a running broker left behind.
They mean the same as in Kafka's ``LogLoader``:

==============================  ==================================================================
``.deleted``                    to be removed
``.cleaned``                    an unfinished result of cleaning or splitting: to be removed
``.swap`` at or above the       part of an unfinished split: to be removed (``invalid_swaps``)
smallest ``.cleaned``
other ``.log.swap``             a finished result that replaces the segments it covers (``swaps``)
other ``.swap`` without it      an index that follows its log to the final name (``swap_parts``)
index without ``.log``          to be removed (``orphans``)
``.tmp``                        an unfinished small file: to be removed
==============================  ==================================================================

A writer's loader settles these files. The view only takes them into account.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from tidelog.storage.fs import TEMPORARY_SUFFIX, File, FileSystem
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

_UNKNOWN = -1
_EMPTY: Mapping[str, Any] = {}
_Kinds = dict[int, dict[FileKind, int]]
"""Files of segments by base offset, each with its size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """The files of one segment; ``kinds`` always has ``FileKind.LOG``."""

    base_offset: int
    sizes: Mapping[FileKind, int]
    """Size of each file in bytes; -1 if it was not queried, or if the path is no regular file."""
    state: FileState = FileState.LIVE

    @property
    def kinds(self) -> Set[FileKind]:
        return self.sizes.keys()

    def path(self, directory: Path, kind: FileKind) -> Path:
        return segment_file(directory, self.base_offset, kind, self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionListing:
    """The names at one moment. Every tuple ascends by offset, then by name."""

    segments: tuple[SegmentFiles, ...]
    swaps: tuple[SegmentFiles, ...] = ()
    swap_parts: tuple[SegmentFileName, ...] = ()
    """Index files ``.swap`` whose ``.log`` has its final name already."""
    invalid_swaps: tuple[SegmentFileName, ...] = ()
    cleaned: tuple[SegmentFileName, ...] = ()
    deleted: tuple[SegmentFileName, ...] = ()
    orphans: tuple[SegmentFileName, ...]
    snapshots: tuple[int, ...]
    """Ascending offsets of the producer snapshots."""
    temporary: tuple[str, ...]
    others: tuple[str, ...]
    """All other names: leader epochs, partition metadata, foreign files, directories."""
    contents: Mapping[str, bytes] = field(default_factory=dict)
    """The bytes of small files that were read with the names."""
    end_offset: int = _UNKNOWN
    """The end offset of the last segment, -1 if it was not read."""
    index_ends: Mapping[str, bytes] = field(default_factory=dict)
    """The first and the last entry of indexes that were read with the names, and a partial entry after it."""
    logs: Mapping[int, File] = field(default_factory=dict)
    """``.log`` files of small segments that were read already, by base offset."""

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return tuple([segment.base_offset for segment in self.segments])

    @property
    def is_settled(self) -> bool:
        """True if a crash left no files behind."""
        unsettled = self.swaps, self.swap_parts, self.invalid_swaps, self.cleaned, self.deleted
        return not (any(unsettled) or self.orphans or self.temporary)


def list_partition(fs: FileSystem, directory: Path) -> PartitionListing:
    """List a partition directory. Raise FileMissingError, DirectoryError or StorageError if that fails."""
    return sort_names(fs.list_names(directory))


def list_with_sizes(fs: FileSystem, directory: Path) -> PartitionListing:
    """List a partition directory with the size of every file; see ``list_partition``."""
    sizes = fs.list_sizes(directory)
    return sort_names(sizes, sizes)


def sort_names(
    names: Iterable[str],
    sizes: Mapping[str, int] = _EMPTY,
    contents: Mapping[str, bytes] = _EMPTY,
    end_offset: int = _UNKNOWN,
    index_ends: Mapping[str, bytes] = _EMPTY,
) -> PartitionListing:
    """Sort names into a listing. Pure."""
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
        contents=contents,
        end_offset=end_offset,
        index_ends=index_ends,
    )
    return _with_unsettled(listing, unsettled) if unsettled else listing


def _with_unsettled(listing: PartitionListing, files: Iterable[SegmentFileName]) -> PartitionListing:
    """Add the files that exist only after an unclean shutdown or while a broker works."""
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
    """Return the segments among files of one state, and the segment files without a ``.log``."""
    whole, parts = [], []
    for offset, sizes in sorted(kinds.items()):
        if FileKind.LOG in sizes:
            whole.append(SegmentFiles(base_offset=offset, sizes=sizes, state=state))
        else:
            parts += [SegmentFileName(offset, kind, state) for kind in sorted(sizes)]
    return tuple(whole), tuple(parts)
