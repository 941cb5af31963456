"""Logs compacted by the cleaner's threads while they are written to: full rounds, real threads, every codec."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from legacy_messages import Message, encode_set
from storage.cleaner.cleaner_home import BOTH, HOUR, NOW, CleanerHome
from storage.manager.manager_home import records
from tidelog.model import Record, TimestampType, TopicPartition
from tidelog.record.build import build_batch
from tidelog.storage.checkpoint import CLEANER_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings
from tidelog.storage.cleaner.pool.cleaner_metrics import cleaner_samples
from tidelog.storage.cleaner.pool.cleaner_state import CleanerState
from tidelog.storage.cleaner.pool.log_cleaner import LogCleaner
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import PartitionLog

T0, T1, T2 = (TopicPartition("log", number) for number in range(3))
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
OLD_CODECS = range(4)
"""The codecs of formats v0 and v1, which do not support zstd."""

Written = dict[int, tuple[str, int]]
"""The value and offset of each key's last record."""


class Round:
    """Logs, the cleaner that compacts them, and a counter that makes every value unique."""

    def __init__(self, home: CleanerHome) -> None:
        self.home = home
        self.counter = 0
        self.state = CleanerState(home.fs, [home.path, home.other], lambda: home.logs, clock=home.clock)
        self.cleaner = LogCleaner(
            self.state, CleanerSettings(backoff_ms=2, dedupe_buffer_bytes=1 << 20), clock=home.clock
        )

    def open(self, partition: TopicPartition = T0, **settings: Any) -> PartitionLog:
        defaults = {"segment_bytes": 2048, "min_cleanable_dirty_ratio": 0.0, "segment_index_bytes": 4096}
        return self.home.open(partition, **defaults | settings)

    def write(
        self,
        log: PartitionLog,
        keys: Sequence[int],
        *,
        times: int = 3,
        codec: str = "none",
        value: str | None = None,
        timestamp: int | None = None,
    ) -> Written:
        """Append each key ``times`` times, a batch per record. Return the records that a full read must find."""
        written = {}
        for _ in range(times):
            for key in keys:
                text = str(self.counter) if value is None else value
                self.counter += 1
                record = Record(0, timestamp or self.home.clock.now, TimestampType.CREATE, b"%d" % key, text.encode())
                written[key] = (text, log.end_offset)
                log.append_as_leader(build_batch([record], codec=codec), leader_epoch=0)
                log.update_high_watermark(log.end_offset)
        return written

    def write_old(
        self, log: PartitionLog, keys: Sequence[int], magic: int, codec: int, *, times: int, is_one_set: bool = False
    ) -> Written:
        """Append messages of format v0 or v1, each in its own set or all in one."""
        messages = []
        for number in range(times * len(keys)):
            text = str(self.counter)
            self.counter += 1
            key = keys[number % len(keys)]
            messages.append(Message(log.end_offset + number, NOW, b"%d" % key, text.encode()))
        for some in [messages] if is_one_set else [[message] for message in messages]:
            log.append_as_follower(encode_set(some, magic, codec), 0)
        log.update_high_watermark(log.end_offset)
        return {int(one.key or b""): ((one.value or b"").decode(), one.offset) for one in messages}

    def cleaned(self, log: PartitionLog, partition: TopicPartition = T0, offset: int | None = None) -> None:
        """Wait until all but the active segment is compacted."""
        assert self.state.await_cleaned(partition, log.base_offsets[-1] if offset is None else offset, 60_000)

    def gauge(self, name: str) -> float:
        """Return a gauge of the first log directory."""
        samples = cleaner_samples(self.cleaner, [self.home.path])
        return next(sample.values["Value"] for sample in samples if sample.name.name == name)


@pytest.fixture
def round_(home: CleanerHome) -> Iterator[Round]:
    made = Round(home)
    yield made
    made.cleaner.shutdown()


def found(log: PartitionLog) -> Written:
    return {int(one.key or b""): ((one.value or b"").decode(), one.offset) for one in records(log)}


