"""Applying the metadata: logs are created, served and closed, and listeners are notified."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from server.replicas.replica_home import NODE, T0, ReplicaHome, records, soon
from tidelog.model import StorageError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode

FOLLOWER = 2


def code_of(home: ReplicaHome, name: TopicPartition) -> ErrorCode:
    with pytest.raises(ApiError) as error:
        home.partition(name)
    return error.value.code


def test_a_new_topic_has_logs_and_is_led(home: ReplicaHome) -> None:
    topic = home.create("t", 3)
    assert home.logs.partitions() == [TopicPartition("t", number) for number in range(3)]
    assert home.log().topic_id == topic.id
    assert home.replicas.by_topic_id(topic.id, 2) is home.partition(TopicPartition("t", 2))


def test_who_asks_for_what_is_not_here_is_told_why(home: ReplicaHome) -> None:
    topic = home.create("elsewhere", replicas=(FOLLOWER,), isr=(FOLLOWER,), leader=FOLLOWER)
    assert code_of(home, TopicPartition("elsewhere", 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(home, TopicPartition("elsewhere", 1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(home, TopicPartition("nowhere", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ApiError, check=lambda error: error.code is ErrorCode.UNKNOWN_TOPIC_ID):
        home.replicas.by_topic_id(UUID(int=1), 0)
    with pytest.raises(ApiError, check=lambda error: error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        home.replicas.by_topic_id(topic.id, 1)
    assert home.logs.partitions() == []


def test_a_deleted_topic_is_gone_at_once_and_its_log_with_it(home: ReplicaHome) -> None:
    home.create("t")
    partition = home.partition()

    async def scenario() -> None:
        following = home.replicas.follow(home.deletion("t"))
        task = asyncio.ensure_future(following)
        await asyncio.sleep(0)
        with pytest.raises(ApiError, check=lambda error: error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            partition.append(records())
        await task

    home.run(scenario())
    assert code_of(home, T0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert home.logs.partitions() == []


def test_a_topic_that_is_made_again_begins_empty(home: ReplicaHome) -> None:
    home.create("t")
    home.partition().append(records())
    home.delete("t")
    topic = home.create("t")
    assert (home.log().end_offset, home.log().topic_id) == (0, topic.id)


def test_a_change_waits_until_the_one_before_it_is_carried_out(home: ReplicaHome) -> None:
    old = home.create("t")
    home.partition().append(records())
    deletion = home.deletion("t")

    async def scenario() -> None:
        thread = asyncio.Event()
        home.replicas._in_thread = busy_until(thread)
        deleting = await soon(home.replicas.follow(deletion))
        creation = home.creation("t")
        preparing = await soon(home.replicas.prepare(creation))
        settled = await soon(home.replicas.settled())
        assert (preparing.done(), settled.done()) == (False, False)
        thread.set()
        await asyncio.gather(deleting, preparing, settled)
        await home.replicas.follow(creation)

    home.run(scenario())
    assert home.log().end_offset == 0
    assert home.log().topic_id != old.id


def test_a_new_partition_is_led_in_the_step_that_the_image_gets_it(home: ReplicaHome) -> None:
    async def scenario() -> None:
        creation = home.creation("t", 2)
        await home.replicas.prepare(creation)
        assert code_of(home, T0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        following = home.replicas.follow(creation)
        assert [home.partition(TopicPartition("t", number)).high_watermark for number in range(2)] == [0, 0]
        await following

    home.run(scenario())


def busy_until(event: asyncio.Event) -> Any:
    async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
        await event.wait()
        return function(*args)

    return in_thread


def test_everything_is_there_again_after_a_restart(home: ReplicaHome) -> None:
    home.create("t", 2, leader_epoch=2)
    home.partition().append(records(b"a", b"b"))
    home.restart()
    assert home.partition().high_watermark == 2
    assert home.partition(TopicPartition("t", 1)).leader_epoch == 2


def test_a_log_that_is_missing_at_the_start_is_made(home: ReplicaHome) -> None:
    home.create("t")
    home.logs.delete(T0)
    home.restart()
    assert home.log().end_offset == 0


def test_settings_of_a_topic_reach_its_logs(home: ReplicaHome) -> None:
    home.create("t")
    home.set_config("t", max_message_bytes="100", min_insync_replicas="2")
    assert (home.log().config.max_message_bytes, home.log().config.min_insync_replicas) == (100, 2)


def test_a_log_that_cannot_be_made_is_one_of_an_offline_directory(
    home: ReplicaHome, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "t-0").write_text("in the way")
    with caplog.at_level(logging.ERROR):
        home.create("t")
    assert "t-0" in caplog.text
    with pytest.raises(ApiError, check=lambda error: error.code is ErrorCode.KAFKA_STORAGE_ERROR):
        home.partition().append(records())


def test_an_epoch_that_cannot_be_noted_is_not_led_in(
    home: ReplicaHome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elected: list[int] = []
    home.replicas.add_leader_listener("t", lambda _number, epoch: elected.append(epoch), lambda _number: None)
    home.create("t")

    def refuse(_epoch: int) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(home.log(), "begin_epoch", refuse)
    with caplog.at_level(logging.ERROR):
        home.change(T0, leader_epoch=1, partition_epoch=1)
    assert "This broker cannot lead t-0: the disk is full" in caplog.text
    assert elected == [0]


# --- listeners ---


def test_a_listener_is_told_of_elections_and_resignations(home: ReplicaHome) -> None:
    told: list[tuple[str, int, int]] = []

    def listen() -> None:
        home.replicas.add_leader_listener(
            "t",
            lambda number, epoch: told.append(("on", number, epoch)),
            lambda number: told.append(("off", number, 0)),
        )

    home.create("t", 2)
    listen()
    assert told == [("on", 0, 0), ("on", 1, 0)]
    told.clear()
    home.create("u")
    home.change(T0, leader_epoch=1, partition_epoch=1)
    home.change(T0, partition_epoch=2)
    home.change(T0, leader=FOLLOWER, replicas=(NODE, FOLLOWER), leader_epoch=2, partition_epoch=3)
    home.change(T0, leader=-1, leader_epoch=3, partition_epoch=4)
    home.delete("t")
    assert told == [("on", 0, 1), ("off", 0, 0), ("off", 1, 0)]
