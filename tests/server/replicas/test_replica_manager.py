"""Applying the metadata: logs are created, served and closed, and listeners are notified."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from server.replicas.replica_harness import NODE, T0, ReplicaHarness, records, soon
from tidelog.model import StorageError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.metadata.partition_state import LOST, UNASSIGNED
from tidelog.server.replicas import replica_manager
from tidelog.storage.checkpoint import MetaProperties
from tidelog.storage.fs import LOCAL

FOLLOWER = 2
BOTH: dict[str, Any] = {"replicas": (NODE, FOLLOWER), "isr": (NODE, FOLLOWER)}


def code_of(harness: ReplicaHarness, name: TopicPartition) -> ErrorCode:
    with pytest.raises(ApiError) as error:
        harness.partition(name)
    return error.value.code


def test_a_new_topic_has_logs_and_is_led(harness: ReplicaHarness) -> None:
    topic = harness.create("t", 3)
    assert harness.logs.partitions() == [TopicPartition("t", number) for number in range(3)]
    assert harness.log().topic_id == topic.id
    assert harness.replicas.by_topic_id(topic.id, 2) is harness.partition(TopicPartition("t", 2))


def test_who_asks_for_what_is_not_here_is_told_why(harness: ReplicaHarness) -> None:
    topic = harness.create("elsewhere", replicas=(FOLLOWER,), isr=(FOLLOWER,), leader=FOLLOWER)
    assert code_of(harness, TopicPartition("elsewhere", 0)) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert code_of(harness, TopicPartition("elsewhere", 1)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert code_of(harness, TopicPartition("nowhere", 0)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    with pytest.raises(ApiError, check=lambda error: error.code is ErrorCode.UNKNOWN_TOPIC_ID):
        harness.replicas.by_topic_id(UUID(int=1), 0)
    with pytest.raises(ApiError, check=lambda error: error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        harness.replicas.by_topic_id(topic.id, 1)
    assert harness.logs.partitions() == []


def test_a_deleted_topic_is_gone_at_once_and_its_log_with_it(harness: ReplicaHarness) -> None:
    harness.create("t")
    partition = harness.partition()

    async def scenario() -> None:
        following = harness.replicas.follow(harness.deletion("t"))
        task = asyncio.ensure_future(following)
        await asyncio.sleep(0)
        with pytest.raises(ApiError, check=lambda error: error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            partition.append(records())
        await task

    harness.run(scenario())
    assert code_of(harness, T0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert harness.logs.partitions() == []


def test_a_topic_that_is_made_again_begins_empty(harness: ReplicaHarness) -> None:
    harness.create("t")
    harness.partition().append(records())
    harness.delete("t")
    topic = harness.create("t")
    assert (harness.log().end_offset, harness.log().topic_id) == (0, topic.id)


def test_a_change_waits_until_the_one_before_it_is_carried_out(harness: ReplicaHarness) -> None:
    old = harness.create("t")
    harness.partition().append(records())
    deletion = harness.deletion("t")

    async def scenario() -> None:
        thread = asyncio.Event()
        harness.replicas._in_thread = busy_until(thread)
        deleting = await soon(harness.replicas.follow(deletion))
        creation = harness.creation("t")
        preparing = await soon(harness.replicas.prepare(creation))
        settled = await soon(harness.replicas.settled())
        assert (preparing.done(), settled.done()) == (False, False)
        thread.set()
        await asyncio.gather(deleting, preparing, settled)
        await harness.replicas.follow(creation)

    harness.run(scenario())
    assert harness.log().end_offset == 0
    assert harness.log().topic_id != old.id


def test_a_new_partition_is_led_in_the_step_that_the_image_gets_it(harness: ReplicaHarness) -> None:
    async def scenario() -> None:
        creation = harness.creation("t", 2)
        await harness.replicas.prepare(creation)
        assert code_of(harness, T0) is ErrorCode.NOT_LEADER_OR_FOLLOWER
        following = harness.replicas.follow(creation)
        assert [harness.partition(TopicPartition("t", number)).high_watermark for number in range(2)] == [0, 0]
        await following

    harness.run(scenario())


def busy_until(event: asyncio.Event) -> Any:
    async def in_thread(function: Callable[..., Any], *args: Any) -> Any:
        await event.wait()
        return function(*args)

    return in_thread


def test_everything_is_there_again_after_a_restart(harness: ReplicaHarness) -> None:
    harness.create("t", 2, leader_epoch=2)
    harness.partition().append(records(b"a", b"b"))
    harness.restart()
    assert harness.partition().high_watermark == 2
    assert harness.partition(TopicPartition("t", 1)).leader_epoch == 2


def test_a_log_that_is_missing_at_the_start_is_made(harness: ReplicaHarness) -> None:
    harness.create("t")
    harness.logs.delete(T0)
    harness.restart()
    assert harness.log().end_offset == 0


def test_settings_of_a_topic_reach_its_logs(harness: ReplicaHarness) -> None:
    harness.create("t")
    harness.set_config("t", max_message_bytes="100", min_insync_replicas="2")
    assert (harness.log().config.max_message_bytes, harness.log().config.min_insync_replicas) == (100, 2)


def test_a_log_that_cannot_be_made_is_one_of_an_offline_directory(
    harness: ReplicaHarness, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "t-0").write_text("in the way")
    with caplog.at_level(logging.ERROR):
        harness.create("t")
    assert "t-0" in caplog.text
    with pytest.raises(ApiError, check=lambda error: error.code is ErrorCode.KAFKA_STORAGE_ERROR):
        harness.partition().append(records())


def test_an_epoch_that_cannot_be_noted_is_not_led_in(
    harness: ReplicaHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    elected: list[int] = []
    harness.replicas.add_leader_listener("t", lambda _number, epoch: elected.append(epoch), lambda _number: None)
    harness.create("t")

    def refuse(_epoch: int) -> None:
        raise StorageError("the disk is full")

    monkeypatch.setattr(harness.log(), "begin_epoch", refuse)
    with caplog.at_level(logging.ERROR):
        harness.change(T0, leader_epoch=1, partition_epoch=1)
    assert "This broker cannot lead t-0: the disk is full" in caplog.text
    assert elected == [0]


# --- log directories ---


@pytest.fixture
def two(tmp_path: Path) -> Iterator[ReplicaHarness]:
    """Yield a broker with two formatted log directories."""
    paths = tmp_path / "one", tmp_path / "two"
    for path in paths:
        path.mkdir()
        properties = MetaProperties(version=1, cluster_id="c", node_id=NODE, directory_id=uuid4())
        properties.write(LOCAL, path / "meta.properties")
    made = ReplicaHarness(*paths)
    yield made
    made.close()


@pytest.mark.parametrize("leader", [NODE, FOLLOWER])
@pytest.mark.parametrize("directory", [UNASSIGNED, LOST])
def test_the_controller_learns_where_a_new_replica_is(two: ReplicaHarness, directory: UUID, leader: int) -> None:
    topic = two.create("t", **BOTH, leader=leader, directories=(directory, directory))
    two.settle()
    ids = {known.path: known.id for known in two.logs.online}
    assert two.assigned == {(topic.id, 0): ids[two.log().directory.parent]}


@pytest.mark.parametrize("leader", [NODE, FOLLOWER])
@pytest.mark.parametrize("number", [0, 1])
def test_a_new_replica_is_in_the_directory_of_the_metadata(two: ReplicaHarness, number: int, leader: int) -> None:
    known = two.logs.online[number]
    two.create("t", **BOTH, leader=leader, directories=(known.id, UNASSIGNED))
    two.settle()
    assert two.log().directory.parent == known.path
    assert two.assigned == {}


def test_a_replica_in_an_offline_directory_is_not_created_elsewhere(two: ReplicaHarness) -> None:
    known = two.logs.online[0]
    two.create("t", **BOTH, directories=(known.id, UNASSIGNED))
    fail(two, known.path)
    two.change(T0, leader_epoch=1, partition_epoch=1)
    assert not two.partition().is_online
    assert two.logs.partitions() == []
    assert not list((known.path.parent / "two").glob("t-0*"))


def test_changes_of_a_replica_in_an_offline_directory_have_one_line(
    two: ReplicaHarness, caplog: pytest.LogCaptureFixture
) -> None:
    known = two.logs.online[0]
    two.create("t", **BOTH, directories=(known.id, UNASSIGNED))
    fail(two, known.path)
    caplog.set_level(logging.ERROR, replica_manager.__name__)
    caplog.clear()
    for number in range(1, 4):
        two.change(T0, leader_epoch=number, partition_epoch=number)
    (line,) = [one.getMessage() for one in caplog.records if one.name == replica_manager.__name__]
    assert line.startswith("Cannot create the log of t-0: ")


def test_another_reason_has_a_line_of_its_own(
    harness: ReplicaHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    reasons = iter(["full", "full", "gone", "", "gone"])

    def get_or_create(*_: object, **__: object) -> None:
        if reason := next(reasons):
            raise StorageError(reason)

    monkeypatch.setattr(harness.logs, "get_or_create", get_or_create)
    caplog.set_level(logging.ERROR, replica_manager.__name__)
    harness.create("t")
    for number in range(1, 5):
        harness.change(T0, partition_epoch=number)
    lines = [one.getMessage() for one in caplog.records if one.name == replica_manager.__name__]
    assert [line.rpartition(": ")[2] for line in lines] == ["full", "gone", "gone"]


def test_waiting_for_replication_ends_when_the_directory_fails(two: ReplicaHarness) -> None:
    known = two.logs.online[0]
    two.create("t", **BOTH, directories=(known.id, UNASSIGNED))
    two.partition().append(records())

    async def scenario() -> None:
        waiting = await soon(two.partition().replicated(1, timeout_ms=1000))
        fail(two, known.path)
        two.replicas.directory_failed(known.id)
        await waiting

    with pytest.raises(ApiError, check=lambda error: error.code is ErrorCode.KAFKA_STORAGE_ERROR):
        two.run(scenario())
    two.settle()
    assert two.offline == [known.id]


def fail(harness: ReplicaHarness, path: Path) -> None:
    """Report a failed write, as if the operating system had refused it."""
    error = StorageError("the disk is gone", path=path)
    error.__cause__ = OSError(errno.EIO, "Input/output error")
    harness.logs._directories.note_failure(error)
    harness.logs.handle_failures()


# --- listeners ---


def test_a_listener_is_told_of_elections_and_resignations(harness: ReplicaHarness) -> None:
    told: list[tuple[str, int, int]] = []

    def listen() -> None:
        harness.replicas.add_leader_listener(
            "t",
            lambda number, epoch: told.append(("on", number, epoch)),
            lambda number: told.append(("off", number, 0)),
        )

    harness.create("t", 2)
    listen()
    assert told == [("on", 0, 0), ("on", 1, 0)]
    told.clear()
    harness.create("u")
    harness.change(T0, leader_epoch=1, partition_epoch=1)
    harness.change(T0, partition_epoch=2)
    harness.change(T0, leader=FOLLOWER, replicas=(NODE, FOLLOWER), leader_epoch=2, partition_epoch=3)
    harness.change(T0, leader=-1, leader_epoch=3, partition_epoch=4)
    harness.delete("t")
    assert told == [("on", 0, 1), ("off", 0, 0), ("off", 1, 0)]
