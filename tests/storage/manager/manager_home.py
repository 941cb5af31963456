"""Log directories for tests of a manager, with a manual clock and a manual scheduler."""

from __future__ import annotations

import errno
from collections.abc import Set
from pathlib import Path
from typing import Any

from log_maker import BASE_TIME, plain
from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import Isolation, Record, TopicPartition
from tidelog.record.decode import decode_chunk, iter_records
from tidelog.storage.checkpoint import OffsetCheckpoint
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.log.partition_log import LogReadRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.manager_settings import ManagerSettings
from tidelog.testing import Chooser, DiskFault, ManualClock, ManualScheduler, SimulatedDisk
from tidelog.testing.disk.disk_calls import CHANGING_CALLS

NOW = BASE_TIME + 1_000_000
CONFIG = LogConfig(segment_index_bytes=4096, segment_bytes=1024)
MARKER = ".kafka_cleanshutdown"
RECOVERY_POINT = "recovery-point-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"


class ManagerHome:
    def __init__(self, root: Path, directories: int = 2, *, fs: FileSystem = LOCAL) -> None:
        self.fs = fs
        self.paths = [root / f"disk{number}" for number in range(1, directories + 1)]
        self.clock = ManualClock(NOW)
        self.scheduler = ManualScheduler(self.clock)
        self.scheduler.startup()
        self.topic_settings: dict[str, dict[str, str]] = {}
        self.managers: list[LogManager] = []

    def make(self, *, paths: list[Path] | None = None, **options: Any) -> LogManager:
        """Make a manager without starting it. ``options`` are its settings or parameters."""
        names = ManagerSettings.__slots__
        settings = {name: options.pop(name) for name in names if name in options}
        settings.setdefault("high_watermark_checkpoint_interval_ms", 60_000)  # tests need fewer writes
        manager = LogManager(
            self.fs,
            paths or self.paths,
            settings=ManagerSettings(**settings),
            topic_settings=lambda topic: self.topic_settings.get(topic, {}),
            clock=self.clock,
            scheduler=options.pop("scheduler", self.scheduler),
            **{"default_config": CONFIG} | options,
        )
        self.managers.append(manager)
        return manager

    def start(self, **options: Any) -> LogManager:
        manager = self.make(**options)
        manager.startup()
        return manager

    def kill(self, manager: LogManager) -> None:
        """Release locks and close files without writing anything."""
        self.forget(manager)
        for log in [*manager.all_logs(), *manager.deleted_logs]:
            log.close_handlers()
        for directory in manager.online:
            directory.release()

    def forget(self, manager: LogManager) -> None:
        """Stop the manager's tasks and cleaner, as if its process had ended."""
        self.managers.remove(manager)
        if manager.cleaner is not None:
            manager.cleaner.shutdown()
        for task in self.scheduler.tasks:
            task.cancel()

    def stop(self) -> None:
        for manager in self.managers:
            manager.shutdown()

    def checkpoint(self, path: Path, name: str) -> dict[TopicPartition, int]:
        return dict(OffsetCheckpoint.read(self.fs, path / name))


class DiskHome(ManagerHome):
    """A manager's directories on a simulated disk that may lose power or fail: ``/disk1``, ``/disk2`` and so on."""

    def __init__(self, directories: int = 2) -> None:
        super().__init__(Path("/"), directories)
        self.disk = SimulatedDisk(clock=self.clock)
        self.fs = self.disk

    def crash(self, manager: LogManager, choice: Chooser | int = 0) -> None:
        """Crash the disk. ``choice`` decides which unsynced data survives."""
        self.forget(manager)
        self.disk.crash()
        self.fs = self.disk = self.disk.after_crash(choice)

    def break_disk(self, path: Path, number: int = errno.EIO, calls: Set[str] = CHANGING_CALLS) -> DiskFault:
        """Make these calls fail below ``path``, and return the fault for ``disk.heal``."""
        return self.disk.fail(DiskFault(errno=number, calls=calls, below=path))


def fill(log: PartitionLog, batches: int = 30, *, timestamp: int = NOW) -> None:
    """Append batches of ten records. Three of them fill a segment."""
    for _ in range(batches):
        log.append_as_leader(bytearray(plain(0, 10, timestamp=timestamp)), leader_epoch=0)


def content(log: PartitionLog) -> bytes:
    """Return the batches from the log start to the log end, and check that they are consecutive."""
    found, offset = bytearray(), log.log_start_offset
    while offset < log.end_offset:
        part = log.read(LogReadRequest(start_offset=offset, max_bytes=1 << 20, isolation=Isolation.LOG_END)).data()
        table = scan_batches(part)
        if not len(table):  # a power cut lost the records before the last, empty segment
            break
        assert all(table.crc_ok)
        assert table.base_offset[0] >= offset or not found
        assert all(table.base_offset[1:] > table.last_offset[:-1])
        offset = int(table.last_offset[-1]) + 1
        found += part
    return bytes(found)


def records(log: PartitionLog) -> list[Record]:
    """Return the records from the log start on."""
    batches, decoder = content(log), ColumnDecoder(start_offset=log.log_start_offset)
    decode_chunk(batches, scan_batches(batches), decoder)
    return list(iter_records(decoder.finish()))


def values(log: PartitionLog) -> list[tuple[int, bytes]]:
    """Return offset and value of every record from the log start on."""
    return [(record.offset, record.value or b"") for record in records(log)]
