"""Logs that were deleted and wait for ``file.delete.delay.ms``, as readers may still be in their files.

Their directories have been renamed to ``-delete`` by then, so a crash forgets nothing: the next start finds them by
their names. A log that cannot be removed is logged and left for the next start.
Called by: ``LogManager``. Thread rule: any thread. Source: Kafka's ``LogManager.deleteLogs``.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tidelog.model import StorageError
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.directory.directory_set import level_of

_log = logging.getLogger(__name__)


class DeletionQueue:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, PartitionLog]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def logs(self) -> list[PartitionLog]:
        """In the order they were deleted."""
        with self._lock:
            return [log for _, log in self._waiting]

    def add(self, log: PartitionLog, now_ms: int) -> None:
        """The log's directory has its ``-delete`` name."""
        with self._lock:
            self._waiting.append((now_ms, log))

    def lose(self, directory: Path, error: StorageError) -> None:
        """Let go of the logs of a log directory that is offline."""
        with self._lock:
            gone = [log for _, log in self._waiting if log.directory.parent == directory]
            self._waiting = deque(entry for entry in self._waiting if entry[1].directory.parent != directory)
        for log in gone:
            log.close_handlers(offline=error)

    def remove_due(self, now_ms: int, delay_ms: int, on_failure: Callable[[StorageError], None]) -> int:
        """Remove what was deleted ``delay_ms`` ago; in how many ms to ask again."""
        while True:
            with self._lock:
                if not self._waiting:
                    return max(delay_ms, 1)
                since_ms, log = self._waiting[0]
                if since_ms + delay_ms > now_ms:
                    return since_ms + delay_ms - now_ms
                self._waiting.popleft()
            try:
                log.delete()
                _log.info("Deleted %s", log.directory)
            except StorageError as error:
                text = "%s could not be deleted, and will be at the next start: %s"
                _log.log(level_of(error), text, log.directory, error)
                on_failure(error)

    def close(self) -> None:
        """Let go of the files; the next start finds the directories by their names."""
        for log in self.logs:
            log.close_handlers()