def until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def damage(log: PartitionLog) -> None:
    """Write over the first bytes of a batch's records in the second segment."""
    path = log.segments[1].path
    content = bytearray(path.read_bytes())
    content[61:64] = b"\xff" * 3
    path.write_bytes(content)


@pytest.mark.parametrize("codec", CODECS)
def test_in_several_rounds(round_: Round, codec: str) -> None:
    log = round_.open(max_message_bytes=500)
    written = round_.write(log, range(50), codec=codec)
    size = log.size
    round_.cleaner.startup()
    round_.cleaned(log)
    assert log.size < size
    assert found(log) == written

    written |= round_.write(log, [20], times=1, codec=codec, value="x" * 128)
    written |= round_.write(log, range(21, 71), codec=codec)
    round_.cleaned(log)
    assert found(log) == written
    assert log.size < size

    del round_.home.logs[T0]
    round_.state.forget(round_.home.path, T0)
    assert OffsetCheckpoint.read(LOCAL, round_.home.path / CLEANER_CHECKPOINT) == {}


@pytest.mark.parametrize("codec", CODECS)
def test_with_retention(round_: Round, codec: str) -> None:
    log = round_.open(cleanup_policy=BOTH, retention_ms=HOUR)
    round_.write(log, range(30), codec=codec)
    size, active = log.size, log.base_offsets[-1]
    round_.cleaner.startup()
    round_.cleaned(log, offset=active)
    assert log.size < size

    end = log.end_offset
    for segment in log.segments:  # an empty segment is as old as its file
        os.utime(segment.path, (NOW / 1000, NOW / 1000))
    round_.home.clock.now += 2 * HOUR
    until(lambda: (log.log_start_offset, log.base_offsets) == (end, [end]))

    written = round_.write(log, range(20), codec=codec)
    round_.cleaned(log)
    assert found(log) == written


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_old_formats_and_the_new_one_in_one_log(round_: Round, codec: int) -> None:
    log = round_.open()
    written = round_.write_old(log, range(20), 0, codec, times=8)
    size = log.size
    round_.cleaner.startup()
    round_.cleaned(log)
    assert log.size < size
    assert found(log) == written

    written |= round_.write_old(log, range(10), 0, codec, times=3)
    written |= round_.write_old(log, range(15, 35), 1, codec, times=3)
    written |= round_.write(log, range(8, 13), codec=CODECS[codec])
    size = log.size
    round_.cleaned(log)
    until(lambda: log.size < size)
    assert found(log) == written


@pytest.mark.parametrize("codec", OLD_CODECS)
def test_nested_messages_of_old_formats(round_: Round, codec: int) -> None:
    log = round_.open(segment_bytes=256)
    written = round_.write_old(log, [0, 1], 0, codec, times=3, is_one_set=True)
    written |= round_.write_old(log, [3, 4], 0, codec, times=2, is_one_set=True)
    for first in (4, 4, 6):
        written |= round_.write_old(log, [first, first + 1], 1, codec, times=2, is_one_set=True)
    size = log.size
    assert log.base_offsets[-1] > 10  # both formats are compacted
    round_.cleaner.startup()
    round_.cleaned(log)
    assert log.size < size
    assert found(log) == written


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_young_waits(round_: Round, codec: str) -> None:
    log = round_.open(min_compaction_lag_ms=HOUR, segment_bytes=512)
    written = round_.write(log, range(30), codec=codec)
    size, active = log.size, log.base_offsets[-1]
    round_.cleaner.startup()
    round_.home.clock.now += HOUR // 2
    assert not round_.state.await_cleaned(T0, 1, 10)
    assert log.size == size

    round_.home.clock.now += HOUR // 2 + 1
    written |= round_.write(log, range(30), codec=codec)
    round_.cleaned(log, offset=active)
    assert found(log) == written
    assert sum(one.size for one in log.segments if one.base_offset < active) < size
    assert round_.state.checkpoint_of(round_.home.path)[T0] <= log.base_offsets[-1]


