"""The staged files of one attempt to write a part of a batch: synced and reported, or removed.

A file that would exceed a segment's limits is followed by another. Names contain a random part of the attempt, so they
are unique, even against an attempt of a driver that was thought dead. No file stays open in between: a task may write
to thousands of partitions.

A crash leaves unreported files. The commit of the same batch, or of a later one of its query, removes them. Thread
rule: one thread.
"""

from __future__ import annotations

import uuid
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.storage.fs import FileSystem, sync_whole
from tidelog.storage.manager.staged.staged_commit import StagedFile, StagedName


class StagedFiles:
    def __init__(self, fs: FileSystem, directory: Path, query: str, batch: int | None) -> None:
        self._fs = fs
        self._directory = directory
        self._query = query
        self._batch = batch
        self._writer = uuid.uuid4().hex
        self._files: dict[TopicPartition, list[StagedFile]] = {}
        self._count = 0

    def append(self, partition: TopicPartition, batch: bytearray, *, max_file_bytes: int) -> None:
        """Write a complete batch after the last one of its partition. Raise StorageError if that fails."""
        files = self._files.setdefault(partition, [])
        if not files or files[-1].size + len(batch) > max_file_bytes:
            files.append(StagedFile(self._next_name(), 0))
        name, size = files[-1]
        with self._fs.open(self._directory / name, write=True, create=not size) as file:
            file.pwrite(batch, size)
        files[-1] = StagedFile(name, size + len(batch))

    def finish(self) -> dict[TopicPartition, tuple[StagedFile, ...]]:
        """Sync all files and their directory. Return the files of each partition in the sequence written."""
        for name in self._names:
            sync_whole(self._fs, self._directory / name)
        if self._files:
            self._fs.sync_dir(self._directory)
        return {partition: tuple(files) for partition, files in self._files.items()}

    def remove(self) -> None:
        """Remove the files of a failed attempt."""
        for name in self._names:
            self._fs.remove(self._directory / name, missing_ok=True)

    @property
    def _names(self) -> list[str]:
        return [file.name for files in self._files.values() for file in files]

    def _next_name(self) -> str:
        self._count += 1
        return str(StagedName(self._query, self._batch, self._writer, self._count - 1))
