"""Replicas of a cluster move between log directories, and log directories fail (KIP-113, KIP-858)."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from server.cluster.local_cluster import T0, LocalCluster
from tidelog.model import StorageError, TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.partition_state import UNASSIGNED

T1 = TopicPartition("t", 1)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path, log_dirs=2) as made:
        yield made


def create_topic(
    cluster: LocalCluster, assignments: Sequence[Sequence[int]], configs: Mapping[str, str] | None = None
) -> None:
    """Create the topic, and wait until the controller knows the log directories of its replicas."""
    cluster.create_topic("t", assignments, configs)
    partitions = cluster.metadata.image.topics["t"].partitions
    cluster.wait_for(lambda: all(UNASSIGNED not in state.directories for state in partitions.values()))


def place(cluster: LocalCluster, node_id: int, partition: TopicPartition = T0) -> Path:
    """Return the log directory of a replica."""
    return cluster.log(node_id, partition).directory.parent


def other(cluster: LocalCluster, node_id: int, partition: TopicPartition = T0) -> Path:
    """Return the log directory that a replica is not in."""
    (path,) = set(cluster.paths(node_id)) - {place(cluster, node_id, partition)}
    return path


def id_of(cluster: LocalCluster, node_id: int, path: Path) -> UUID:
    (found,) = (one.id for one in cluster.brokers[node_id].logs.online if one.path == path)
    assert found is not None
    return found


def alter(cluster: LocalCluster, node_id: int, path: Path, partition: TopicPartition = T0) -> ErrorCode:
    topics = [{"name": partition.topic, "partitions": [partition.partition]}]
    with cluster.client(node_id) as client:
        response = client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=[{"path": str(path), "topics": topics}])
    return ErrorCode(response.results[0].partitions[0].error_code)


def wait_until_moved(cluster: LocalCluster, node_id: int, path: Path, partition: TopicPartition = T0) -> None:
    """Wait until a replica is in a log directory, and the controller knows it."""
    broker, directory_id = cluster.brokers[node_id], id_of(cluster, node_id, path)

    def has_moved() -> bool:
        state = cluster.metadata.image.topics[partition.topic].partitions[partition.partition]
        log = broker.replicas.partition(partition).log
        return log.directory.parent == path and state.directory_of(node_id) == directory_id

    cluster.wait_for(has_moved)


def require_equal(cluster: LocalCluster, partition: TopicPartition = T0) -> None:
    cluster.wait_until_equal(1, 2, 3, partition=partition)
    assert len({cluster.segment_bytes(node_id, partition) for node_id in (1, 2, 3)}) == 1


@contextmanager
def producing(cluster: LocalCluster) -> Iterator[list[int]]:
    """Produce to the first partition until the context is left. Yield the offsets of acknowledged records."""
    offsets: list[int] = []
    is_over = threading.Event()

    def work() -> None:
        while not is_over.is_set():
            offsets.append(cluster.produce(b"%0200d" % len(offsets)).base_offset)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        cluster.wait_for(lambda: len(offsets) > 20)
        yield offsets
        count = len(offsets)
        cluster.wait_for(lambda: len(offsets) > count + 20 or not thread.is_alive())
        assert thread.is_alive(), "a record was refused"
    finally:
        is_over.set()
        thread.join()


def fail_directory(cluster: LocalCluster, node_id: int, path: Path) -> None:
    """Report a failed write, as if the operating system had refused it."""

    def fail() -> None:
        error = StorageError("the disk is gone", path=path)
        error.__cause__ = OSError(errno.EIO, "Input/output error")
        cluster.brokers[node_id].logs._directories.note_failure(error)

    cluster.call(fail)


class HeldAssignments:
    """The requests of a broker to assign directories. They wait for ``release``."""

    def __init__(self, cluster: LocalCluster, node_id: int) -> None:
        self.asked: list[UUID] = []
        self._cluster = cluster
        self._event = asyncio.Event()
        shared = cluster.brokers[node_id].shared
        self._assign = shared.assign_directories
        shared.assign_directories = self._held  # type: ignore[method-assign]

    async def _held(self, directories: Any) -> None:
        self.asked += directories.values()
        await self._event.wait()
        await self._assign(directories)

    def release(self) -> None:
        self._cluster.call(self._event.set)


def begin_held_move(cluster: LocalCluster, node_id: int) -> tuple[HeldAssignments, Path]:
    """Begin to move a replica to its broker's other log directory. Return once the report of the end is held, with that
    log directory."""
    held, target = HeldAssignments(cluster, node_id), other(cluster, node_id)
    assert alter(cluster, node_id, target) == ErrorCode.NONE
    cluster.wait_for(lambda: bool(held.asked))
    return held, target


# --- moves ---


@pytest.mark.parametrize("node_id", [1, 2], ids=["leader", "follower"])
def test_a_replica_moves_while_records_come(cluster: LocalCluster, node_id: int) -> None:
    create_topic(cluster, [[1, 2, 3]])
    with producing(cluster) as offsets:
        for _ in range(2):  # there and back
            target = other(cluster, node_id)
            assert alter(cluster, node_id, target) == ErrorCode.NONE
            wait_until_moved(cluster, node_id, target)
    assert offsets == list(range(len(offsets)))
    require_equal(cluster)
    assert set(cluster.state().isr) == {1, 2, 3}
    assert cluster.leader() == 1


def test_a_replica_that_is_not_here_yet_is_created_in_the_wanted_directory(cluster: LocalCluster) -> None:
    create_topic(cluster, [[1, 2]])
    cluster.produce(b"a")
    for wanted in reversed(cluster.paths(3)):
        assert alter(cluster, 3, wanted) == ErrorCode.REPLICA_NOT_AVAILABLE
    cluster.reassign([1, 2, 3])
    cluster.wait_for_isr(1, 2, 3)
    wait_until_moved(cluster, 3, cluster.paths(3)[0])
    require_equal(cluster)


def test_a_replica_that_becomes_the_leader_during_its_move(cluster: LocalCluster) -> None:
    create_topic(cluster, [[1, 2, 3]])
    cluster.produce(b"a")
    held, target = begin_held_move(cluster, 2)
    cluster.stop(1)
    cluster.wait_for(lambda: cluster.metadata.image.topics["t"].partitions[0].leader == 2)
    cluster.produce(b"b")
    held.release()
    wait_until_moved(cluster, 2, target)
    cluster.produce(b"c")
    cluster.start(1)
    require_equal(cluster)
    assert cluster.log(2).end_offset == 3


def test_records_that_a_moving_follower_truncates_leave_the_new_log_too(cluster: LocalCluster) -> None:
    create_topic(cluster, [[1, 2]])
    cluster.produce(b"a")
    cluster.wait_until_equal(1, 2)
    cluster.isolate(2)
    cluster.wait_for(lambda: not cluster.brokers[2].replicas.partition(T0).follower.poll(0))
    cluster.produce(b"lost", b"too", acks=1)
    held, target = begin_held_move(cluster, 1)
    future = cluster.call(lambda: cluster.brokers[1].logs.log(T0, is_future=True))
    assert future is not None
    assert future.end_offset == 3
    cluster.fence(1)
    assert cluster.leader() == 2
    cluster.produce(b"b", acks=1)
    cluster.unfence(1)
    cluster.wait_for(lambda: cluster.brokers[1].replicas.partition(T0).log.end_offset == 2)
    held.release()
    wait_until_moved(cluster, 1, target)
    cluster.wait_until_equal(1, 2)
    assert cluster.log(1) is future
    assert cluster.segment_bytes(1) == cluster.segment_bytes(2)


def test_a_move_goes_on_after_a_restart(cluster: LocalCluster) -> None:
    create_topic(cluster, [[1, 2, 3]])
    cluster.produce(b"a")
    _held, target = begin_held_move(cluster, 2)
    cluster.stop(2)
    cluster.produce(b"b")
    cluster.start(2)
    wait_until_moved(cluster, 2, target)
    require_equal(cluster)


def test_a_move_waits_for_the_rate_of_its_broker(tmp_path: Path) -> None:
    windows = {"alter.log.dirs.replication.quota.window.size.seconds": "3600"}
    with LocalCluster(tmp_path, 2, windows, log_dirs=2) as cluster:
        create_topic(cluster, [[1, 2]])
        cluster.produce(bytes(10_000))
        cluster.wait_until_equal(1, 2)
        source, target = place(cluster, 2), other(cluster, 2)
        rate = "replica.alter.log.dirs.io.max.bytes.per.second"
        cluster.configure(ResourceType.BROKER, "2", {rate: "1"})
        assert alter(cluster, 2, target) == ErrorCode.NONE
        cluster.wait_for(lambda: cluster.brokers[2].logs._moves._throttle.is_exceeded)
        assert place(cluster, 2) == source
        cluster.configure(ResourceType.BROKER, "2", {rate: "100000000"})
        wait_until_moved(cluster, 2, target)


# --- moves and the controller ---


def test_the_controller_knows_the_new_directory_before_the_move_ends(cluster: LocalCluster) -> None:
    create_topic(cluster, [[1, 2, 3]])
    cluster.produce(b"a")
    source, target = place(cluster, 2), other(cluster, 2)
    held = HeldAssignments(cluster, 2)
    assert alter(cluster, 2, target) == ErrorCode.NONE
    cluster.wait_for(lambda: held.asked == [id_of(cluster, 2, target)])
    cluster.produce(b"b")
    cluster.wait_until_equal(1, 2, 3)
    assert place(cluster, 2) == source, "the replica follows in its old directory until the controller has responded"
    held.release()
    wait_until_moved(cluster, 2, target)
    require_equal(cluster)


def hold_the_end(cluster: LocalCluster, node_id: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let moves of a broker wait although the controller has responded."""
    monkeypatch.setattr(cluster.brokers[node_id].logs._moves, "_end", lambda _partition, _move: None)


