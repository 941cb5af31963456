"""A truncation's effect on epochs, recovery point and snapshots, and the same effect of loading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from log_maker import BASE_TIME
from tidelog.record.build import build_batch
from tidelog.record.rows import columns_from_lists
from tidelog.storage.epoch import EpochEntry
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing import ManualClock

Open = Callable[..., PartitionLog]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Open]:
    opened: list[PartitionLog] = []

    def make(*, config: LogConfig | None = None, **request: Any) -> PartitionLog:
        log = PartitionLog.open(
            OpenRequest(
                fs=LOCAL,
                directory=tmp_path / "t-0",
                clock=ManualClock(BASE_TIME),
                config=config or LogConfig(segment_index_bytes=4096),
                **({"clean_shutdown": True, "is_sole_replica": False} | request),
            )
        )
        opened.append(log)
        return log

    yield make
    for log in opened:
        log.close()


def append(log: PartitionLog, records: int, **fields: Any) -> None:
    columns = columns_from_lists([b"v"] * records, timestamps=[BASE_TIME] * records)
    log.append_as_leader(bytearray(build_batch(columns, **fields)), leader_epoch=log.epochs.latest or 0)


def test_at_or_past_the_end_it_forgets_epochs_that_begin_at_the_log_end(open_log: Open) -> None:
    """A leader may note an epoch without writing in it. A truncation above the log end removes it, too."""
    log = open_log()
    append(log, 3)
    log.assign_epoch(1, 3)
    assert not log.truncate_to(10)
    assert log.epochs.entries == (EpochEntry(0, 0),)


def test_the_recovery_point_does_not_come_up_to_the_log_start(open_log: Open) -> None:
    log = open_log()
    log.truncate_fully_and_start_at(20)
    append(log, 10)
    assert (log.log_start_offset, log.recovery_point) == (20, 0)
    assert log.truncate_to(25)
    assert (log.log_start_offset, log.recovery_point) == (20, 0)


def test_loading_brings_the_recovery_point_up_to_the_log_start(open_log: Open) -> None:
    log = open_log()
    log.truncate_fully_and_start_at(20)
    append(log, 10)
    log.close_handlers()
    again = open_log(clean_shutdown=False)
    assert (again.log_start_offset, again.recovery_point) == (20, 20)


def test_a_log_that_starts_anew_removes_snapshots_at_once(open_log: Open) -> None:
    log = open_log()
    append(log, 10)
    log.roll()
    append(log, 10)
    log.truncate_fully_and_start_at(5)
    names = {path.name[20:] for path in log.directory.iterdir() if path.name.endswith(".deleted")}
    assert names == {".log.deleted", ".index.deleted", ".timeindex.deleted"}


def test_an_epoch_noted_too_far_begins_with_its_first_batch(open_log: Open) -> None:
    log = open_log()
    log.assign_epoch(2, 28)
    append(log, 3)
    assert log.epochs.entries == (EpochEntry(2, 0),)
    log.truncate_to(0)
    log.assign_epoch(3, 28)
    append(log, 3, producer_id=1, producer_epoch=0, base_sequence=0)
    assert log.epochs.entries == (EpochEntry(3, 0),)


def test_a_duplicate_flushes_nothing(open_log: Open) -> None:
    log = open_log(config=LogConfig(flush_messages=5))
    append(log, 4, producer_id=1, producer_epoch=0, base_sequence=0)
    log.update_config(LogConfig(flush_messages=2))
    append(log, 4, producer_id=1, producer_epoch=0, base_sequence=0)
    assert log.recovery_point == 0
    append(log, 1)
    assert log.recovery_point == 5


def test_an_append_of_nothing_flushes_nothing(open_log: Open) -> None:
    log = open_log(config=LogConfig(flush_messages=5))
    append(log, 4)
    log.update_config(LogConfig(flush_messages=2))
    log.append_as_leader(bytearray(), leader_epoch=0)
    assert log.recovery_point == 0
    append(log, 1)
    assert log.recovery_point == 5


def test_below_the_log_start_everything_comes_down(open_log: Open) -> None:
    log = open_log(is_sole_replica=True)
    append(log, 10)
    log.maybe_increment_log_start_offset(7)
    assert log.truncate_to(5)
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (5, 5, 5)
