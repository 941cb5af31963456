"""A partition directory for tests of a complete log: its clock, its replicated log, its files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from log_maker import BASE_TIME, batch, plain
from tidelog.kernel import scan_batches
from tidelog.model import Isolation
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.partition_log import LogRead, LogReadRequest, OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing import ManualClock

NOW = BASE_TIME + 1_000_000
RECORD_BYTES = len(plain(0, 1))
"""The size of the batch that ``LogHarness.add`` appends."""
_REQUEST = {field.name for field in fields(OpenRequest)}


class LogHarness:
    """A log with replicas: its high watermark moves only when a test updates it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = ManualClock(NOW)
        self._opened: list[PartitionLog] = []

    def open(self, *, clean: bool = True, log_start: int = 0, **options: Any) -> PartitionLog:
        """Open the log. ``options`` are fields of the request or settings of the log."""
        request: dict[str, Any] = {"fs": LOCAL, "is_sole_replica": False}
        request |= {name: options.pop(name) for name in _REQUEST & options.keys()}
        made = OpenRequest(
            directory=self.directory,
            clock=self.clock,
            config=LogConfig(**({"segment_index_bytes": 4096} | options)),
            clean_shutdown=clean,
            log_start_offset=log_start,
            **request,
        )
        self._opened.append(PartitionLog.open(made))
        return self._opened[-1]

    def close(self) -> None:
        for log in self._opened:
            log.close()

    def add(self, log: PartitionLog, count: int = 1, *, epoch: int = 0, timestamp: int = NOW) -> None:
        """Append ``count`` batches of one record each as the leader."""
        for _ in range(count):
            log.append_as_leader(bytearray(plain(0, 1, timestamp=timestamp)), leader_epoch=epoch)

    def produce(
        self, log: PartitionLog, values: Sequence[bytes], *, producer_id: int, sequence: int, **fields: Any
    ) -> AppendResult:
        """Append one batch of a producer."""
        made = batch(0, values, timestamp=self.clock.now, producer_id=producer_id, sequence=sequence, **fields)
        return log.append_as_leader(bytearray(made), leader_epoch=0)

    def files(self, suffix: str) -> list[int]:
        """Return the offsets in the names of the files with this suffix, ascending."""
        return sorted(int(path.name[:20]) for path in self.directory.glob(f"{'[0-9]' * 20}{suffix}"))

    def epochs(self) -> list[tuple[int, int]]:
        """Return (epoch, start offset) pairs from the checkpoint on disk."""
        return [
            (epoch, start)
            for epoch, start in LeaderEpochCheckpoint.read(LOCAL, self.directory / LEADER_EPOCH_CHECKPOINT)
        ]


def lead(log: PartitionLog, content: bytes, **options: Any) -> range:
    """Append as the leader, with epoch 0 by default, and return the offsets."""
    return log.append_as_leader(bytearray(content), **({"leader_epoch": 0} | options)).offsets


def fetch(log: PartitionLog, start: int, isolation: Isolation = Isolation.LOG_END) -> LogRead:
    return log.read(LogReadRequest(start_offset=start, isolation=isolation, max_bytes=1 << 20))


def read(log: PartitionLog, start: int, isolation: Isolation = Isolation.LOG_END) -> list[int]:
    """Return the base offsets of the batches that one read returns."""
    offsets: list[int] = scan_batches(fetch(log, start, isolation).data()).base_offset.tolist()
    return offsets
