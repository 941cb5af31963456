"""The cleanup of files that a crash left in a partition directory, before its segments are loaded.

The decision is pure and comes first, the changes follow. The table uses the groups of ``listing``:

==========================  =====================================================================================
``.deleted`` ``.cleaned``   removed, like invalid ``.swap`` files and ``.tmp`` files
valid ``.log.swap``         the files of every live offset in [smallest swap, end of the largest swap) are removed,
                            because the swaps replace them. A segment that was split into the swaps is removed too:
                            its base offset may be lower (it has as many bytes as the swaps, and ends where they end)
valid ``.swap`` of any      renamed to its final name
kind
index without ``.log``      removed, once the swaps are in place
==========================  =====================================================================================

Removals come before renames. A crash between them changes no decision in the table, so a repetition ends the same.
Source: Kafka's ``LogLoader`` (KAFKA-6264 for the invalid swaps).
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
"""Up to this size, walking all batch headers of a segment is faster than reading an index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupPlan:
    """The files to remove and to rename, as names in the order of execution."""

    removals: tuple[str, ...] = ()
    renames: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.removals or self.renames)


def plan_cleanup(listing: PartitionListing, replaced: range) -> CleanupPlan:
    """Decide the removals and renames. ``replaced`` comes from ``replaced_offsets``."""
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
    return CleanupPlan(removals=tuple(dict.fromkeys(removals)), renames=tuple(renames))


def replaced_offsets(fs: FileSystem, directory: Path, listing: PartitionListing) -> range:
    """Return the base offsets of segments that the swaps replace, empty without swaps. Reads files."""
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
    """Return the offset after the last batch of a trusted segment, or its base offset if it has no batch."""
    end = reader.base_offset
    start = 0 if reader.size <= _SMALL_BYTES else reader.position_of(2**63 - 1)
    for chunk in reader.chunks(start, verify_crc=False):
        if len(chunk.table):
            end = chunk.table.summary.last_offset + 1
    return end


def clean_up(fs: FileSystem, directory: Path, plan: CleanupPlan) -> None:
    """Remove and rename. To complete a swap, sync the directory between the steps (see ``segment_swap``)."""
    for name in plan.removals:
        fs.remove(directory / name, missing_ok=True)
    if plan.removals and plan.renames:
        fs.sync_dir(directory)
    logs = [names for names in plan.renames if names[1].endswith(FileKind.LOG.value)]
    for source, target in logs:
        fs.rename(directory / source, directory / target)
        fs.sync_dir(directory)
    for source, target in plan.renames:
        if (source, target) not in logs:
            fs.rename(directory / source, directory / target)
    if plan.renames:
        fs.sync_dir(directory)


def _live_files(listing: PartitionListing) -> Iterable[SegmentFileName]:
    for segment in listing.segments:
        for kind in sorted(segment.kinds):
            yield SegmentFileName(segment.base_offset, kind)
    for offset in listing.snapshots:
        yield SegmentFileName(offset, FileKind.SNAPSHOT)
    yield from listing.orphans
