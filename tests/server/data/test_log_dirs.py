"""DescribeLogDirs and AlterReplicaLogDirs over the wire, and log directories whose disk fails."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from server.data.data_home import DataHome, data_home, eventually, offsets_in, records
from tidelog.model import StorageError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct


@pytest.fixture
def two(tmp_path: Path) -> Iterator[DataHome]:
    """Yield a broker with two log directories. The second one contains the metadata log."""
    paths = f"{tmp_path / 'one'},{tmp_path / 'two'}"
    with data_home(tmp_path / "data", log_dirs=paths, metadata_log_dir=str(tmp_path / "two")) as made:
        yield made


def describe(data: DataHome, *, version: int = 4, **values: object) -> dict[str, Struct]:
    """Return the results by the directory's name."""
    response = data.client.call(ApiKey.DESCRIBE_LOG_DIRS, version, **{"topics": None, **values})
    assert response.error_code == 0
    return {Path(result.log_dir).name: result for result in response.results}


def places(data: DataHome) -> dict[str, str]:
    """Return each partition's log directory."""
    return {
        f"{topic.name}-{partition.partition_index}": name
        for name, result in describe(data).items()
        for topic in result.topics
        for partition in topic.partitions
        if not partition.is_future_key
    }


def alter(data: DataHome, path: str, topic: str = "t", number: int = 0, *, version: int = 2) -> int:
    dirs = [{"path": path, "topics": [{"name": topic, "partitions": [number]}]}]
    response = data.client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, version, dirs=dirs)
    (result,) = response.results
    assert (result.topic_name, result.partitions[0].partition_index) == (topic, number)
    code: int = result.partitions[0].error_code
    return code


# --- describing ---


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_what_lies_where(data: DataHome, version: int) -> None:
    data.create(partitions=2)
    data.append(b"a", number=1)
    (result,) = describe(data, version=version).values()
    (topic,) = result.topics
    sizes = {one.partition_index: (one.partition_size, one.offset_lag, one.is_future_key) for one in topic.partitions}
    assert sizes == {0: (0, 0, False), 1: (len(records(b"a")), 0, False)}
    if version == 4:
        assert result.total_bytes > result.usable_bytes > 0


def test_only_what_is_asked_for(data: DataHome) -> None:
    data.create(partitions=2)
    data.create("other")
    (result,) = describe(data, topics=[{"topic": "t", "partitions": [1]}]).values()
    assert [(topic.name, [one.partition_index for one in topic.partitions]) for topic in result.topics] == [("t", [1])]
    (nothing,) = describe(data, topics=[]).values()
    assert nothing.topics == ()


# --- moving ---


def test_a_partition_moves_with_its_records(two: DataHome, tmp_path: Path) -> None:
    two.create()
    for _ in range(20):
        two.append(b"x" * 100)
    target = "two" if places(two)["t-0"] == "one" else "one"
    assert alter(two, str(tmp_path / target)) == 0
    eventually(lambda: places(two).get("t-0") == target)
    assert two.append(b"after") == 20
    assert offsets_in(two.fetch().records) == list(range(21))


def test_a_partition_moves_while_its_leader_epoch_grows(two: DataHome, tmp_path: Path) -> None:
    two.create()
    two.append(b"a")
    target = "two" if places(two)["t-0"] == "one" else "one"

    def begin_another_epoch() -> None:
        state = two.home.broker.metadata.image.topics["t"].partitions[0]
        epoch = two.partition().leader_epoch + 1
        two.partition().update(replace(state, leader_epoch=epoch, partition_epoch=epoch))

    assert alter(two, str(tmp_path / target)) == 0
    for _ in range(10):
        two.home.call(begin_another_epoch)
    eventually(lambda: places(two).get("t-0") == target)
    assert two.append(b"b") == 1
    back = "one" if target == "two" else "two"
    assert alter(two, str(tmp_path / back)) == 0
    eventually(lambda: places(two).get("t-0") == back)
    assert offsets_in(two.fetch().records) == [0, 1]


def test_a_move_that_cannot_be(two: DataHome, tmp_path: Path) -> None:
    two.create()
    assert alter(two, str(tmp_path / "three")) == ErrorCode.LOG_DIR_NOT_FOUND
    assert alter(two, str(tmp_path / "one"), "nowhere") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert alter(two, str(tmp_path / "one"), "x" * 230) == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert alter(two, str(tmp_path / places(two)["t-0"])) == 0  # the partition is already in this directory


def test_the_cluster_is_told_where_a_partition_lies(two: DataHome) -> None:
    topic_id = two.create()

    def is_told() -> bool:
        state = two.home.broker.metadata.image.topics_by_id[topic_id].partitions[0]
        ids = {directory.id for directory in two.home.broker.logs.online}
        return state.directory_of(two.home.broker.node_id) in ids

    eventually(lambda: two.home.call(is_told))


# --- disks that fail ---


def fail_disk(data: DataHome, path: Path) -> None:
    """Report a failed write, as if the operating system had refused it."""

    def fail() -> None:
        error = StorageError("the disk is gone", path=path)
        error.__cause__ = OSError(errno.EIO, "Input/output error")
        data.home.broker.logs._directories.note_failure(error)

    data.home.call(fail)


def test_partitions_of_a_failed_disk_are_offline_and_the_others_go_on(two: DataHome, tmp_path: Path) -> None:
    two.create(partitions=2)
    first, second = places(two)["t-0"], places(two)["t-1"]
    assert first != second
    number = 0 if first == "one" else 1  # the metadata log is in the other directory
    two.append(b"a", number=number)
    fail_disk(two, tmp_path / "one")
    eventually(lambda: describe(two)["one"].error_code == ErrorCode.KAFKA_STORAGE_ERROR)
    lost = (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert two.produce(records(), number=number).error_code in lost
    assert two.fetch(number=number).error_code in lost
    assert two.append(b"b", number=1 - number) == 0
    assert alter(two, str(tmp_path / "one"), number=1 - number) == ErrorCode.KAFKA_STORAGE_ERROR


def test_the_cluster_hears_of_a_failed_disk(two: DataHome, tmp_path: Path) -> None:
    topic_id = two.create(partitions=2)
    number = 0 if places(two)["t-0"] == "one" else 1
    fail_disk(two, tmp_path / "one")

    def leader() -> int:
        leader_id: int = two.home.broker.metadata.image.topics_by_id[topic_id].partitions[number].leader
        return leader_id

    eventually(lambda: two.home.call(leader) == -1)
    assert two.produce(records(), number=number).error_code != 0


def test_a_partition_that_has_moved_outlives_the_disk_it_came_from(two: DataHome, tmp_path: Path) -> None:
    two.create(partitions=2)
    number = 0 if places(two)["t-0"] == "one" else 1
    two.append(b"a", number=number)
    assert alter(two, str(tmp_path / "two"), number=number) == 0
    eventually(lambda: places(two).get(f"t-{number}") == "two")
    fail_disk(two, tmp_path / "one")
    eventually(lambda: describe(two)["one"].error_code == ErrorCode.KAFKA_STORAGE_ERROR)

    def is_reported() -> bool:
        (broker,) = two.home.broker.metadata.image.brokers.values()
        return len(broker.log_dirs) == 1

    eventually(lambda: two.home.call(is_reported))
    assert two.append(b"b", number=number) == 1
