"""The replacement of old segments by new ones. A crash leaves either the old or the new segments.

The new segments' files are complete and synced, with names that end in ``.cleaned``. These steps follow:

====  ==================================================  =========================================================
step  change                                              after a crash in it, loading finds
====  ==================================================  =========================================================
1     ``.cleaned`` becomes ``.swap``, the highest base    some ``.cleaned``, and every ``.swap`` at or above the
      offset first                                        lowest of them: removes both, the old segments stay
2     the old segments become ``.deleted``, ascending     every new segment as ``.swap``: removes the segments they
                                                          cover, then renames them
3     ``.swap`` is dropped from the names of the logs     some ``.swap`` logs: renames them
4     and from those of the indexes                       some ``.swap`` indexes: each follows its log
====  ==================================================  =========================================================

A segment's ``.log`` is renamed before its indexes: loading removes or renames an index that stayed behind. The
directory is synced between the steps, and in steps 1 and 3 after each segment, because a file system may reorder
renames. The ``.deleted`` files stay for their readers; the caller removes them later.
Source: Kafka's ``LocalLog.replaceSegments`` (KAFKA-6264).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidelog.storage.fs import FileSystem
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, FileState, segment_file


def swap_in(fs: FileSystem, directory: Path, new: Iterable[int], old: Iterable[int]) -> None:
    """Replace the segments at base offsets ``old`` by those at ``new``. Both may have the same base offset."""
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
    """Remove the existing files of segments in a state, their ``.log`` last."""
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
