"""Deleted logs that wait for ``file.delete.delay.ms``, because readers may still use their files.

Their directories already have a ``-delete`` name, so the next startup finds them after a crash. A log that cannot be
removed is reported and left for the next startup. Thread rule: any thread. Source: Kafka's ``LogManager.deleteLogs``.
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
        """The queued logs, the first deleted one first."""
        with self._lock:
            return [log for _, log in self._waiting]

    def add(self, log: PartitionLog, now_ms: int) -> None:
        """Queue a log. Its directory already has the ``-delete`` name."""
        with self._lock:
            self._waiting.append((now_ms, log))

    def drop_directory(self, directory: Path, error: StorageError) -> None:
        """Close the logs of a log directory that went offline."""
        with self._lock:
            gone = [log for _, log in self._waiting if log.directory.parent == directory]
            self._waiting = deque(entry for entry in self._waiting if entry[1].directory.parent != directory)
        for log in gone:
            log.close_handlers(offline=error)

    def remove_due(self, now_ms: int, delay_ms: int, on_failure: Callable[[StorageError], None]) -> int:
        """Remove the logs deleted at least ``delay_ms`` ago. Return the delay until the next call in ms."""
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
                text = "%s could not be deleted; the next startup tries again: %s"
                _log.log(level_of(error), text, log.directory, error)
                on_failure(error)

    def close(self) -> None:
        """Close the files. The next startup finds the directories by their names."""
        for log in self.logs:
            log.close_handlers()
