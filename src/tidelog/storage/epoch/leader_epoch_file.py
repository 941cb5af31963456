"""``leader-epoch-checkpoint``: the leader epochs of one partition, on disk.

A checkpoint (version, count, entries) whose lines are ``epoch start_offset``, ascending. Replaced atomically; what a
crash leaves may lag behind the log, which is why loading cuts the epochs at both ends of the log.
Called by: logs, views, inspection. Source: Kafka's ``LeaderEpochCheckpointFile`` (KIP-101).
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
    """Reading and writing; holds nothing."""

    @staticmethod
    def parse(data: bytes, *, path: Path | None = None) -> list[EpochEntry]:
        """The entries in the file's order; CheckpointError for anything but a whole, well-formed checkpoint."""
        return parse_checkpoint(data, _parse_line, path=path)

    @staticmethod
    def format(entries: Iterable[EpochEntry]) -> bytes:
        return format_checkpoint(f"{entry.epoch} {entry.start_offset}" for entry in entries)

    @classmethod
    def read(cls, fs: FileSystem, path: Path) -> list[EpochEntry]:
        """The entries; none where the file is missing."""
        try:
            data = read_whole(fs, path)
        except FileMissingError:
            return []
        return cls.parse(data, path=path)

    @classmethod
    def write(cls, fs: FileSystem, path: Path, entries: Iterable[EpochEntry], *, syncs_name: bool = True) -> None:
        """``syncs_name``: as in ``write_atomically``."""
        write_atomically(fs, path, cls.format(entries), syncs_name=syncs_name)


def _parse_line(line: str) -> EpochEntry | None:
    parts = _WHITESPACE.split(line)
    if len(parts) != 2:
        return None
    epoch, start_offset = parse_integer(parts[0], bits=32), parse_integer(parts[1], bits=64)
    if epoch is None or epoch < 0 or start_offset is None or start_offset < 0:
        return None
    return EpochEntry(epoch, start_offset)
