"""The leader epoch file may lag: it is written before the recovery point moves, and without the log's lock."""

from __future__ import annotations

from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from log_maker import BASE_TIME, batch
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCheckpoint
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing import ManualClock, ManualScheduler


def opened(
    directory: Path, recovery_point: int = 0, *, clean: bool = True, scheduler: ManualScheduler | None = None
) -> PartitionLog:
    request = OpenRequest(
        fs=LOCAL,
        directory=directory,
        scheduler=scheduler,
        clock=ManualClock(BASE_TIME),
        config=LogConfig(segment_bytes=1000),
        clean_shutdown=clean,
        recovery_point=recovery_point,
    )
    return PartitionLog.open(request)


def append(log: PartitionLog, epoch: int, count: int = 5, value: bytes = b"x" * 300) -> None:
    for _ in range(count):
        records = bytearray(batch(0, [value], timestamp=BASE_TIME))
        log.append_as_leader(records, leader_epoch=epoch)


def written(log: PartitionLog) -> list[tuple[int, int]]:
    entries = LeaderEpochCheckpoint.read(LOCAL, log.directory / LEADER_EPOCH_CHECKPOINT)
    return [(entry.epoch, entry.start_offset) for entry in entries]


def test_an_epoch_that_begins_is_written_with_the_next_flush(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    log.begin_epoch(3)
    append(log, 3)
    assert log.epochs.entries == ((3, 0),)
    assert written(log) == []
    log.flush()
    assert written(log) == [(3, 0)]
    log.begin_epoch(4)
    log.close()
    assert written(log) == [(3, 0), (4, 5)]


def test_an_epoch_without_records_is_dropped_by_the_flush_after_the_load(tmp_path: Path) -> None:
    """Loading need not wait for the disk: the next loading drops that epoch, too."""
    log = opened(tmp_path / "t-0")
    append(log, 3)
    log.begin_epoch(4)
    log.close()
    log = opened(tmp_path / "t-0", log.recovery_point)
    assert log.epochs.entries == ((3, 0),)
    assert written(log) == [(3, 0), (4, 5)]
    log.close()
    assert written(log) == [(3, 0)]


def test_a_task_after_the_load_drops_an_epoch_without_records(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    append(log, 3)
    log.begin_epoch(4)
    log.close()
    scheduler = ManualScheduler(clock := ManualClock(BASE_TIME))
    scheduler.startup()
    log = opened(tmp_path / "t-0", log.recovery_point, scheduler=scheduler)
    assert written(log) == [(3, 0), (4, 5)]
    clock.sleep_ms(0)
    assert written(log) == [(3, 0)]
    log.close()
    log = opened(tmp_path / "t-0", log.recovery_point, scheduler=scheduler)
    assert not scheduler.tasks, "the file is up to date"
    log.close()


def test_a_killed_log_has_the_epochs_of_its_batches(tmp_path: Path) -> None:
    """The file still has the epoch without records, which another one has replaced."""
    log = opened(tmp_path / "t-0")
    append(log, 3)
    log.begin_epoch(4)
    log.close()
    log = opened(tmp_path / "t-0", log.recovery_point)
    log.begin_epoch(5)
    append(log, 5, 1)
    log.close_handlers()
    assert written(log) == [(3, 0), (4, 5)]
    again = opened(tmp_path / "t-0", 5, clean=False)
    assert again.epochs.entries == ((3, 0), (5, 5))
    assert written(again) == [(3, 0), (5, 5)]
    again.close()


@pytest.mark.parametrize("epoch", [3, 4])
def test_records_of_no_later_epoch_follow_one_that_had_none(tmp_path: Path, epoch: int) -> None:
    """A kill before the next flush must not bring back the epoch that loading has dropped."""
    log = opened(tmp_path / "t-0")
    append(log, 3, value=b"x")
    log.begin_epoch(4)
    log.close()
    log = opened(tmp_path / "t-0", log.recovery_point)
    assert log.segments[-1].roll_timestamp == BASE_TIME, "read now, it allows a plain append"
    append(log, epoch, 1, b"x")
    log.close_handlers()
    again = opened(tmp_path / "t-0", 5, clean=False)
    assert again.epochs.entries == (((3, 0),) if epoch == 3 else ((3, 0), (4, 5)))
    again.close()


@pytest.mark.parametrize("first", [3, 4])
def test_a_followers_records_of_no_later_epoch(tmp_path: Path, first: int) -> None:
    log = opened(tmp_path / "t-0")
    append(log, 3)
    log.begin_epoch(4)
    log.close()
    log = opened(tmp_path / "t-0", log.recovery_point)
    fetched = batch(5, [b"x"], epoch=first, timestamp=BASE_TIME) + batch(6, [b"x"], epoch=6, timestamp=BASE_TIME)
    log.append_as_follower(fetched, 6)
    known = log.epochs.entries
    log.close_handlers()
    again = opened(tmp_path / "t-0", 5, clean=False)
    assert again.epochs.entries == known
    again.close()


def test_an_entry_above_the_log_end_is_removed(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    append(log, 3)
    log.close()
    LeaderEpochCheckpoint.write(LOCAL, log.directory / LEADER_EPOCH_CHECKPOINT, [EpochEntry(3, 0), EpochEntry(4, 6)])
    log = opened(tmp_path / "t-0", log.recovery_point)
    assert written(log) == [(3, 0)]
    log.close()


def test_after_a_kill_it_is_found_in_the_batches(tmp_path: Path) -> None:
    log = opened(tmp_path / "t-0")
    log.begin_epoch(3)
    append(log, 3)
    log.flush()
    recovery_point = log.recovery_point
    log.begin_epoch(4)
    append(log, 4)
    log.close_handlers()
    assert written(log) == [(3, 0)]
    again = opened(tmp_path / "t-0", recovery_point, clean=False)
    assert again.epochs.entries == ((3, 0), (4, 5))
    assert written(again) == [(3, 0), (4, 5)]
    again.close()


def test_appends_do_not_wait_while_forgotten_epochs_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = opened(tmp_path / "t-0")
    for epoch in (1, 2, 3):
        log.begin_epoch(epoch)
        append(log, epoch)
    write = LeaderEpochCheckpoint.write
    appended = []

    def append_meanwhile(*args: Any, **options: Any) -> None:
        other = Thread(target=append, args=(log, 3, 1))
        other.start()
        other.join(60)
        appended.append(log.end_offset)
        write(*args, **options)

    monkeypatch.setattr(LeaderEpochCheckpoint, "write", append_meanwhile)
    log.maybe_increment_log_start_offset(7)
    assert appended == [16]
    assert written(log) == [(2, 7), (3, 10)]
    log.close()
