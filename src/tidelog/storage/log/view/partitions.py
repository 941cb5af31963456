"""The partitions of a log directory, from the names in it. Reads names only.

Directories that are being added or removed (``-delete``, ``-future``, ``-stray``) and other names are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tidelog.model import DirectoryError, TopicPartition
from tidelog.storage.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT,
)
from tidelog.storage.fs import FileSystem
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName

REMOTE_INDEX_CACHE = "remote-log-index-cache"
"""A directory of tiered storage next to the partitions."""

_MARKS = frozenset({META_PROPERTIES_FILE, RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT})


def live_partitions(fs: FileSystem, log_dir: Path) -> Iterator[TopicPartition]:
    """Yield live partitions in name order. Raise FileMissingError or DirectoryError if ``log_dir`` cannot be listed."""
    for name in fs.list_directories(log_dir):
        try:
            parsed = PartitionDirectoryName.parse(name)
        except DirectoryError:
            continue
        if parsed.purpose is DirectoryPurpose.LIVE:
            yield parsed.topic_partition


def require_log_directory(fs: FileSystem, path: Path) -> None:
    """Raise DirectoryError unless ``path`` holds a partition, or one of the files that every log directory has."""
    names = set(fs.list_names(path))
    if names & _MARKS or any(True for _ in live_partitions(fs, path)):
        return
    raise DirectoryError(
        "not a Kafka log directory: it holds neither a TOPIC-PARTITION directory nor meta.properties nor checkpoints",
        path=path,
    )
