"""Put new segments in the place of old ones, so that a crash at any moment leaves the one or the other.

The new segments lie whole and synced beside the log, their files named ``.cleaned``. Then, in this order:

====  ==================================================  =========================================================
step  what                                                a crash in it, and what the next loading makes of it
====  ==================================================  =========================================================
1     ``.cleaned`` becomes ``.swap``, the highest base    some ``.cleaned`` are left, and every ``.swap`` lies at or
      offset first                                        above the lowest of them: both are removed, the old stay
2     the old segments become ``.deleted``, ascending     every new segment is a ``.swap``: what they cover is
                                                          removed, they are renamed
3     ``.swap`` is dropped from the names of the logs     those that are left are renamed
4     and from those of the indexes                       the same: each follows its log
====  ==================================================  =========================================================

Of a segment's files the ``.log`` is renamed first: an index without it is rubbish or follows it, never the other way.
The directory is synced between the steps, and in steps 1 and 3 after each segment, so that they keep their order on a
disk that changes that of names. The ``.deleted`` files stay, for readers that are at them; whoever calls removes them
in the end. Called by: the overflow split. Source: Kafka's ``LocalLog.replaceSegments`` (KAFKA-6264).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidelog.storage.fs import FileSystem
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, FileState, segment_file


def swap_in(fs: FileSystem, directory: Path, new: Iterable[int], old: Iterable[int]) -> None:
    """Replace the segments with base offsets ``old`` by those with base offsets ``new``; both may have the same one."""
    ascending = sorted(new)
    for base_offset in reversed(ascending):
        _rename(fs, directory, base_offset, FileState.CLEANED, FileState.SWAP)
        fs.sync_dir(directory)
    for base_offset in sorted(old):
        _rename(fs, directory, base_offset, FileState.LIVE, FileState.DELETED)
    fs.sync_dir(directory)
    for base_offset in ascending:
        _rename(fs, directory, base_offset, FileState.SWAP, FileState.LIVE, SEGMENT_KINDS[:1])
        fs.sync_dir(directory)
    for base_offset in ascending:
        _rename(fs, directory, base_offset, FileState.SWAP, FileState.LIVE, SEGMENT_KINDS[1:])
    fs.sync_dir(directory)


def remove_files(fs: FileSystem, directory: Path, base_offsets: Iterable[int], state: FileState) -> None:
    """Remove what there is of segments in a state, their ``.log`` last."""
    for base_offset in base_offsets:
        for kind in reversed(SEGMENT_KINDS):
            fs.remove(segment_file(directory, base_offset, kind, state), missing_ok=True)


def _rename(
    fs: FileSystem,
    directory: Path,
    base_offset: int,
    source: FileState,
    target: FileState,
    kinds: Iterable[FileKind] = SEGMENT_KINDS,
) -> None:
    for kind in kinds:
        path = segment_file(directory, base_offset, kind, source)
        if fs.exists(path):
            fs.rename(path, segment_file(directory, base_offset, kind, target))
