"""Rename a log's directory, or delete it with all its files. No lock here: PartitionLog holds it.

A topic is deleted by renaming its directories to ``-delete`` and removing them later. A replica moves between disks
under the suffix ``-future``. Open files stay open under the new name. A crash during a removal leaves a directory with
the suffix ``-delete``, or a log without its oldest segments.
Source: Kafka's ``LocalLog.renameDir`` and ``deleteEmptyDir``.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.model import DirectoryError
from tidelog.storage.log.log_state import LogState


def require_free(state: LogState, directory: Path) -> None:
    """Raise DirectoryError if another directory has that name. The log itself stays usable."""
    if directory != state.directory and state.fs.exists(directory):
        raise DirectoryError("a log cannot be renamed to an existing directory", path=directory)


def rename_directory(state: LogState, directory: Path, *, syncs: bool = True) -> None:
    """Rename the log's directory. The caller has checked the new name with ``require_free``."""
    if directory == state.directory:
        return
    state.fs.rename(state.directory, directory)
    if syncs:
        for parent in {state.directory.parent, directory.parent}:
            state.fs.sync_dir(parent)
    for segment in state.segments:
        segment.moved_to(directory)
    state.deleted.moved_to(directory)
    state.producers.moved_to(directory)
    state.topic.moved_to(directory)
    # The last step: a reader whose read failed compares this path, and reads again if it changed.
    state.directory = directory


def delete_directory(state: LogState) -> None:
    """Remove the segments, oldest first, then all other files, then the directory."""
    state.close_handlers()
    for segment in state.segments:
        segment.delete()
    for name in state.fs.list_names(state.directory):
        state.fs.remove(state.directory / name, missing_ok=True)
    state.fs.remove_dir(state.directory)
    state.fs.sync_dir(state.directory.parent)
