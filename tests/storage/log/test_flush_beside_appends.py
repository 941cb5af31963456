"""Appends that continue while the disk is busy with a flush: the next flush makes them durable."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from log_maker import BASE_TIME, plain
from tidelog.kernel import scan_batches
from tidelog.storage.index import OffsetIndexReader
from tidelog.storage.log.partition_log import LogReadRequest, OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing import DiskFault, Lost, ManualClock, SimulatedDisk

ROOT = Path("/logs")
BEFORE, MEANWHILE = 10, 70


class BusyDisk(ManualClock):
    """A clock that lets another thread run once while the disk waits. That thread may wait for the flush's lock."""

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        super().__init__(BASE_TIME)
        self.thread = threading.Thread(target=meanwhile)

    def sleep_ms(self, duration_ms: int) -> None:
        if self.thread.ident is None:
            self.thread.start()
            self.thread.join(0.2)


@pytest.mark.parametrize("rolls", [False, True])
@pytest.mark.parametrize(
    ("call", "file"),
    [
        ("pwrite", "*.index"),
        ("pwrite", "*.timeindex"),
        ("sync", "*.log"),
        ("sync", "*.index"),
        ("sync", "*.timeindex"),
        ("sync", "*.snapshot"),
        ("sync_dir", "*"),
    ],
)
def test_what_is_written_during_a_flush_is_safe_after_the_next(call: str, file: str, rolls: bool) -> None:
    def meanwhile() -> None:
        for _ in range(MEANWHILE):
            log.append(bytearray(plain(0, 1)))
        if rolls:
            log.roll()

    clock = BusyDisk(meanwhile)
    disk = SimulatedDisk(clock=clock)
    disk.make_dir(ROOT)
    disk.sync_all()
    log = load(disk, recovery_point=0)
    for _ in range(BEFORE // 2):
        log.append(bytearray(plain(0, 1)))
    log.roll()
    for _ in range(BEFORE // 2):
        log.append(bytearray(plain(0, 1)))
    busy = disk.fail(DiskFault(delay_ms=1, calls={call}, pattern=file))
    log.flush()
    clock.thread.join()
    disk.heal(busy)
    assert log.end_offset == BEFORE + MEANWHILE
    assert log.flush() == BEFORE + MEANWHILE
    found = disk.after_crash(Lost())
    again = load(found, recovery_point=log.recovery_point)
    assert [read_one(again, offset) for offset in range(BEFORE + MEANWHILE)] == list(range(BEFORE + MEANWHILE))
    log.close()
    for path, data in disk.files().items():
        if path.suffix == ".index" and data:
            base = int(path.stem)
            offsets = OffsetIndexReader(data, base).entries()[0].tolist()
            last = BEFORE // 2 if base == 0 else BEFORE + MEANWHILE
            assert offsets == list(range(base + 1, last)), "an entry for each batch but the first"


def read_one(log: PartitionLog, offset: int) -> int:
    """Return the first offset that a read from ``offset`` returns."""
    data = log.read(LogReadRequest(start_offset=offset, max_bytes=1)).data()
    return int(scan_batches(data).base_offset[0])


def load(disk: SimulatedDisk, *, recovery_point: int) -> PartitionLog:
    return PartitionLog.open(
        OpenRequest(
            fs=disk,
            directory=ROOT / "t-0",
            clock=ManualClock(BASE_TIME),
            config=LogConfig(index_interval_bytes=1, segment_index_bytes=4096),
            clean_shutdown=False,
            recovery_point=recovery_point,
        )
    )
