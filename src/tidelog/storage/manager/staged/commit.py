"""Commit staged files to a log directory: decide, then carry out; and complete what another process had decided.

======================================  ==============================================================================
asked to commit                         what happens
======================================  ==============================================================================
anything, while an intent is there      that is carried out first
a batch that is recorded, or a lower    nothing: its staged files are removed
one, of its query
staged files that are damaged, missing  an error; nothing is decided, the files are left to who wrote them
or more than a segment may hold
else                                    the intent is written: from here on, whatever happens, it will be carried out
======================================  ==============================================================================

The directory is locked meanwhile, and stopped in order as it was found. Nothing else is ever written to a log in
part: a reader sees of each staged file all records or none. Called by: the sinks. Thread rule: any thread; the lock
lets one in.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.runtime import Clock
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.config import LogConfig
from tidelog.storage.manager.staged.roll_forward import remove_staged
from tidelog.storage.manager.staged.sink_checkpoint import read_committed_batches
from tidelog.storage.manager.staged.staged_commit import INTENT_FILE, StagedCommit, write_intent
from tidelog.storage.manager.written_directory import WrittenDirectory


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitResult:
    """``offsets`` that the records have now, by partition."""

    offsets: dict[TopicPartition, range]
    was_done: bool
    """The batch had been committed before; nothing was written."""


def commit_staged(
    fs: FileSystem, path: Path, commit: StagedCommit, *, clock: Clock, config: LogConfig | None = None
) -> CommitResult:
    """Have the records of ``commit`` in the logs of the directory ``path``, which is made where it is missing.

    ``config`` as for ``WrittenDirectory``. LockedError where another has the directory; errors of ``read_staged``, with
    nothing decided; FileMissingError for a staged file that is gone; StorageError, after which it has to be repeated.
    """
    directory = WrittenDirectory(fs, path, clock=clock, config=config)
    try:
        done = commit.batch is not None and read_committed_batches(fs, path).get(commit.query, -1) >= commit.batch
        if done:
            remove_staged(fs, path, commit.supersedes)
            return CommitResult(offsets={}, was_done=True)
        directory.roll_forward.check(commit)
        write_intent(fs, path, commit)
        return CommitResult(offsets=directory.roll_forward.carry_out(commit), was_done=False)
    finally:
        directory.close()


def complete_commits(fs: FileSystem, path: Path, *, clock: Clock, config: LogConfig | None = None) -> None:
    """Carry out what was decided for a log directory, if anything was; LockedError where another has it then."""
    if fs.exists(path / INTENT_FILE):
        WrittenDirectory(fs, path, clock=clock, config=config).close()
