"""Carry out what was decided for a log directory: repeated as often as it takes, it is done once.

====  ==================================  =============================================================================
step  what                                a crash in it, and what the next owner finds
====  ==================================  =============================================================================
1     each partition adopts its files     some partitions have all or some of theirs; the files that are still there
      that are there, in order            are those that are not in the logs (``adoption``)
2     the checkpoints are written         the recovery points lag behind: what was adopted is recovered, none of it cut
3     the batch is recorded               nothing is left to adopt; the batch is recorded (again)
4     the intent is removed               the same, with an intent of which no file is there
5     what dead attempts have left of     files that no intent names, for the next batch or ``tidelog recover``
      the query's batches is removed
====  ==================================  =============================================================================

Nothing is asked any more of what was checked when it was decided, but that a file is as long as it was, and sound.
Called by: ``WrittenDirectory`` when it opens, ``commit_staged``. Thread rule: the directory's lock is held, none of its
logs is open.
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
from tidelog.storage.manager.cluster_metadata import partition_for_writing
from tidelog.storage.manager.directory.log_directory import LogDirectory
from tidelog.storage.manager.logs.log_opening import LogOpening
from tidelog.storage.manager.staged.sink_checkpoint import read_committed_batches, write_committed_batches
from tidelog.storage.manager.staged.staged_commit import StagedCommit, StagedFile, read_intent, remove_intent
from tidelog.storage.manager.staged.staged_name import StagedName
from tidelog.storage.segment.file_names import PartitionDirectoryName

_log = logging.getLogger(__name__)


class RollForward:
    """``topic_id``: of a topic, None where it is not known."""

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
        """What was decided, and is done now; None where nothing was.

        CheckpointError where that cannot be read; CorruptRecordError for a staged file that is damaged; errors of the
        logs. What stood in the way can be removed, and this be repeated.
        """
        commit = read_intent(self._fs, self._directory.path)
        if commit is not None:
            self.carry_out(commit)
            _log.info("Completed the commit of %s in %s", commit, self._directory.path)
        return commit

    def carry_out(self, commit: StagedCommit) -> dict[TopicPartition, range]:
        """The offsets that were given to what was not in the logs yet. Errors as ``complete``."""
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
        """That nothing stands in the way: each log can be opened, each file is whole and fits into a segment of it.

        Errors of the logs and of ``read_staged``; CorruptRecordError for a file that is not as long as its writer said.
        The directories of new partitions are made.
        """
        for partition, files in commit.files.items():
            log = self._open_log(partition)
            try:
                for file in files:
                    self._require_size(file)
                    read_staged(self._fs, self._directory.path / file.name, log.config)
            finally:
                log.close()
                self._directory.closed(partition)

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
            self._directory.closed(partition)
        return range(first, log.end_offset)

    def _require_size(self, file: StagedFile) -> None:
        path = self._directory.path / file.name
        size = self._fs.stat(path).size
        if size != file.size:
            raise CorruptRecordError(f"a staged file has {size} bytes, its writer wrote {file.size}", path=path)


def find_staged(fs: FileSystem, directory: Path, commit: StagedCommit | None = None) -> tuple[str, ...]:
    """The names of the staged files in a log directory, but for those that ``commit`` names."""
    named = set(() if commit is None else commit.names)
    return tuple(name for name in fs.list_names(directory) if StagedName.parse(name) and name not in named)


def remove_staged(fs: FileSystem, directory: Path, which: Callable[[StagedName], bool] = lambda _: True) -> None:
    """Remove staged files, all unless told which; nothing may be decided for them."""
    found = [name for name in fs.list_names(directory) if (staged := StagedName.parse(name)) and which(staged)]
    for name in found:
        fs.remove(directory / name, missing_ok=True)
    if found:
        fs.sync_dir(directory)
