"""Checkpoints of one offset per partition: recovery point, log start, high watermark, cleaned offset.

One file covers a log directory. An entry line is ``topic partition offset``. Kafka writes the entries unsorted, tidelog
sorts them. The file is replaced atomically, so a crash leaves the old or the new checkpoint. Thread rule: one writer at
a time per file. Source: Kafka's ``OffsetCheckpointFile``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from tidelog.model import CheckpointError, TopicPartition
from tidelog.storage.checkpoint.checkpoint_text import format_checkpoint, parse_checkpoint, parse_integer
from tidelog.storage.fs import FileSystem, read_whole, write_atomically

RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"

_WHITESPACE = re.compile(r"\s+", re.ASCII)


class OffsetCheckpoint:
    """The stateless reader and writer of these files."""

    @staticmethod
    def parse(data: bytes, *, path: Path | None = None) -> dict[TopicPartition, int]:
        """Parse a checkpoint. Raise CheckpointError if it is incomplete or malformed, or names a partition twice."""
        offsets: dict[TopicPartition, int] = {}
        for partition, offset in parse_checkpoint(data, _parse_line, path=path):
            if partition in offsets:
                raise CheckpointError(f"two entries for {partition}", path=path)
            offsets[partition] = offset
        return offsets

    @staticmethod
    def format(offsets: Mapping[TopicPartition, int]) -> bytes:
        return format_checkpoint(
            f"{topic} {number} {offsets[TopicPartition(topic, number)]}" for topic, number in sorted(offsets)
        )

    @classmethod
    def read(cls, fs: FileSystem, path: Path) -> dict[TopicPartition, int]:
        """Return the offsets, empty if the file is missing. Raise CheckpointError if it is malformed."""
        return cls.parse(read_whole(fs, path), path=path) if fs.exists(path) else {}

    @classmethod
    def write(cls, fs: FileSystem, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
        write_atomically(fs, path, cls.format(offsets))


def _parse_line(line: str) -> tuple[TopicPartition, int] | None:
    parts = _WHITESPACE.split(line)
    if len(parts) != 3:
        return None
    partition, offset = parse_integer(parts[1], bits=32), parse_integer(parts[2], bits=64)
    if partition is None or partition < 0 or offset is None or offset < 0:
        return None
    return TopicPartition(parts[0], partition), offset
