"""The checkpoint file ``leader-epoch-checkpoint``: the leader epochs of one partition.

It is a checkpoint (version, count, entries) with ascending lines ``epoch start_offset``. It is replaced atomically.
After a crash it may lag behind the log, so loading truncates the epochs to the log's start and end. Source: Kafka's
``LeaderEpochCheckpointFile`` (KIP-101).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tidelog.model import FileMissingError
from tidelog.storage.checkpoint.checkpoint_text import format_checkpoint, parse_checkpoint, parse_integer
from tidelog.storage.epoch.leader_epoch_cache import EpochEntry
from tidelog.storage.fs import FileSystem, read_whole, write_atomically

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"

_WHITESPACE = re.compile(r"\s+", re.ASCII)


class LeaderEpochCheckpoint:
    """The stateless reader and writer of the file."""

    @staticmethod
    def parse(data: bytes, *, path: Path | None = None) -> list[EpochEntry]:
        """Return the entries in the file's order. Raise CheckpointError for an incomplete or malformed checkpoint."""
        return parse_checkpoint(data, _parse_line, path=path)

    @staticmethod
    def format(entries: Iterable[EpochEntry]) -> bytes:
        return format_checkpoint(f"{entry.epoch} {entry.start_offset}" for entry in entries)

    @classmethod
    def read(cls, fs: FileSystem, path: Path) -> list[EpochEntry]:
        """Return the entries, empty if the file is missing."""
        try:
            data = read_whole(fs, path)
        except FileMissingError:
            return []
        return cls.parse(data, path=path)

    @classmethod
    def write(cls, fs: FileSystem, path: Path, entries: Iterable[EpochEntry], *, syncs_name: bool = True) -> None:
        """Write the file. ``syncs_name`` has the same meaning as in ``write_atomically``."""
        write_atomically(fs, path, cls.format(entries), syncs_name=syncs_name)


def _parse_line(line: str) -> EpochEntry | None:
    parts = _WHITESPACE.split(line)
    if len(parts) != 2:
        return None
    epoch, start_offset = parse_integer(parts[0], bits=32), parse_integer(parts[1], bits=64)
    if epoch is None or epoch < 0 or start_offset is None or start_offset < 0:
        return None
    return EpochEntry(epoch, start_offset)
