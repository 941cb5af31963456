"""The topic id of one log, and its file ``partition.metadata``.

The id comes from the file, or from ``assign``. The log's scheduler writes a new id immediately. It is always written
before the first record, and at the latest at a clean shutdown. A log created before topic ids existed has none. A crash
before the write loses the id: the log has no records then, and its owner assigns the id again.

Source: Kafka's ``UnifiedLog.initializeTopicId`` and ``assignTopicId`` (KIP-516).
"""

from __future__ import annotations

import uuid
from pathlib import Path
from threading import Lock

from tidelog.model import InconsistentTopicIdError
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.fs import FileSystem


class TopicIdFile:
    def __init__(self, fs: FileSystem, directory: Path, content: bytes | None = None) -> None:
        """Read the file, if it exists and its ``content`` is unknown. Raise CheckpointError if it cannot be read."""
        self._fs = fs
        self._directory = directory
        self._writing = Lock()
        self.is_unwritten = False
        """The id is not in the file yet, so the next write waits for the disk."""
        if content is None:
            found = PartitionMetadata.read(fs, self._path)
        else:
            found = PartitionMetadata.parse(content, path=self._path)
        self.topic_id: uuid.UUID | None = None if found is None else found.topic_id

    def assign(self, topic_id: uuid.UUID) -> None:
        """Set the id. Raise InconsistentTopicIdError if the log belongs to another topic."""
        if self.topic_id is not None and self.topic_id != topic_id:
            raise InconsistentTopicIdError(
                f"the log belongs to the topic {PartitionMetadata(topic_id=self.topic_id).topic_id_text}, not to"
                f" {PartitionMetadata(topic_id=topic_id).topic_id_text}",
                path=self._path,
            )
        if self.topic_id is None:
            self.topic_id, self.is_unwritten = topic_id, True

    def write(self) -> None:
        """Write the id if the file lacks it; durable on return. The caller holds the log's lock or ``files``."""
        if self.is_unwritten:
            self._write()

    def _write(self) -> None:
        with self._writing:
            if self.is_unwritten and self.topic_id is not None:
                PartitionMetadata(topic_id=self.topic_id).write(self._fs, self._path)
                self.is_unwritten = False

    def moved_to(self, directory: Path) -> None:
        self._directory = directory

    @property
    def _path(self) -> Path:
        return self._directory / PARTITION_METADATA_FILE
