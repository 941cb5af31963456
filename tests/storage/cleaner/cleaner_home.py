"""Open logs for tests of the cleaner: separate log directories, replicated partitions, a manual clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from log_maker import BASE_TIME, batch
from tidelog.model import StorageError, TopicPartition
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing import ManualClock

NOW = BASE_TIME + 1_000_000
HOUR = 3_600_000
COMPACT, DELETE, BOTH = frozenset({"compact"}), frozenset({"delete"}), frozenset({"compact", "delete"})
CONFIG = LogConfig(
    segment_bytes=1024,
    segment_index_bytes=1024,
    cleanup_policy=COMPACT,
    min_cleanable_dirty_ratio=0.05,
    retention_ms=1,
    file_delete_delay_ms=0,
)


class CleanerHome:
    def __init__(self, root: Path, *, fs: FileSystem = LOCAL) -> None:
        self.fs = fs
        self.path, self.other = root / "disk1", root / "disk2"
        self.clock = ManualClock(NOW)
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.failures: list[StorageError] = []
        self._opened: list[PartitionLog] = []
        for path in (self.path, self.other):
            if not fs.exists(path):
                fs.make_dir(path)

    def open(self, partition: TopicPartition, path: Path | None = None, **settings: Any) -> PartitionLog:
        """Open a log. ``settings`` override ``CONFIG``."""
        values = {name: getattr(CONFIG, name) for name in CONFIG.__slots__}
        log = PartitionLog.open(
            OpenRequest(
                fs=self.fs,
                directory=(path or self.path) / partition.directory_name,
                clock=self.clock,
                config=LogConfig(**values | settings),
                clean_shutdown=True,
                is_sole_replica=False,
                on_failure=self.failures.append,
            )
        )
        self.logs[partition] = log
        self._opened.append(log)
        return log

    def close(self) -> None:
        for log in self._opened:
            log.close()


def put(log: PartitionLog, key: str, value: str = "value", *, timestamp: int = NOW, replicated: bool = True) -> None:
    """Append a batch of one record."""
    made = batch(0, [value.encode()], key=key.encode(), timestamp=timestamp)
    log.append_as_leader(bytearray(made), leader_epoch=0)
    if replicated:
        log.update_high_watermark(log.end_offset)


def fill(log: PartitionLog, batches: int, *, per_segment: int = 5) -> None:
    """Append ``batches`` records with different keys, and leave the last segment empty."""
    for number in range(batches):
        put(log, f"key-{log.end_offset}")
        if number % per_segment == 0:
            log.roll()
    log.roll()


def until_segments(log: PartitionLog, count: int, *, timestamp: int = NOW, replicated: bool = True) -> None:
    """Append until the log has ``count`` segments."""
    while len(log.base_offsets) < count:
        put(log, f"key-{log.end_offset}", timestamp=timestamp, replicated=replicated)
