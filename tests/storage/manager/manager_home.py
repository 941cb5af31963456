"""Log directories for tests of a whole manager, and a clock and a scheduler that stand still until they are moved."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from log_maker import BASE_TIME, plain
from tidelog.model import TopicPartition
from tidelog.storage.checkpoint import OffsetCheckpoint
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.log.config import LogConfig
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.manager_settings import ManagerSettings
from tidelog.testing import HeldClock, HeldScheduler

NOW = BASE_TIME + 1_000_000
CONFIG = LogConfig(segment_index_bytes=4096, segment_bytes=1024)
MARKER = ".kafka_cleanshutdown"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"


class ManagerHome:
    def __init__(self, root: Path, directories: int = 2) -> None:
        self.paths = [root / f"disk{number}" for number in range(1, directories + 1)]
        self.clock = HeldClock(NOW)
        self.scheduler = HeldScheduler(self.clock)
        self.scheduler.startup()
        self.topic_settings: dict[str, dict[str, str]] = {}
        self.managers: list[LogManager] = []

    def make(self, *, fs: FileSystem = LOCAL, paths: list[Path] | None = None, **options: Any) -> LogManager:
        """Not started; ``options``: settings of the manager, or its parameters."""
        names = ManagerSettings.__slots__
        settings = {name: options.pop(name) for name in names if name in options}
        settings.setdefault("high_watermark_checkpoint_interval_ms", 60_000)  # the disk has better to do
        manager = LogManager(
            fs,
            paths or self.paths,
            settings=ManagerSettings(**settings),
            topic_settings=lambda topic: self.topic_settings.get(topic, {}),
            clock=self.clock,
            scheduler=self.scheduler,
            **{"default_config": CONFIG} | options,
        )
        self.managers.append(manager)
        return manager

    def start(self, **options: Any) -> LogManager:
        manager = self.make(**options)
        manager.startup()
        return manager

    def kill(self, manager: LogManager) -> None:
        """Locks and files are let go of, nothing is written."""
        self.managers.remove(manager)
        for task in self.scheduler.tasks:
            task.cancel()
        for log in [*manager.all_logs(), *manager.deleted_logs]:
            log.close_handlers()
        for directory in manager.online:
            directory.release()

    def stop(self) -> None:
        for manager in self.managers:
            manager.shutdown()

    def checkpoint(self, path: Path, name: str) -> Mapping[TopicPartition, int]:
        return OffsetCheckpoint.read(LOCAL, path / name)


def fill(log: PartitionLog, batches: int = 30, *, timestamp: int = NOW) -> None:
    """Batches of ten records; three of them fill a segment."""
    for _ in range(batches):
        log.append_as_leader(bytearray(plain(0, 10, timestamp=timestamp)), leader_epoch=0)
