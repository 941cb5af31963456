"""The topic id of one log: which topic of that name it belongs to, and the ``partition.metadata`` that says so.

An id is known when the file is there, or once it is given. A new id is written by the log's scheduler at once, in any
case before the first record, and at the latest at a clean shutdown. A log made before ids existed has none. A crash
before the file is written forgets the id: the log has no records then, and its owner gives it the id again.

Called by: PartitionLog. Source: Kafka's ``UnifiedLog.initializeTopicId`` and ``assignTopicId`` (KIP-516).
"""

from __future__ import annotations

import uuid
from pathlib import Path
from threading import Lock

from tidelog.model import InconsistentTopicIdError
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.fs import FileSystem


class TopicIdFile:
    def __init__(self, fs: FileSystem, directory: Path) -> None:
        """Reads the file, if there is one. CheckpointError where it cannot be read."""
        self._fs = fs
        self._path = directory / PARTITION_METADATA_FILE
        self._writing = Lock()
        self.is_unwritten = False
        """The next write takes as long as the disk."""
        found = PartitionMetadata.read(fs, self._path)
        self.topic_id: uuid.UUID | None = None if found is None else found.topic_id

    def assign(self, topic_id: uuid.UUID) -> None:
        """InconsistentTopicIdError where the log belongs to another topic."""
        if self.topic_id is not None and self.topic_id != topic_id:
            raise InconsistentTopicIdError(
                f"the log belongs to the topic {PartitionMetadata(topic_id=self.topic_id).topic_id_text}, not to"
                f" {PartitionMetadata(topic_id=topic_id).topic_id_text}",
                path=self._path,
            )
        if self.topic_id is None:
            self.topic_id, self.is_unwritten = topic_id, True

    def write(self) -> None:
        """Durable on return; nothing where the file says it already. With the log's lock, or that of its files."""
        if self.is_unwritten:
            self._write()

    def _write(self) -> None:
        with self._writing:
            if self.is_unwritten and self.topic_id is not None:
                PartitionMetadata(topic_id=self.topic_id).write(self._fs, self._path)
                self.is_unwritten = False

    def moved_to(self, directory: Path) -> None:
        self._path = directory / PARTITION_METADATA_FILE
