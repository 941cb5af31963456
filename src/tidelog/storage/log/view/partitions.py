"""Which partitions a log directory holds, by the names in it. Reads names only.

Directories on their way in or out (``-delete``, ``-future``, ``-stray``) and other names are passed over.
Called by: the API's directories, inspection, Spark's planner.
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
"""A directory that tiered storage keeps beside the partitions."""

_MARKS = frozenset({META_PROPERTIES_FILE, RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT})


def live_partitions(fs: FileSystem, log_dir: Path) -> Iterator[TopicPartition]:
    """In the order of their names. FileMissingError or DirectoryError where ``log_dir`` cannot be listed."""
    for name in fs.list_directories(log_dir):
        try:
            parsed = PartitionDirectoryName.parse(name)
        except DirectoryError:
            continue
        if parsed.purpose is DirectoryPurpose.LIVE:
            yield parsed.topic_partition


def require_log_directory(fs: FileSystem, path: Path) -> None:
    """DirectoryError unless ``path`` holds a partition, or one of the files that every log directory has."""
    names = set(fs.list_names(path))
    if names & _MARKS or any(True for _ in live_partitions(fs, path)):
        return
    raise DirectoryError(
        "not a Kafka log directory: it holds neither a TOPIC-PARTITION directory nor meta.properties nor checkpoints",
        path=path,
    )
