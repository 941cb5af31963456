"""The metadata log files that an unfinished import left.

Only those files are removed, and links are never followed.
Another program may have written the directory: ``__cluster_metadata-0`` may be a link or hold any files. The files of a
metadata log are recognized by the names of the log, its snapshots and the quorum state. Thread rule: any thread.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelog.model import DirectoryError
from tidelog.server.metadata.kraft.quorum_state import QUORUM_STATE_FILE
from tidelog.server.metadata.kraft.snapshot import leftover_files
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.fs import TEMPORARY_SUFFIX, FileSystem
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId
from tidelog.storage.segment.file_names import SegmentFileName

_SMALL_FILES: Final = frozenset({QUORUM_STATE_FILE, PARTITION_METADATA_FILE, LEADER_EPOCH_CHECKPOINT})


def unfinished_metadata(fs: FileSystem, directory: Path) -> list[Path]:
    """Return the files that may be removed; none if the directory does not exist.

    Raise DirectoryError if it is a link, or has a file that does not belong to a metadata log.
    """
    if directory.is_symlink():
        raise DirectoryError(
            "it is a symbolic link, and its target must not be cleared: remove the link", path=directory
        )
    if not fs.exists(directory):
        return []
    unfinished = leftover_files(fs, directory)
    paths = [directory / name for name in fs.list_names(directory)]
    for path in paths:
        if path.is_symlink() or not (path in unfinished or _is_known(path.name)):
            raise DirectoryError(
                f"{path.name!r} is not a file of a metadata log, and a new log must begin here: move it elsewhere",
                path=directory,
            )
    return paths


def _is_known(name: str) -> bool:
    stem = name.removesuffix(TEMPORARY_SUFFIX)
    return stem in _SMALL_FILES or SegmentFileName.parse(stem) is not None or SnapshotId.parse(stem) is not None
