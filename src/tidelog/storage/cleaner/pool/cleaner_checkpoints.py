"""The ``cleaner-offset-checkpoint`` of each log directory: the end of each log's compacted part.

It is read once, and written whenever an offset changes. A write keeps only the partitions that have a log. A file that
cannot be parsed counts as empty, with a warning: then everything is dirty, which only costs time. If the disk refuses a
write, the failure is reported and the offsets in memory stay valid. A crash leaves the previous offsets, so a round of
compaction is done again.
Thread rule: the caller holds the lock of ``CleanerState``. Source: Kafka's ``LogCleanerManager.updateCheckpoints``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from tidelog.model import CheckpointError, StorageError, TopicPartition
from tidelog.storage.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.fs import FileSystem

_log = logging.getLogger(__name__)


class CleanerCheckpoints:
    def __init__(
        self,
        fs: FileSystem,
        paths: Iterable[Path],
        *,
        partitions: Callable[[], Collection[TopicPartition]],
        on_failure: Callable[[StorageError], None],
    ) -> None:
        """``partitions`` returns the partitions that have a log."""
        self._fs = fs
        self._partitions = partitions
        self._on_failure = on_failure
        self._offsets = {path: self._read(path) for path in paths}

    def of(self, path: Path) -> Mapping[TopicPartition, int]:
        """Return the offsets by partition; empty if the log directory was dropped."""
        return self._offsets.get(path, {})

    def update(self, path: Path, changes: Mapping[TopicPartition, int | None]) -> None:
        """Change offsets; None removes one. A no-op if the log directory was dropped."""
        if path not in self._offsets:
            return
        partitions = self._partitions()
        wanted: dict[TopicPartition, int | None] = {
            partition: offset for partition, offset in self._offsets[path].items() if partition in partitions
        }
        offsets = {partition: offset for partition, offset in (wanted | dict(changes)).items() if offset is not None}
        if offsets == self._offsets[path]:
            return
        self._offsets[path] = offsets
        try:
            OffsetCheckpoint.write(self._fs, path / CLEANER_CHECKPOINT, offsets)
        except StorageError as error:
            _log.error("Failed to access checkpoint file %s in dir %s: %s", CLEANER_CHECKPOINT, path, error)
            self._on_failure(error)

    def drop(self, path: Path) -> None:
        """Stop writing to a log directory whose disk has failed."""
        self._offsets.pop(path, None)

    def _read(self, path: Path) -> dict[TopicPartition, int]:
        try:
            return OffsetCheckpoint.read(self._fs, path / CLEANER_CHECKPOINT)
        except CheckpointError as error:
            _log.warning("%s; treated as empty", error)
        except StorageError as error:
            self._on_failure(error)
        return {}
