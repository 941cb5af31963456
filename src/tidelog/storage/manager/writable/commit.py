"""The commit of staged files to a log directory, and the completion of a decided commit.

======================================  ==============================================================================
commit request                          effect
======================================  ==============================================================================
any, while an intent exists             the intent is carried out first
a batch at or below the query's last    none; its staged files are removed
recorded one
staged files that are damaged, missing  an error; nothing is decided, and the files stay for their writer
or larger than a segment may be
else                                    the intent is written; from then on the commit is carried out, even after a
                                        crash
======================================  ==============================================================================

The directory is locked meanwhile, and shut down cleanly if it was clean. A reader sees all records of a staged file or
none. Thread rule: any thread. The lock admits one at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.staged.roll_forward import remove_staged
from tidelog.storage.manager.staged.sink_checkpoint import read_committed_batches
from tidelog.storage.manager.staged.staged_commit import INTENT_FILE, StagedCommit, write_intent
from tidelog.storage.manager.writable.writable_directory import WritableDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """``offsets`` holds the offsets of the new records, by partition."""

    offsets: dict[TopicPartition, range]
    was_done: bool
    """True if the batch was committed before, so nothing was written."""


def commit_staged(
    fs: FileSystem, path: Path, commit: StagedCommit, *, clock: Clock, config: LogConfig | None = None
) -> CommitResult:
    """Commit staged files to the logs of the directory ``path``, and create the directory if missing.

    LockedError (another process holds the directory), FileMissingError (a staged file is missing) and errors of
    ``read_staged`` decide nothing. After StorageError, repeat the call. ``config`` is as for ``WritableDirectory``.
    """
    directory = WritableDirectory(fs, path, clock=clock, config=config)
    try:
        done = commit.batch is not None and read_committed_batches(fs, path).get(commit.query, -1) >= commit.batch
        if done:
            remove_staged(fs, path, commit.supersedes)
            return CommitResult(offsets={}, was_done=True)
        directory.roll_forward.check(commit)
        write_intent(fs, path, commit)
        return CommitResult(offsets=directory.roll_forward.execute(commit), was_done=False)
    finally:
        directory.close()


def complete_commits(fs: FileSystem, path: Path, *, clock: Clock, config: LogConfig | None = None) -> None:
    """Carry out a decided commit, if there is one. Raise LockedError if another process then holds the directory."""
    if fs.exists(path / INTENT_FILE):
        WritableDirectory(fs, path, clock=clock, config=config).close()
