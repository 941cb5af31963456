"""Give a log's directory another name, or remove it with all that is in it. No lock: PartitionLog has it.

A topic is deleted by renaming its directories to ``-delete`` and removing them later; a replica moves between disks by
way of ``-future``. Open files stay open under the new name. A crash within a removal leaves a directory that still has
its ``-delete`` name, or a log that lost its oldest segments first.
Called by: PartitionLog. Source: Kafka's ``LocalLog.renameDir`` and ``deleteEmptyDir``.
"""

from __future__ import annotations

from pathlib import Path

from tidelog.model import DirectoryError
from tidelog.storage.log.log_state import LogState


def require_free(state: LogState, directory: Path) -> None:
    """DirectoryError where another directory has that name; nothing is wrong with the log then."""
    if directory != state.directory and state.fs.exists(directory):
        raise DirectoryError("a log cannot be renamed to a directory that exists", path=directory)


def rename_directory(state: LogState, directory: Path, *, syncs: bool = True) -> None:
    """To a name that ``require_free`` let through."""
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
    # Last: a reader that failed looks whether it has changed.
    state.directory = directory


def delete_directory(state: LogState) -> None:
    """Remove segments, oldest first, then whatever else lies there, then the directory."""
    state.close_handlers()
    for segment in state.segments:
        segment.delete()
    for name in state.fs.list_names(state.directory):
        state.fs.remove(state.directory / name, missing_ok=True)
    state.fs.remove_dir(state.directory)
    state.fs.sync_dir(state.directory.parent)
