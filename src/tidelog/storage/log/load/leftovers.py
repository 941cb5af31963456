"""What a crash left in a partition directory, and how it is settled before the segments are loaded.

Decided first (pure), done after. The table, by what ``listing`` found:

==========================  =====================================================================================
``.deleted`` ``.cleaned``   removed, and so are invalid ``.swap`` files and ``.tmp`` files
valid ``.log.swap``         the files of every live offset in [smallest swap, end of the largest swap) are removed:
                            the swaps replace them; and so are those of a segment that was split into the swaps, whose
                            base offset may be lower (they hold as many bytes, and end where it ends)
valid ``.swap`` of any      renamed to its final name
kind
index without ``.log``      removed, once the swaps are in place
==========================  =====================================================================================

Order: removals, then renames. A crash in between changes nothing in the table, so doing it again ends the same.
Called by: the loader and the recovery's planner. Source: Kafka's ``LogLoader`` (KAFKA-6264 for the invalid swaps).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.listing import PartitionListing
from tidelog.storage.segment.file_names import FileKind, FileState, SegmentFileName
from tidelog.storage.segment.segment_reader import SegmentReader

_SMALL_BYTES = 256 * 1024
"""A log of which all batch headers are walked sooner than an index is read and believed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """Names in the directory, in the order in which they are to be dealt with."""

    removals: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.removals or self.renames)


def decide_leftovers(listing: PartitionListing, replaced: range) -> Leftovers:
    """``replaced``: see ``replaced_offsets``."""
    removals = [str(file) for file in (*listing.deleted, *listing.invalid_swaps, *listing.cleaned)]
    removals += listing.temporary
    swaps = [
        SegmentFileName(segment.base_offset, kind, FileState.SWAP)
        for segment in listing.swaps
        for kind in sorted(segment.kinds)
    ]
    if replaced:
        removals += [str(file) for file in _live_files(listing) if file.offset in replaced]
    renames = [(str(file), str(file._replace(state=FileState.LIVE))) for file in (*swaps, *listing.swap_parts)]
    settled = {target for _, target in renames if target.endswith(FileKind.LOG.value)}
    removals += [str(file) for file in listing.orphans if str(file._replace(kind=FileKind.LOG)) not in settled]
    return Leftovers(removals=tuple(dict.fromkeys(removals)), renames=tuple(renames))


def replaced_offsets(fs: FileSystem, directory: Path, listing: PartitionListing) -> range:
    """The base offsets of the segments that the swapped-in ones replace; empty where there are none. Reads files."""
    if not listing.swaps:
        return range(0)
    ends, size = [], 0
    for segment in listing.swaps:
        with SegmentReader(fs, directory, segment.base_offset, state=FileState.SWAP) as reader:
            ends.append(read_end_offset(reader))
            size += reader.size
    start = min(segment.base_offset for segment in listing.swaps)
    before = [base for base in listing.base_offsets if base < start]
    if before:
        with SegmentReader(fs, directory, before[-1]) as reader:
            if reader.size == size and read_end_offset(reader) == max(ends):
                start = before[-1]
    return range(start, max(ends))


def read_end_offset(reader: SegmentReader) -> int:
    """The offset after the last batch of a segment that is trusted; its base offset if it has none."""
    end = reader.base_offset
    start = 0 if reader.size <= _SMALL_BYTES else reader.position_of(2**63 - 1)
    for chunk in reader.chunks(start, verify_crc=False):
        if len(chunk.table):
            end = chunk.table.summary.last_offset + 1
    return end


def settle_leftovers(fs: FileSystem, directory: Path, leftovers: Leftovers) -> None:
    """Remove and rename. Where a swap is completed, the directory is synced between the steps (``segment_swap``)."""
    for name in leftovers.removals:
        fs.remove(directory / name, missing_ok=True)
    if leftovers.removals and leftovers.renames:
        fs.sync_dir(directory)
    logs = [names for names in leftovers.renames if names[1].endswith(FileKind.LOG.value)]
    for source, target in logs:
        fs.rename(directory / source, directory / target)
        fs.sync_dir(directory)
    for source, target in leftovers.renames:
        if (source, target) not in logs:
            fs.rename(directory / source, directory / target)
    if leftovers.renames:
        fs.sync_dir(directory)


def _live_files(listing: PartitionListing) -> Iterable[SegmentFileName]:
    for segment in listing.segments:
        for kind in sorted(segment.kinds):
            yield SegmentFileName(segment.base_offset, kind)
    for offset in listing.snapshots:
        yield SegmentFileName(offset, FileKind.SNAPSHOT)
    yield from listing.orphans
