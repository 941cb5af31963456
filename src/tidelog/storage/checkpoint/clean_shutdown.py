"""The marker ``.kafka_cleanshutdown`` of a clean shutdown: the directory's logs need no recovery.

The contents are ``{"version":0,"brokerEpoch":N}`` without a line end. Brokers before 3.7 left the file empty. Only its
existence decides about recovery. A clean shutdown writes it last, and startup removes it after all logs are loaded.
Source: Kafka's ``CleanShutdownFileHandler``.
"""

from __future__ import annotations

import json
from pathlib import Path

from tidelog.storage.fs import FileSystem, read_whole, write_atomically

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
_VERSION = 0
_MAX_EPOCH = 2**63 - 1


class CleanShutdownFile:
    """The marker file of one log directory. The object holds only its path."""

    def __init__(self, fs: FileSystem, directory: Path) -> None:
        self._fs = fs
        self._path = directory / CLEAN_SHUTDOWN_FILE

    @property
    def path(self) -> Path:
        return self._path

    def exists(self) -> bool:
        return self._fs.exists(self._path)

    def read(self) -> int | None:
        """Return the broker epoch of the previous run, or None if the file is missing or has none."""
        return parse_broker_epoch(read_whole(self._fs, self._path)) if self.exists() else None

    def write(self, broker_epoch: int) -> None:
        write_atomically(self._fs, self._path, format_broker_epoch(broker_epoch))

    def remove(self) -> None:
        """Remove the marker, durable on return. A missing file is no error."""
        self._fs.remove(self._path, missing_ok=True)
        self._fs.sync_dir(self._path.parent)


def format_broker_epoch(broker_epoch: int) -> bytes:
    return json.dumps({"version": _VERSION, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()


def parse_broker_epoch(data: bytes) -> int | None:
    """Return the broker epoch, or None for any contents without one, as Kafka does."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if type(epoch) is int and -_MAX_EPOCH - 1 <= epoch <= _MAX_EPOCH else None
