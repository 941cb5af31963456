"""The controller of brokers with ZooKeeper: its election, its duties, and requests by other hands."""

from __future__ import annotations

import asyncio
import json
import logging
import uuid

import pytest

from server.metadata.zookeeper_cluster.metadata_cluster import MetadataCluster, ModelBroker, on_cluster, parts_of
from tidelog.protocol.errors import ErrorCode
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import Check, ZnodeConflictError
from tidelog.server.metadata.zookeeper.znodes import StateZnode, TopicZnode
from tidelog.server.metadata.zookeeper_cluster.announcements import ANNOUNCEMENTS_MS

TOPIC_ID = uuid.UUID(int=5)


def topic_znode(*replicas: tuple[int, ...], topic_id: uuid.UUID | None = TOPIC_ID) -> bytes:
    return TopicZnode(topic_id=topic_id, replicas=dict(enumerate(replicas))).encode()


def places(broker: ModelBroker, topic: str) -> list[tuple[int, tuple[int, ...]]]:
    """Return leader and in-sync replicas of each partition."""
    return [(state.leader, state.isr) for state in broker.image.topics[topic].partitions.values()]


class TestElection:
    def test_another_broker_takes_over_and_moves_leaders(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second, third = await cluster.start(1, 2, 3)
            await second.create("t", (1, 2), (2, 1), (1, 3))
            await second.create("u", (1,))
            await first.kill()
            await cluster.until(lambda: cluster.controller in (second, third))
            assert cluster.data(paths.CONTROLLER_EPOCH) == b"2"
            await cluster.quiet()
            assert places(second, "t") == places(third, "t") == [(2, (2,)), (2, (2,)), (3, (3,))]
            assert places(second, "u") == [(-1, (1,))]
            assert all(state.leader_epoch == 1 for state in second.image.topics["t"].partitions.values())
            assert parts_of(second.image) == parts_of(cluster.image())

        check()

    def test_a_leaderless_partition_is_led_again_by_its_replica(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (2,))
            await second.kill()
            await cluster.until(lambda: places(first, "t") == [(-1, (2,))])
            (again,) = await cluster.start(2)
            await cluster.quiet()
            assert places(again, "t") == places(first, "t") == [(2, (2,))]
            assert again.state("t").leader_epoch == 2

        check()

    def test_a_deleted_znode_is_an_election(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            await cluster.start(1, 2)
            cluster.write(paths.CONTROLLER, None)
            await cluster.quiet()
            assert cluster.controller is not None
            assert cluster.data(paths.CONTROLLER_EPOCH) == b"2"

        check()

    def test_the_epoch_of_another_hand_ends_the_role(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            cluster.write(paths.CONTROLLER_EPOCH, b"41")
            cluster.write(paths.topic("t"), topic_znode((2, 1)))
            await cluster.until(lambda: "t" in second.image.topics and places(second, "t") == [(2, (2, 1))])
            assert int(cluster.data(paths.CONTROLLER_EPOCH) or b"") > 41
            state = StateZnode.decode("", cluster.data(paths.state("t", 0)) or b"")
            assert state.controller_epoch > 41
            assert cluster.controller is first

        check()

    def test_a_controller_without_the_epoch_changes_nothing(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (2, 1))
            state = StateZnode(leader=1, leader_epoch=1, controller_epoch=1, isr=(2, 1))
            cluster.write(paths.state("t", 0), state.encode())
            await cluster.quiet()
            first.session.is_lagging = True  # it does not see the end of its role
            cluster.write(paths.CONTROLLER, None)
            await cluster.until(lambda: second.metadata.is_controller)
            with pytest.raises(ZnodeConflictError, match=r"/controller_epoch.*BadVersion"):
                await first.metadata._role.balance_leaders()
            assert second.state("t").leader == 1
            first.session.catch_up()
            await cluster.quiet()
            assert cluster.controller is second

        check()


class TestTopicsOfOtherHands:
    def test_states_are_made(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            cluster.write(paths.topic("t"), topic_znode((2, 1), (1,), (9,)))
            await cluster.quiet()
            assert places(first, "t") == places(second, "t") == [(2, (2, 1)), (1, (1,)), (-1, (9,))]
            assert cluster.data(paths.state("t", 2)) is None  # it waits for its broker
            await cluster.start(9)
            await cluster.quiet()
            assert places(second, "t")[2] == (9, (9,))

        check()

    def test_an_id_is_given(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, _ = await cluster.start(1, 2)
            cluster.write(paths.topic("t"), topic_znode((2, 1), topic_id=None))
            await cluster.quiet()
            assert places(first, "t") == [(2, (2, 1))]
            found = TopicZnode.decode("", cluster.data(paths.topic("t")) or b"")
            assert found.topic_id == first.image.topics["t"].id

        check()

    def test_new_partitions_get_states(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            await broker.create("t", (1,))
            grown = TopicZnode(topic_id=broker.image.topics["t"].id, replicas={0: (1,), 1: (1,)})
            cluster.write(paths.topic("t"), grown.encode())
            await cluster.quiet()
            assert places(broker, "t") == [(1, (1,)), (1, (1,))]

        check()

    def test_a_lost_connection_delays_them(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            cluster.write(paths.topic("t"), topic_znode((2, 1), topic_id=None))
            cluster.write(paths.topic("u"), topic_znode((2, 1), topic_id=None))
            while not any(isinstance(one, Check) for request in first.session.requests for one in request):
                await asyncio.sleep(0)
            first.session.cut()
            await asyncio.sleep(1)
            first.session.reconnect()
            await cluster.until(lambda: {"t", "u"} <= second.image.topics.keys())
            await cluster.until(lambda: places(second, "t") == places(second, "u") == [(2, (2, 1))])
            assert cluster.controller is first

        check()

    def test_a_mark_deletes_a_topic(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            await broker.create("t", (1,))
            cluster.write(f"{paths.DELETED_TOPICS}/t", b"")
            cluster.write(f"{paths.DELETED_TOPICS}/never", b"")
            await cluster.quiet()
            assert not broker.image.topics
            assert cluster.zookeeper.table.children(paths.DELETED_TOPICS) == ()
            assert cluster.zookeeper.table.children(paths.TOPICS) == ()

        check()

    def test_a_mark_is_taken_back_if_topics_are_not_deleted(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            cluster.settings["delete.topic.enable"] = "false"
            (broker,) = await cluster.start(1)
            await broker.create("t", (1,), retention_ms="5")
            cluster.write(f"{paths.DELETED_TOPICS}/t", b"")
            await cluster.quiet()
            assert places(broker, "t") == [(1, (1,))]
            assert cluster.zookeeper.table.children(paths.DELETED_TOPICS) == ()
            assert parts_of(broker.image) == parts_of(cluster.image())

        check()

    def test_a_withdrawn_mark_brings_the_topic_back(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (1, 2), retention_ms="5")
            await second.stop()
            cluster.write(f"{paths.DELETED_TOPICS}/t", b"")
            await cluster.quiet()
            assert "t" not in first.image.topics
            cluster.write(f"{paths.DELETED_TOPICS}/t", None)
            await cluster.quiet()
            assert parts_of(first.image) == parts_of(cluster.image())
            assert first.metadata.committed_settings("t") == {"retention.ms": "5"}

        check()

    def test_a_topic_whose_partitions_do_not_begin_with_0(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            cluster.write(paths.topic("t"), TopicZnode(topic_id=TOPIC_ID, replicas={3: (2, 1)}).encode())
            cluster.write(paths.topic("u"), TopicZnode(topic_id=uuid.UUID(int=6), replicas={}).encode())
            await cluster.quiet()
            assert places(first, "t") == [(2, (2, 1))]
            await second.kill()
            await cluster.until(lambda: places(first, "t") == [(1, (1,))])

        check()


class TestRequests:
    def test_a_reassignment_begins(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (1,))
            wanted = [
                {"topic": "t", "partition": 0, "replicas": [2]},
                {"topic": "gone", "partition": 0, "replicas": [2]},
            ]
            cluster.write(paths.REASSIGNMENT, json.dumps({"version": 1, "partitions": wanted}).encode())
            await cluster.quiet()
            assert cluster.data(paths.REASSIGNMENT) is None
            state = second.state("t")
            assert (set(state.replicas), state.adding, state.removing) == ({1, 2}, (2,), (1,))
            done = await first.alter("t", [1, 2])
            assert done.outcome.error is ErrorCode.NEW_LEADER_ELECTED
            await cluster.quiet()
            state = second.state("t")
            assert (state.replicas, state.isr, state.leader, state.is_reassigning) == ((2,), (2,), 2, False)
            assert parts_of(second.image) == parts_of(cluster.image())

        check()

    def test_preferred_replicas_lead(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (2, 1))
            await second.kill()
            await cluster.start(2)
            await cluster.quiet()
            assert places(first, "t") == [(1, (1,))]
            await first.alter("t", [1, 2])
            wanted = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
            cluster.write(paths.PREFERRED_ELECTION, json.dumps(wanted).encode())
            await cluster.quiet()
            assert cluster.data(paths.PREFERRED_ELECTION) is None
            assert places(first, "t") == [(2, (1, 2))]

        check()

    @pytest.mark.parametrize("path", [paths.REASSIGNMENT, paths.PREFERRED_ELECTION])
    def test_a_request_that_is_not_valid_is_deleted(self, path: str, caplog: pytest.LogCaptureFixture) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            await cluster.start(1)
            cluster.write(path, b"[")
            await cluster.quiet()
            assert cluster.data(path) is None

        check()
        (line,) = [one.message for one in caplog.records if one.levelno >= logging.WARNING]
        assert line.startswith(f"The request is deleted: znode {path}")


class TestPeriodicDuties:
    def test_leaders_are_balanced(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (2, 1))
            await second.stop()
            await cluster.start(2)
            await cluster.quiet()
            await first.alter("t", [1, 2])
            assert places(first, "t") == [(1, (1, 2))]
            await cluster.until(lambda: places(first, "t") == [(2, (1, 2))], within_ms=301_000)

        check()

    def test_an_unclean_election_where_the_topic_allows_it(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (2, 1))
            await cluster.quiet()
            await second.alter("t", [2])
            await second.kill()
            await cluster.until(lambda: places(first, "t") == [(-1, (2,))])
            cluster.write(
                f"{paths.TOPIC_CONFIGS}/t", b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'
            )
            await cluster.until(lambda: places(first, "t") == [(1, (1,))], within_ms=301_000)
            assert first.state("t").is_recovering

        check()

    def test_old_announcements_are_deleted(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            await cluster.start(1, 2)
            parents = ("/config/changes", "/kafka-acl-changes", "/kafka-acl-extended-changes")
            for parent in parents:
                cluster.write(f"{parent}/old", b"")
            await asyncio.sleep(ANNOUNCEMENTS_MS / 1000)
            for parent in parents:
                cluster.write(f"{parent}/new", b"")
            await asyncio.sleep(ANNOUNCEMENTS_MS / 1000 + 1)
            assert [cluster.zookeeper.table.children(parent) for parent in parents] == [("new",)] * 3

        check()


class TestZnodesThatAreNotValid:
    @pytest.mark.parametrize(
        "path",
        [
            paths.topic("t"),
            paths.state("t", 0),
            f"{paths.TOPIC_CONFIGS}/t",
            f"{paths.USER_CONFIGS}/u",
            "/kafka-acl/Topic/t",
            paths.PRODUCER_IDS,
            f"{paths.BROKER_IDS}/x",
        ],
    )
    def test_the_last_valid_metadata_stays(self, path: str, caplog: pytest.LogCaptureFixture) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (1, 2), retention_ms="5")
            await cluster.quiet()
            before, data = parts_of(second.image), cluster.data(path)
            caplog.clear()
            cluster.write(path, b"{")
            await cluster.quiet()
            cluster.write(path, b"{")
            await cluster.quiet()
            assert parts_of(first.image) == parts_of(second.image) == before
            kept = [one.message for one in caplog.records if "stays in use" in one.message]
            assert len(kept) == 2  # one line of each broker
            assert all(path in line for line in kept)
            cluster.write(path, data)
            await cluster.quiet()
            assert parts_of(first.image) == parts_of(second.image) == parts_of(cluster.image())

        check()

    def test_other_duties_go_on(self, caplog: pytest.LogCaptureFixture) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (1, 2))
            cluster.write(paths.topic("junk"), b"{")
            cluster.write(f"{paths.DELETED_TOPICS}/junk", b"")
            await second.kill()
            await cluster.until(lambda: places(first, "t") == [(1, (1,))])
            assert cluster.zookeeper.read(paths.topic("junk")) is not None
            await asyncio.sleep(10)

        check()
        assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) < 10

    def test_a_damaged_state_does_not_hold_up_other_topics(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (2, 1))
            await first.create("u", (2, 1))
            found = cluster.data(paths.state("t", 0))
            cluster.write(paths.state("t", 0), b"{")
            await second.kill()
            await cluster.until(lambda: places(first, "u") == [(1, (1,))], within_ms=20_000)
            cluster.write(paths.state("t", 0), found)
            await cluster.until(lambda: places(first, "t") == [(1, (1,))], within_ms=1000)

        check()

    def test_an_id_that_another_topic_has(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            await broker.create("u", (1,))
            cluster.write(paths.topic("t"), topic_znode((1,), topic_id=broker.image.topics["u"].id))
            await cluster.quiet()
            assert list(broker.image.topics) == ["u"]
            await broker.metadata.delete_topics(["u"])
            await cluster.quiet()
            assert list(broker.image.topics) == ["t"]

        check()
