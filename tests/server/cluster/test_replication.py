"""Replication between brokers in one process, over real sockets."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from server.cluster.local_cluster import T0, LocalCluster
from tidelog.following.fetch_exchange import FetchExchange
from tidelog.following.log_work import SHORT_PASS_BYTES, LogOutcome, LogWork
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import Append, Fail, FetchedPartition
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.replicas import fetcher_manager
from tidelog.server.replicas.partition import Partition
from tidelog.storage.checkpoint import HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.log_manager import LogManager


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path) as made:
        yield made


def epochs(cluster: LocalCluster, node_id: int) -> list[tuple[int, int]]:
    return [(entry.epoch, entry.start_offset) for entry in cluster.log(node_id).epochs.entries]


def require_equal(cluster: LocalCluster, *node_ids: int, partition: TopicPartition = T0) -> None:
    cluster.wait_until_equal(*node_ids, partition=partition)
    assert len({cluster.segment_bytes(node_id, partition) for node_id in node_ids}) == 1


# --- records ---


def test_followers_get_the_leaders_records(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a", b"b")
    cluster.produce(b"c")
    require_equal(cluster, 1, 2, 3)
    assert cluster.log(2).end_offset == 3


def test_partitions_of_several_leaders_are_fetched(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
    for number in range(3):
        cluster.produce(b"%d" % number, partition=TopicPartition("t", number))
    for number in range(3):
        require_equal(cluster, 1, 2, 3, partition=TopicPartition("t", number))


def test_a_follower_that_was_away_catches_up(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.stop(3)
    for number in range(20):
        cluster.produce(b"%0100d" % number)
    cluster.start(3)
    require_equal(cluster, 1, 2, 3)
    cluster.wait_for_isr(1, 2, 3)


def test_a_follower_takes_the_leaders_log_start(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a", b"b", b"c")
    with cluster.client(1) as client:
        topics = [{"name": "t", "partitions": [{"partition_index": 0, "offset": 2}]}]
        response = client.call(ApiKey.DELETE_RECORDS, topics=topics, timeout=10_000)
    assert response.topics[0].partitions[0].error_code == ErrorCode.NONE
    assert response.topics[0].partitions[0].low_watermark == 2
    assert cluster.log(2).log_start_offset == cluster.log(3).log_start_offset == 2


def test_a_follower_whose_records_the_leader_has_deleted_starts_over(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    cluster.stop(2)
    cluster.produce(b"b", b"c")
    cluster.call(lambda: cluster.brokers[1].replicas.partition(T0).log.roll())
    cluster.call(lambda: cluster.brokers[1].replicas.partition(T0).log.maybe_increment_log_start_offset(3))
    cluster.call(lambda: cluster.brokers[1].replicas.partition(T0).log.delete_old_segments())
    cluster.produce(b"d")
    cluster.start(2)
    require_equal(cluster, 1, 2)
    assert cluster.log(2).log_start_offset == 3


# --- leaders ---


def test_a_new_leader_has_every_acknowledged_record(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a")
    cluster.kill(1)
    leader = cluster.leader()
    assert leader in (2, 3)
    cluster.produce(b"b")
    cluster.start(1)
    require_equal(cluster, 1, 2, 3)
    assert cluster.log(1).end_offset == 2
    assert epochs(cluster, 1) == epochs(cluster, leader)


def test_records_that_the_new_leader_lacks_are_truncated(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    cluster.wait_until_equal(1, 2)
    cluster.isolate(2)
    cluster.wait_for(lambda: not cluster.brokers[2].replicas.partition(T0).follower.poll(0))
    cluster.produce(b"lost", b"too", acks=1)
    cluster.fence(1)
    assert cluster.leader() == 2
    cluster.produce(b"b", acks=1)
    cluster.unfence(1)
    require_equal(cluster, 1, 2)
    assert cluster.log(1).end_offset == 2
    assert epochs(cluster, 1) == epochs(cluster, 2) == [(0, 0), (1, 1)]


def test_leader_epochs_grow_between_restarts_of_the_leader(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    for leader in (1, 2, 1):
        assert cluster.leader() == leader
        cluster.stop(leader)
        other = cluster.leader()
        cluster.produce(b"b", acks=1)
        cluster.start(leader)
        require_equal(cluster, 1, 2)
        cluster.wait_for_isr(1, 2)
        assert epochs(cluster, leader) == epochs(cluster, other)
    found = epochs(cluster, 1)
    assert found == sorted(found)
    assert len(found) == 4


def test_the_preferred_leader_leads_again(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a")
    cluster.stop(1)
    cluster.produce(b"b")
    cluster.start(1)
    cluster.wait_for_isr(1, 2, 3)
    cluster.elect()
    assert cluster.leader() == 1
    cluster.produce(b"c")
    require_equal(cluster, 1, 2, 3)
    assert cluster.log(3).end_offset == 3


def test_a_leader_that_is_not_registered_is_fetched_from_once_it_is(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    cluster.stop(2)
    known = cluster.metadata.image.brokers[1]
    del cluster.metadata.image.brokers[1]
    cluster.start(2)
    manager = cluster.brokers[2].replicas.fetchers
    assert manager is not None
    assert not manager.fetchers
    cluster.metadata.image.brokers[1] = known
    cluster.call(manager.brokers_changed)
    require_equal(cluster, 1, 2)


@pytest.mark.parametrize("rolls", [False, True], ids=["one segment", "several segments"])
def test_the_high_watermark_outlives_a_clean_stop_and_a_kill(cluster: LocalCluster, *, rolls: bool) -> None:
    cluster.create_topic("t", [[1, 2]])
    for _ in range(5):
        cluster.produce(b"a")
        for node_id in (1, 2) if rolls else ():
            cluster.call(cluster.log(node_id).roll)
    cluster.wait_until_equal(1, 2)
    cluster.stop(2)
    found = OffsetCheckpoint.read(LOCAL, cluster.directory / "2" / HIGH_WATERMARK_CHECKPOINT)
    assert found[T0] == 5
    cluster.start(2)
    assert cluster.log(2).high_watermark == 5
    cluster.wait_for_isr(1, 2)
    cluster.kill(1)
    assert cluster.leader() == 2
    cluster.produce(b"b")
    cluster.start(1)
    require_equal(cluster, 1, 2)
    assert cluster.log(1).high_watermark == 6


def epoch_end(cluster: LocalCluster, epoch: int) -> tuple[int, int]:
    """Ask the leader for the end of an epoch as a follower does, and return the epoch that it knows with its end."""
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch}
    with cluster.client(cluster.leader()) as client:
        response = client.call(
            ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, replica_id=3, topics=[{"topic": "t", "partitions": [asked]}]
        )
    (found,) = response.topics[0].partitions
    assert found.error_code == ErrorCode.NONE
    return found.leader_epoch, found.end_offset


def test_a_leader_knows_the_ends_of_all_its_epochs(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    for leader in (1, 2):
        cluster.stop(leader)
        cluster.produce(b"b", b"c", acks=1)
        cluster.start(leader)
        cluster.wait_for_isr(1, 2)
    ends = epochs(cluster, cluster.leader())
    assert len(ends) == 3
    assert epoch_end(cluster, ends[0][0]) == (ends[0][0], ends[1][1])
    assert epoch_end(cluster, ends[1][0]) == (ends[1][0], ends[2][1])
    assert epoch_end(cluster, ends[2][0]) == (ends[2][0], 5)
    assert epoch_end(cluster, ends[2][0] + 10) == (-1, -1)


# --- fetchers ---


def test_a_change_of_the_in_sync_replicas_keeps_the_fetch_session(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    send = FetchExchange.fetch

    async def noted(exchange: FetchExchange, *args: Any, **named: Any) -> Any:
        asked.append(exchange._session.session_epoch)
        return await send(exchange, *args, **named)

    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a")
    cluster.wait_until_equal(1, 2, 3)
    monkeypatch.setattr(FetchExchange, "fetch", noted)
    cluster.produce(b"b")
    cluster.fence(3)
    cluster.wait_for_isr(1, 2)
    cluster.unfence(3)
    cluster.wait_for_isr(1, 2, 3)
    cluster.produce(b"c")
    assert asked
    assert 0 not in asked


def test_partitions_are_spread_over_the_fetchers(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2, {"num.replica.fetchers": "2"}) as cluster:
        cluster.create_topic("t", [[1, 2]] * 4)
        manager = cluster.brokers[2].replicas.fetchers
        assert manager is not None
        spread = {key: sorted(one.partition for one in fetcher.replicas) for key, fetcher in manager.fetchers.items()}
        assert spread == {(1, 0): [0, 2], (1, 1): [1, 3]}
        for number in range(4):
            cluster.produce(b"a", partition=TopicPartition("t", number))


def test_another_number_of_fetchers_spreads_the_partitions_again(tmp_path: Path) -> None:
    with LocalCluster(tmp_path, 2) as cluster:
        cluster.create_topic("t", [[1, 2]] * 4)
        manager = cluster.brokers[2].replicas.fetchers
        assert manager is not None
        for count in (3, 1, 2):
            cluster.configure(ResourceType.BROKER, "2", {"num.replica.fetchers": str(count)})
            cluster.wait_for(lambda count=count: len(manager.fetchers) == count)  # type: ignore[misc]
            placed = sorted(one for fetcher in manager.fetchers.values() for one in fetcher.replicas)
            assert placed == [TopicPartition("t", number) for number in range(4)]
        for number in range(4):
            cluster.produce(b"a", partition=TopicPartition("t", number))
            require_equal(cluster, 1, 2, partition=TopicPartition("t", number))


def test_a_partition_that_fails_is_fetched_again_in_the_next_epoch(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a")
    cluster.wait_until_equal(1, 2, 3)
    manager = cluster.brokers[2].replicas.fetchers
    assert manager is not None

    def fail() -> None:
        replica = manager.followers[manager_partition()]
        position = replica.follower.poll(0)
        assert position is not None
        fenced = FetchedPartition(error_code=ErrorCode.FENCED_LEADER_EPOCH)
        for command in replica.follower.fetched(position, fenced, 0):
            assert isinstance(command, Fail)
            manager.failed(replica, command)

    def manager_partition() -> Partition:
        return cluster.brokers[2].replicas.partition(T0)

    cluster.call(fail)
    assert manager.failed_partitions == {T0}
    cluster.produce(b"b", acks=1)
    cluster.fence(1)
    cluster.wait_for(lambda: not manager.failed_partitions)
    cluster.unfence(1)
    require_equal(cluster, 1, 2, 3)


def test_a_deleted_topic_is_fetched_no_more(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"a")
    cluster.delete_topic("t")
    manager = cluster.brokers[2].replicas.fetchers
    assert manager is not None
    assert not manager.fetchers
    assert not manager.followers
    cluster.create_topic("t", [[1, 2, 3]])
    cluster.produce(b"b")
    require_equal(cluster, 1, 2, 3)
    assert cluster.log(2).end_offset == 1


def test_a_replica_is_reassigned(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    directory = cluster.log(2).directory
    cluster.reassign([1, 3])
    cluster.wait_for_isr(1, 3)
    cluster.wait_for(lambda: T0 not in cluster.brokers[2].logs.partitions())
    assert not directory.exists()
    cluster.produce(b"b")
    require_equal(cluster, 1, 3)


def test_the_leader_is_reassigned_away(cluster: LocalCluster) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")
    cluster.reassign([2, 3])
    cluster.wait_for_isr(2, 3)
    cluster.wait_for(lambda: T0 not in cluster.brokers[1].logs.partitions())
    cluster.produce(b"b")
    require_equal(cluster, 2, 3)


# --- threads ---


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str]]:
    """The bytes of each pass over the logs, and the name of its thread."""
    found: list[tuple[int, str]] = []
    run = fetcher_manager._run_pass

    def noted(logs: LogManager, work: Sequence[LogWork]) -> Sequence[LogOutcome]:
        appends = [command for one in work for command in one.commands if isinstance(command, Append)]
        size = sum(memoryview(command.records).nbytes for command in appends)
        found.append((size, threading.current_thread().name))
        return run(logs, work)

    monkeypatch.setattr(fetcher_manager, "_run_pass", noted)
    return found


def test_small_appends_are_made_on_the_event_loop(cluster: LocalCluster, passes: list[tuple[int, str]]) -> None:
    cluster.create_topic("t", [[1, 2]])
    cluster.produce(b"a")  # the first append may write the topic id
    require_equal(cluster, 1, 2)
    passes.clear()
    cluster.produce(b"b")
    cluster.produce(bytes(SHORT_PASS_BYTES))
    require_equal(cluster, 1, 2)
    small = [thread for size, thread in passes if 0 < size <= SHORT_PASS_BYTES]
    large = [thread for size, thread in passes if size > SHORT_PASS_BYTES]
    assert small
    assert not any(thread.startswith("tidelog-io") for thread in small)
    assert large
    assert all(thread.startswith("tidelog-io") for thread in large)


def test_appends_that_sync_the_log_are_made_in_a_background_thread(
    cluster: LocalCluster, passes: list[tuple[int, str]]
) -> None:
    cluster.create_topic("t", [[1, 2]], {"flush.messages": "1"})
    cluster.produce(b"a")
    cluster.produce(b"b")
    require_equal(cluster, 1, 2)
    appends = [thread for size, thread in passes if size]
    assert appends
    assert all(thread.startswith("tidelog-io") for thread in appends)
