"""The execution of a decided commit in a log directory. It can be repeated and takes effect once.

====  ==================================  =============================================================================
step  change                              after a crash in it, the next owner finds
====  ==================================  =============================================================================
1     each partition adopts its existing  some partitions with all or some of their files; the files that still exist
      files in the intent's sequence      are not in the logs yet (``adoption``)
2     the checkpoints are written         recovery points that lag behind; recovery keeps all adopted records
3     the batch is recorded               nothing to adopt; the batch is recorded (again)
4     the intent is removed               the same, with an intent whose files are all gone
5     files of failed attempts at this    files that no intent names, for the next batch or ``tidelog recover``
      or earlier batches are removed
====  ==================================  =============================================================================

The checks made before the decision are not repeated. Only a file's size and the validity of its batches are checked.
Thread rule: the caller holds the directory's lock, and none of its logs is open.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable
from pathlib import Path

from tidelog.model import CorruptRecordError, TopicPartition
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.adopt.staged_segment import read_staged
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.directory.log_directory import LogDirectory, LogOpening
from tidelog.storage.manager.metadata.cluster_metadata_log import partition_for_writing
from tidelog.storage.manager.staged.sink_checkpoint import read_committed_batches, write_committed_batches
from tidelog.storage.manager.staged.staged_commit import (
    StagedCommit,
    StagedFile,
    StagedName,
    read_intent,
    remove_intent,
)
from tidelog.storage.segment.file_names import PartitionDirectoryName

_log = logging.getLogger(__name__)


class RollForward:
    """``topic_id`` returns a topic's id, or None if it is unknown."""

    def __init__(
        self,
        fs: FileSystem,
        directory: LogDirectory,
        opening: LogOpening,
        topic_id: Callable[[str], uuid.UUID | None],
    ) -> None:
        self._fs = fs
        self._directory = directory
        self._opening = opening
        self._topic_id = topic_id

    def complete(self) -> StagedCommit | None:
        """Carry out a decided commit and return it, or None if there is none.

        Raise CheckpointError if the intent is unreadable, CorruptRecordError for a damaged staged file, and the errors
        of the logs. The call can be repeated after the cause is removed.
        """
        commit = read_intent(self._fs, self._directory.path)
        if commit is not None:
            self.execute(commit)
            _log.info("Completed the commit of %s in %s", commit, self._directory.path)
        return commit

    def execute(self, commit: StagedCommit) -> dict[TopicPartition, range]:
        """Carry out the commit and return the offsets of newly adopted records. Raise as ``complete`` does."""
        root = self._directory.path
        offsets: dict[TopicPartition, range] = {}
        for partition, files in commit.files.items():
            waiting = [file for file in files if self._fs.exists(root / file.name)]
            if waiting:
                offsets[partition] = self._adopt(partition, waiting)
        self._directory.checkpoint()
        if commit.batch is not None:
            batches = read_committed_batches(self._fs, root)
            batches[commit.query] = max(commit.batch, batches.get(commit.query, -1))
            write_committed_batches(self._fs, root, batches)
        remove_intent(self._fs, root)
        remove_staged(self._fs, root, commit.supersedes)
        return offsets

    def check(self, commit: StagedCommit) -> None:
        """Check that every log opens, and that every file is valid and fits into one of its segments.

        Raise the errors of the logs and of ``read_staged``, and CorruptRecordError if a file's size differs from the
        writer's report. The directories of new partitions are created.
        """
        for partition, files in commit.files.items():
            log = self._open_log(partition)
            try:
                for file in files:
                    self._require_size(file)
                    read_staged(self._fs, self._directory.path / file.name, log.config)
            finally:
                log.close()
                self._directory.note_closed(partition)

    def _open_log(self, partition: TopicPartition) -> PartitionLog:
        path = self._directory.path / partition.directory_name
        partition_for_writing(path)
        topic_id = self._topic_id(partition.topic)
        return self._directory.open_log(path, PartitionDirectoryName(partition), self._opening, topic_id=topic_id)

    def _adopt(self, partition: TopicPartition, files: list[StagedFile]) -> range:
        log = self._open_log(partition)
        try:
            first = log.end_offset
            for file in files:
                self._require_size(file)
                log.adopt(self._directory.path / file.name, is_decided=True)
            log.close()
        except BaseException:
            log.close_handlers()
            raise
        finally:
            self._directory.note_closed(partition)
        return range(first, log.end_offset)

    def _require_size(self, file: StagedFile) -> None:
        path = self._directory.path / file.name
        size = self._fs.stat(path).size
        if size != file.size:
            raise CorruptRecordError(
                f"the staged file has {size} bytes, but its writer reported {file.size}", path=path
            )


def find_staged(fs: FileSystem, directory: Path, commit: StagedCommit | None = None) -> tuple[str, ...]:
    """Return the names of the staged files in a log directory, except those in ``commit``."""
    named = set(() if commit is None else commit.names)
    return tuple(name for name in fs.list_names(directory) if StagedName.parse(name) and name not in named)


def remove_staged(fs: FileSystem, directory: Path, which: Callable[[StagedName], bool] = lambda _: True) -> None:
    """Remove all staged files, or those selected by ``which``. No decided commit may name them."""
    found = [name for name in fs.list_names(directory) if (staged := StagedName.parse(name)) and which(staged)]
    for name in found:
        fs.remove(directory / name, missing_ok=True)
    if found:
        fs.sync_dir(directory)