def test_what_has_waited_too_long_is_due_whatever_the_ratio(round_: Round) -> None:
    lags: dict[str, Any] = {"min_compaction_lag_ms": HOUR, "max_compaction_lag_ms": 6 * HOUR}
    log = round_.open(segment_bytes=512, min_cleanable_dirty_ratio=1.0, **lags)
    round_.write(log, range(50))
    size, active = log.size, log.base_offsets[-1]
    round_.cleaner.startup()
    round_.home.clock.now += 3 * HOUR
    assert not round_.state.await_cleaned(T0, 1, 10)
    assert log.size == size

    round_.home.clock.now += 3 * HOUR + 1
    written = round_.write(log, range(50), times=1, value="0")
    log.roll()
    round_.cleaned(log, offset=active)
    assert len(records(log)) > 50  # the second part stays: too young and not dirty enough

    round_.home.clock.now += 6 * HOUR + 1
    round_.cleaned(log)
    assert found(log) == written
    assert len(records(log)) == 50


def test_logs_that_cannot_be_compacted_are_set_aside_and_the_rest_go_on(round_: Round) -> None:
    logs = {partition: round_.open(partition) for partition in (T0, T1, T2)}
    for partition in (T0, T1):
        round_.write(logs[partition], range(60))
        damage(logs[partition])
    written = round_.write(logs[T2], range(60))
    round_.cleaner.startup()
    round_.cleaned(logs[T2], T2)
    assert found(logs[T2]) == written
    until(lambda: round_.gauge("uncleanable-partitions-count") == 2)
    dirty = [sum(one.size for one in logs[partition].segments[:-1]) for partition in (T0, T1)]
    assert round_.gauge("uncleanable-bytes") == sum(dirty)
    assert str(logs[T0].segments[1].path) in round_.state.uncleanable()[T0].reason
    del round_.home.logs[T0]
    assert round_.gauge("uncleanable-partitions-count") == 1
    assert list(round_.state.uncleanable()) == [T1]


@pytest.mark.parametrize("codec", CODECS)
def test_settings_change_while_it_runs(round_: Round, codec: str) -> None:
    """New settings take effect although the threads wait for a backoff of an hour."""
    log = round_.open()
    written = round_.write(log, range(40), codec=codec)
    size = log.size
    round_.cleaner.reconfigure(CleanerSettings(dedupe_buffer_bytes=1 << 20, backoff_ms=3_600_000))
    with round_.state.paused(T0):
        round_.cleaner.startup()
        until(lambda: round_.state.max_dirty_ratio == 0)
    assert not round_.state.await_cleaned(T0, 1, 10)
    round_.cleaner.reconfigure(CleanerSettings(dedupe_buffer_bytes=1 << 21, backoff_ms=1, threads=2))
    assert len(round_.cleaner.threads) == 2
    round_.cleaned(log)
    assert log.size < size
    assert found(log) == written


def test_several_threads_share_the_logs(round_: Round) -> None:
    partitions = [TopicPartition("log", number) for number in range(8)]
    written = {partition: round_.write(round_.open(partition), range(30)) for partition in partitions}
    round_.cleaner.reconfigure(CleanerSettings(dedupe_buffer_bytes=1 << 22, backoff_ms=1, threads=3))
    round_.cleaner.startup()
    for partition in partitions:
        round_.cleaned(round_.home.logs[partition], partition)
        assert found(round_.home.logs[partition]) == written[partition]


def test_keys_that_do_not_fit_into_the_map_at_once(round_: Round) -> None:
    log = round_.open()
    written = round_.write(log, range(100))
    small = CleanerSettings(dedupe_buffer_bytes=24 * 70, backoff_ms=1)
    round_.cleaner.reconfigure(small)
    round_.cleaner.startup()
    round_.cleaned(log)
    until(lambda: len(records(log)) < 250)
    assert found(log) == written
    assert round_.state.uncleanable() == {}
