"""``.kafka_cleanshutdown``: this log directory was stopped in order, so its logs need no recovery.

Contents: ``{"version":0,"brokerEpoch":N}`` without a line end; brokers before 3.7 left the file empty. Only its
existence decides about recovery. Written last at an orderly stop, removed after all logs were loaded.
Called by: the log manager and recovery. Source: Kafka's ``CleanShutdownFileHandler``.
"""

from __future__ import annotations

import json
from pathlib import Path

from tidelog.storage.fs import FileSystem, read_whole, write_atomically

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
_VERSION = 0
_MAX_EPOCH = 2**63 - 1


class CleanShutdownFile:
    """The marker of one log directory; holds nothing but its path."""

    def __init__(self, fs: FileSystem, directory: Path) -> None:
        self._fs = fs
        self._path = directory / CLEAN_SHUTDOWN_FILE

    @property
    def path(self) -> Path:
        return self._path

    def exists(self) -> bool:
        return self._fs.exists(self._path)

    def read(self) -> int | None:
        """The broker epoch of the run that stopped; None where the file is missing or does not say."""
        return parse_broker_epoch(read_whole(self._fs, self._path)) if self.exists() else None

    def write(self, broker_epoch: int) -> None:
        write_atomically(self._fs, self._path, format_broker_epoch(broker_epoch))

    def remove(self) -> None:
        """No error if it is not there; durable on return."""
        self._fs.remove(self._path, missing_ok=True)
        self._fs.sync_dir(self._path.parent)


def format_broker_epoch(broker_epoch: int) -> bytes:
    return json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def parse_broker_epoch(data: bytes) -> int | None:
    """None for every content that does not state a broker epoch, as Kafka takes it."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if type(epoch) is int and -_MAX_EPOCH - 1 <= epoch <= _MAX_EPOCH else None
