"""A log's counters and metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_maker import BASE_TIME, batch, plain
from tidelog.model import CorruptRecordError, InvalidRecordError, RecordTooLargeError, Refusal
from tidelog.runtime import Clock, SystemClock
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig


def open_log(directory: Path, config: LogConfig | None = None, clock: Clock | None = None) -> PartitionLog:
    return PartitionLog.open(
        OpenRequest(
            fs=LOCAL,
            directory=directory / "t-0",
            clock=clock or SystemClock(),
            config=config or LogConfig(segment_index_bytes=4096),
            clean_shutdown=True,
        )
    )


def test_refused_appends_are_counted(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(max_message_bytes=300, cleanup_policy=frozenset({"compact"})))
    large = bytearray(plain(0, 20))
    size = len(large)
    with pytest.raises(RecordTooLargeError):
        log.append_as_leader(large, leader_epoch=0)
    damaged = bytearray(plain(0, 2))
    damaged[-1] ^= 1
    with pytest.raises(CorruptRecordError):
        log.append_as_leader(damaged, leader_epoch=0)
    with pytest.raises(InvalidRecordError):
        log.append_as_leader(bytearray(batch(0, [b"a", b"b"], key=None)), leader_epoch=0)
    with pytest.raises(InvalidRecordError):
        log.append_as_leader(bytearray(plain(5, 1)), leader_epoch=0)
    assert (log.counters.bytes_rejected, log.counters.invalid_crc) == (size, 1)
    assert log.counters.refused[Refusal.NO_KEY] == 2
    assert log.end_offset == 0
    log.close()


def test_converted_records_are_counted(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(compression_type="zstd"))
    log.append_as_leader(bytearray(plain(0, 7)), leader_epoch=0)
    assert log.counters.converted_records == 7
    log.close()


def test_records_that_stay_as_they_are_are_not_converted(tmp_path: Path) -> None:
    """Only the header of a batch gets the time of the append."""
    log = open_log(tmp_path, LogConfig(message_timestamp_type="LogAppendTime"))
    log.append_as_leader(bytearray(plain(0, 7)), leader_epoch=0)
    assert log.counters.converted_records == 0
    log.close()


def test_what_it_is(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=400, segment_index_bytes=4096))
    assert (log.metrics().segments, log.metrics().size, log.metrics().unflushed_records) == (1, 0, 0)
    sizes = 0
    for _ in range(3):
        content = bytearray(plain(0, 5, timestamp=BASE_TIME))
        sizes += len(content)
        log.append_as_leader(content, leader_epoch=0)
    log.maybe_increment_log_start_offset(3)
    metrics = log.metrics()
    assert (metrics.segments, metrics.size) == (3, sizes)
    assert (metrics.log_start_offset, metrics.log_end_offset, metrics.unflushed_records) == (3, 15, 12)
    log.close()


def test_flushes(tmp_path: Path) -> None:
    clock = SystemClock()
    log = open_log(tmp_path, clock=clock)
    log.append_as_leader(bytearray(plain(0, 5)), leader_epoch=0)
    before = clock.now_ms()
    assert log.counters.flushes == 0
    log.flush()
    assert (log.counters.flushes, log.metrics().unflushed_records) == (1, 0)
    assert log.metrics().last_flush_ms >= before
    log.close()
