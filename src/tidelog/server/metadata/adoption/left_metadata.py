"""What an adoption that did not finish left of a metadata log: only its own files are removed, and never a link's.

Somebody else may have written the directory: ``__cluster_metadata-0`` may lead anywhere, and have anything in it. Files
are known by the names that the log, its snapshots and the quorum give them.
Called by: the survey, before anything is written, and the adoption that begins the log again. Thread rule: any.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tidelog.model import DirectoryError
from tidelog.server.metadata.kraft.quorum_state import QUORUM_STATE_FILE
from tidelog.server.metadata.kraft.snapshot import SnapshotId, left_overs
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.fs import FileSystem
from tidelog.storage.fs.atomic import TEMPORARY_SUFFIX
from tidelog.storage.segment.file_names import SegmentFileName

_SMALL_FILES: Final = frozenset({QUORUM_STATE_FILE, PARTITION_METADATA_FILE, LEADER_EPOCH_CHECKPOINT})


def left_metadata(fs: FileSystem, directory: Path) -> list[Path]:
    """The files that may be removed; none where there is no directory.

    DirectoryError where it is a link, or there is anything in it that is no file of a metadata log.
    """
    if directory.is_symlink():
        raise DirectoryError(
            "it is a link, and what it leads to is not the metadata's to clear: take the link away", path=directory
        )
    if not fs.exists(directory):
        return []
    unfinished = left_overs(fs, directory)
    paths = [directory / name for name in fs.list_names(directory)]
    for path in paths:
        if path.is_symlink() or not (path in unfinished or _is_known(path.name)):
            raise DirectoryError(
                f"{path.name!r} is no file of a metadata log, which has to begin anew here: move it elsewhere",
                path=directory,
            )
    return paths


def _is_known(name: str) -> bool:
    stem = name.removesuffix(TEMPORARY_SUFFIX)
    return stem in _SMALL_FILES or SegmentFileName.parse(stem) is not None or SnapshotId.parse(stem) is not None
