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
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidelog.storage.fs import FileSystem
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, FileState, SegmentFileName, segment_file

TEMPORARY_SUFFIX = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFiles:
    """The files of one segment; ``kinds`` always has ``FileKind.LOG``."""

    base_offset: int
    kinds: frozenset[FileKind]
    state: FileState = FileState.LIVE

    def path(self, directory: Path, kind: FileKind) -> Path:
        return segment_file(directory, self.base_offset, kind, self.state)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionListing:
    """One moment's names; every tuple ascends by offset, then by name."""

    segments: tuple[SegmentFiles, ...]
    swaps: tuple[SegmentFiles, ...]
    swap_parts: tuple[SegmentFileName, ...]
    """Indexes ``.swap`` whose ``.log`` has been renamed to its final name already."""
    invalid_swaps: tuple[SegmentFileName, ...]
    cleaned: tuple[SegmentFileName, ...]
    deleted: tuple[SegmentFileName, ...]
    orphans: tuple[SegmentFileName, ...]
    snapshots: tuple[int, ...]
    """Offsets of the producer snapshots, ascending."""
    temporary: tuple[str, ...]
    others: tuple[str, ...]
    """Names that are none of the above: leader epochs, partition metadata, strangers, directories."""

    @property
    def base_offsets(self) -> tuple[int, ...]:
        return tuple(segment.base_offset for segment in self.segments)


def list_partition(fs: FileSystem, directory: Path) -> PartitionListing:
    """List a partition directory. FileMissingError, DirectoryError or StorageError if that fails."""
    return sort_names(fs.list_names(directory))


def sort_names(names: Iterable[str]) -> PartitionListing:
    """Put names in their places; pure."""
    parsed: list[SegmentFileName] = []
    temporary, others = [], []
    for name in sorted(names):
        file = SegmentFileName.parse(name)
        if file is not None:
            parsed.append(file)
        elif name.endswith(TEMPORARY_SUFFIX):
            temporary.append(name)
        else:
            others.append(name)
    by_state: dict[FileState, list[SegmentFileName]] = defaultdict(list)
    for file in parsed:
        by_state[file.state].append(file)
    cleaned = by_state[FileState.CLEANED]
    first_cleaned = min((file.offset for file in cleaned), default=None)
    valid: list[SegmentFileName] = []
    invalid: list[SegmentFileName] = []
    for file in by_state[FileState.SWAP]:
        (valid if first_cleaned is None or file.offset < first_cleaned else invalid).append(file)
    swaps, swap_parts = _segments(valid, FileState.SWAP)
    segments, orphans = _segments(by_state[FileState.LIVE], FileState.LIVE)
    return PartitionListing(
        segments=segments,
        swaps=swaps,
        swap_parts=swap_parts,
        invalid_swaps=tuple(sorted(invalid)),
        cleaned=tuple(sorted(cleaned)),
        deleted=tuple(sorted(by_state[FileState.DELETED])),
        orphans=orphans,
        snapshots=tuple(file.offset for file in by_state[FileState.LIVE] if file.kind is FileKind.SNAPSHOT),
        temporary=tuple(temporary),
        others=tuple(others),
    )


def _segments(
    files: Iterable[SegmentFileName], state: FileState
) -> tuple[tuple[SegmentFiles, ...], tuple[SegmentFileName, ...]]:
    """The segments among files of one state, and the segment files that have no ``.log`` beside them."""
    kinds: dict[int, set[FileKind]] = defaultdict(set)
    for file in files:
        if file.kind in SEGMENT_KINDS:
            kinds[file.offset].add(file.kind)
    whole = tuple(
        SegmentFiles(base_offset=offset, kinds=frozenset(kinds[offset]), state=state)
        for offset in sorted(kinds)
        if FileKind.LOG in kinds[offset]
    )
    parts = tuple(
        SegmentFileName(offset, kind, state)
        for offset in sorted(kinds)
        if FileKind.LOG not in kinds[offset]
        for kind in sorted(kinds[offset])
    )
    return whole, parts
