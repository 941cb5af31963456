"""Concurrent events in a manager: changes of settings and creation, deletion without a delay, shutdown."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from log_maker import batch
from storage.manager.manager_home import CONFIG, HIGH_WATERMARK, LOG_START, NOW, DiskHome, content, fill, values
from tidelog.model import ClosedError, StorageError, TopicPartition
from tidelog.runtime import ThreadScheduler
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog

T0, T1 = (TopicPartition("t", number) for number in range(2))


@pytest.fixture
def home() -> Iterator[DiskHome]:
    made = DiskHome()
    yield made
    made.stop()


class TestSettings:
    @pytest.mark.parametrize("default", [False, True])
    def test_they_change_while_a_log_is_made(
        self, home: DiskHome, monkeypatch: pytest.MonkeyPatch, default: bool
    ) -> None:
        manager = home.start()
        changers: list[threading.Thread] = []

        def change() -> None:
            if default:
                manager.update_default_config(replace(CONFIG, retention_ms=77))
            else:
                home.topic_settings["t"] = {"retention.ms": "77"}
                manager.update_topic_config("t")

        load = PartitionLog.open

        def load_and_change(request: OpenRequest) -> PartitionLog:
            changers.append(threading.Thread(target=change))
            changers[-1].start()
            changers[-1].join(0.1)
            return load(request)

        monkeypatch.setattr(PartitionLog, "open", load_and_change)
        log = manager.get_or_create(T0)
        changers[0].join()
        assert log.config.retention_ms == 77

    def test_they_change_where_nothing_is(self, home: DiskHome) -> None:
        manager = home.start()
        manager.update_topic_config("t")
        manager.update_default_config(replace(CONFIG, retention_ms=78))
        assert manager.get_or_create(T0).config.retention_ms == 78

    def test_they_change_after_a_log_could_not_be_made(self, home: DiskHome) -> None:
        manager = home.start()
        fill(manager.get_or_create(T1), 1)
        for path in home.paths:
            home.break_disk(path)
        with pytest.raises(StorageError):
            manager.get_or_create(T0)
        home.topic_settings["t"] = {"retention.ms": "77"}
        manager.update_topic_config("t")
        assert manager.partitions() == []


def test_a_log_start_is_checkpointed_until_its_segment_is_the_first(home: DiskHome) -> None:
    manager = home.start()
    log = manager.get_or_create(T0)
    fill(log, 12)
    log.maybe_increment_log_start_offset(60)
    manager.checkpoint_log_starts()
    path = log.directory.parent
    assert home.checkpoint(path, LOG_START) == {T0: 60}
    log.delete_old_segments()
    manager.checkpoint_log_starts()
    assert log.log_start_offset == log.base_offsets[0] == 60
    assert home.checkpoint(path, LOG_START) == {}


def test_high_watermarks_come_back(home: DiskHome) -> None:
    manager = home.start(is_sole_replica=False)
    log = manager.get_or_create(T0)
    fill(log, 5)
    log.update_high_watermark(20)
    home.clock.sleep_ms(120_000)
    assert home.checkpoint(log.directory.parent, HIGH_WATERMARK) == {T0: 20}
    log.flush()
    home.kill(manager)
    assert home.start(is_sole_replica=False).require(T0).high_watermark == 20


def test_deletion_without_a_delay(home: DiskHome) -> None:
    scheduler = ThreadScheduler(2)
    scheduler.startup()
    config = replace(CONFIG, file_delete_delay_ms=0)
    manager = home.start(default_config=config, scheduler=scheduler, initial_task_delay_ms=0)
    log = manager.get_or_create(T0)
    manager.delete(T0)
    deadline = time.monotonic() + 60
    while home.disk.exists(log.directory) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not home.disk.exists(log.directory)
    begun = time.monotonic()
    manager.shutdown()
    scheduler.shutdown()
    assert time.monotonic() - begun < 60


def test_two_stops_are_one(home: DiskHome) -> None:
    manager = home.start()
    fill(manager.get_or_create(T0), 3)
    manager.shutdown()
    calls = len(home.disk.calls)
    manager.shutdown()
    assert len(home.disk.calls) == calls
    with pytest.raises(StorageError, match="the log manager is not running"):
        manager.get_or_create(T0)


def test_appenders_are_refused_after_the_end_and_what_they_were_told_is_there(home: DiskHome) -> None:
    manager = home.start()
    log = manager.get_or_create(T0)
    acknowledged = [0]

    def append() -> None:
        try:
            while True:
                fill(log, 1)
                acknowledged[0] = log.end_offset
        except ClosedError:
            pass

    thread = threading.Thread(target=append)
    thread.start()
    while acknowledged[0] < 100:
        time.sleep(0.001)
    manager.shutdown()
    thread.join()
    again = home.start().require(T0)
    assert not again.loaded.recovered
    assert again.end_offset >= acknowledged[0]
    assert content(again)


def test_silent_producers_are_forgotten(home: DiskHome) -> None:
    manager = home.start(default_config=replace(CONFIG, producer_id_expiration_ms=60_000))
    log = manager.get_or_create(T0)
    log.append_as_leader(bytearray(batch(0, [b"x"], timestamp=NOW, producer_id=7)), leader_epoch=0)
    home.clock.sleep_ms(50_000)
    assert list(log.producers) == [7]
    home.clock.sleep_ms(11 * 60_000)
    assert list(log.producers) == []


def test_everything_at_once(home: DiskHome) -> None:
    """Appends, moves, flushes and checkpoints run until a disk fails, and every acknowledged record survives."""
    scheduler = ThreadScheduler(4)
    scheduler.startup()
    often = {"retention_check_interval_ms": 5, "flush_scheduler_interval_ms": 5, "initial_task_delay_ms": 1}
    often |= {"recovery_point_checkpoint_interval_ms": 5, "log_start_checkpoint_interval_ms": 5}
    config = replace(CONFIG, flush_ms=1, retention_bytes=-1)
    manager = home.start(scheduler=scheduler, default_config=config, **often)
    partitions = [TopicPartition("t", number) for number in range(4)]
    for partition in partitions:
        manager.get_or_create(partition, is_new=True)
    acknowledged: dict[TopicPartition, dict[int, bytes]] = {partition: {} for partition in partitions}
    is_over = threading.Event()

    def append(partition: TopicPartition) -> None:
        number = 0
        while not is_over.is_set():
            value = b"%d" % number
            made = bytearray(batch(0, [value], timestamp=NOW))
            try:
                offsets = manager.require(partition).append_as_leader(made, leader_epoch=0).offsets
            except ClosedError:
                continue
            except StorageError:
                return
            acknowledged[partition][offsets.start] = value
            number += 1
            time.sleep(0.001)

    threads = [threading.Thread(target=append, args=(partition,)) for partition in partitions]
    for thread in threads:
        thread.start()
    for turn in range(12):
        if turn == 8:
            home.break_disk(home.paths[0])
        for partition in partitions:
            with suppress(StorageError):
                manager.move(partition, home.paths[(turn + partition.partition) % 2])
        time.sleep(0.05)
    is_over.set()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    manager.handle_failures()
    assert list(manager.offline) == [home.paths[0]]
    served = set(manager.partitions())
    manager.shutdown()
    scheduler.shutdown()
    home.disk.heal()
    for partition in served:
        old = home.paths[0] / partition.directory_name
        if home.disk.exists(old):  # the log continued in the other directory after the failure
            home.disk.rename(old, old.with_name(f"{old.name}.0-stray"))
    again = home.start()
    for partition in partitions:
        assert dict(values(again.require(partition))).items() >= acknowledged[partition].items()
        assert len(values(again.require(partition))) <= len(acknowledged[partition]) + 1