def wait_until_known(cluster: LocalCluster, node_id: int, path: Path) -> None:
    """Wait until the controller has a replica in a log directory."""
    directory_id = id_of(cluster, node_id, path)
    cluster.wait_for(lambda: cluster.metadata.image.topics["t"].partitions[0].directory_of(node_id) == directory_id)


def test_a_cancelled_move_is_taken_back_at_the_controller(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(cluster, [[1, 2, 3]])
    source, target = place(cluster, 2), other(cluster, 2)
    hold_the_end(cluster, 2, monkeypatch)
    assert alter(cluster, 2, target) == ErrorCode.NONE
    wait_until_known(cluster, 2, target)
    assert alter(cluster, 2, source) == ErrorCode.NONE
    wait_until_moved(cluster, 2, source)
    assert cluster.call(lambda: cluster.brokers[2].logs.log(T0, is_future=True)) is None


def test_a_cancelled_move_is_taken_back_after_the_controllers_response(cluster: LocalCluster) -> None:
    create_topic(cluster, [[1, 2, 3]])
    source, target = place(cluster, 2), other(cluster, 2)
    held = HeldAssignments(cluster, 2)
    assert alter(cluster, 2, target) == ErrorCode.NONE
    cluster.wait_for(lambda: held.asked == [id_of(cluster, 2, target)])
    assert alter(cluster, 2, source) == ErrorCode.NONE
    held.release()
    cluster.wait_for(lambda: held.asked == [id_of(cluster, 2, target), id_of(cluster, 2, source)])
    wait_until_moved(cluster, 2, source)
    assert cluster.call(lambda: cluster.brokers[2].logs.log(T0, is_future=True)) is None


# --- failed directories ---


def test_a_followers_failed_directory(tmp_path: Path) -> None:
    # As in Kafka, the high watermark waits for an active broker that was caught up within this time.
    with LocalCluster(tmp_path, configs={"replica.lag.time.max.ms": "5000"}, log_dirs=2) as cluster:
        create_topic(cluster, [[1, 2, 3], [2, 3, 1]], {"min.insync.replicas": "2"})
        failed = place(cluster, 2)
        assert place(cluster, 2, T1) != failed
        cluster.produce(b"a")
        fail_directory(cluster, 2, failed)
        cluster.wait_for_isr(1, 3)
        cluster.produce(b"b")
        assert cluster.leader(T1) == 2, "the broker goes on with its other directory"
        cluster.produce(b"c", partition=T1)
        require_equal(cluster, T1)
        assert alter(cluster, 2, failed, T1) == ErrorCode.KAFKA_STORAGE_ERROR
        assert alter(cluster, 2, place(cluster, 2, T1), T0) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_leaders_failed_directory(cluster: LocalCluster) -> None:
    create_topic(cluster, [[1, 2, 3], [1, 2, 3]], {"min.insync.replicas": "2"})
    failed = place(cluster, 1)
    assert place(cluster, 1, T1) != failed
    cluster.produce(b"a")
    fail_directory(cluster, 1, failed)
    cluster.wait_for(lambda: cluster.metadata.image.topics["t"].partitions[0].leader in (2, 3))
    cluster.wait_for_isr(2, 3)
    cluster.produce(b"b")
    assert cluster.leader(T1) == 1
    cluster.produce(b"c", partition=T1)
    assert cluster.metadata.image.brokers[1].log_dirs == {id_of(cluster, 1, place(cluster, 1, T1))}
    cluster.stop(1)
    cluster.start(1)  # the disk works again
    cluster.wait_for_isr(1, 2, 3)
    require_equal(cluster)


def test_a_failed_target_ends_the_move_and_nothing_else(cluster: LocalCluster) -> None:
    create_topic(cluster, [[1, 2, 3]], {"min.insync.replicas": "3"})
    source, target = place(cluster, 2), other(cluster, 2)
    source_id = id_of(cluster, 2, source)
    held = HeldAssignments(cluster, 2)
    assert alter(cluster, 2, target) == ErrorCode.NONE
    cluster.wait_for(lambda: bool(held.asked))
    fail_directory(cluster, 2, target)
    cluster.wait_for(lambda: cluster.brokers[2].logs.log(T0, is_future=True) is None)
    held.release()
    cluster.wait_for(lambda: source_id in held.asked)
    wait_until_moved(cluster, 2, source)
    cluster.wait_for_isr(1, 2, 3)
    cluster.produce(b"a")
    require_equal(cluster)


def test_a_failed_source_fails_the_replica_although_the_controller_knows_the_target(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_topic(cluster, [[1, 2, 3]])
    cluster.produce(b"a")
    source, target = place(cluster, 1), other(cluster, 1)
    hold_the_end(cluster, 1, monkeypatch)
    assert alter(cluster, 1, target) == ErrorCode.NONE
    wait_until_known(cluster, 1, target)
    fail_directory(cluster, 1, source)
    cluster.wait_for(lambda: cluster.metadata.image.topics["t"].partitions[0].leader in (2, 3))
    cluster.produce(b"b")
