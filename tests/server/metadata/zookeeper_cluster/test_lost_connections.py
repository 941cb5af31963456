"""Brokers with ZooKeeper whose connections and sessions end: fencing, new epochs, and outcomes that are unknown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from server.metadata.metadata_harness import setting, topic_resource
from server.metadata.zookeeper_cluster.metadata_cluster import MetadataCluster, ModelBroker, on_cluster, parts_of
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import Create, Operation, SetData


async def until_sent(broker: ModelBroker, is_it: Callable[[Operation], bool]) -> int:
    """Wait until a request with an operation is under way. Return the number of requests up to it."""
    while True:
        for number, operations in enumerate(broker.session.requests):
            if any(map(is_it, operations)):
                return number + 1
        await asyncio.sleep(0)


def writes(path: str) -> Callable[[Operation], bool]:
    return lambda one: one.path == path and isinstance(one, Create | SetData)


class TestLostConnection:
    def test_a_change_waits_for_the_next_one(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            broker.session.cut()
            waiting = asyncio.create_task(broker.create("t", (1,)))
            await asyncio.sleep(5)
            assert not waiting.done()
            broker.session.reconnect()
            assert (await waiting).error is ErrorCode.NONE
            assert broker.metadata.is_controller
            assert broker.metadata.broker_epoch > 0

        check()

    def test_a_change_that_waits_too_long_fails(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            broker.session.cut()
            with pytest.raises(ApiError, match="no connection to ZooKeeper") as error:
                await broker.create("t", (1,))
            assert error.value.code == ErrorCode.REQUEST_TIMED_OUT
            assert cluster.clock.monotonic_ms() == pytest.approx(30_000, abs=200)
            broker.session.reconnect()
            await cluster.quiet()
            assert not broker.image.topics

        check()

    @pytest.mark.parametrize("is_applied", [False, True])
    def test_the_outcome_of_a_commit_under_way_is_unknown(self, is_applied: bool) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            changing = asyncio.create_task(first.create("t", (1, 2)))
            number = await until_sent(first, writes(paths.topic("t")))
            first.session.cut(number if is_applied else 0)
            with pytest.raises(ApiError) as error:
                await changing
            assert error.value.code == ErrorCode.REQUEST_TIMED_OUT
            await cluster.quiet()
            assert ("t" in second.image.topics) is is_applied
            first.session.reconnect()
            await cluster.quiet()
            assert parts_of(first.image) == parts_of(second.image) == parts_of(cluster.image())

        check()

    def test_changes_meanwhile_are_read(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("gone", (1,))
            second.session.cut()
            await first.create("t", (1,))
            await first.metadata.alter_configs({topic_resource("t"): [setting("retention.ms", "7")]})
            await first.metadata.delete_topics(["gone"])
            second.session.reconnect()
            await cluster.quiet()
            assert parts_of(first.image) == parts_of(second.image) == parts_of(cluster.image())
            await first.create("u", (1,))  # the znodes are watched again
            await cluster.quiet()
            assert "u" in second.image.topics

        check()

    def test_no_change_is_lost_wherever_the_connection_ends(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (1,))
            await first.create("u", (1,))
            await cluster.quiet()
            for turns in range(20):
                second.session.is_lagging = True
                for topic in ("t", "u"):
                    changes = {topic_resource(topic): [setting("retention.ms", str(turns + 1))]}
                    await first.metadata.alter_configs(changes)
                second.session.catch_up(1)
                while not second.session.requests:
                    await asyncio.sleep(0)
                second.session.catch_up(1)  # an event comes while a path is read
                for _ in range(turns):
                    await asyncio.sleep(0)
                second.session.cut()
                second.session.is_lagging = False
                await cluster.quiet()
                second.session.reconnect()
                await cluster.until(lambda: parts_of(second.image) == parts_of(cluster.image()), within_ms=1000)

        check()

    def test_a_controller_keeps_its_role(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, _ = await cluster.start(1, 2)
            first.session.cut()
            await asyncio.sleep(1)
            first.session.reconnect()
            await cluster.quiet()
            assert cluster.controller is first
            assert cluster.data(paths.CONTROLLER_EPOCH) == b"1"

        check()

    @pytest.mark.parametrize("is_applied", [False, True])
    def test_an_election_whose_outcome_is_unknown(self, is_applied: bool) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            cluster.write(paths.CONTROLLER, None)
            number = await until_sent(broker, writes(paths.CONTROLLER))
            broker.session.cut(number if is_applied else 0)
            await asyncio.sleep(1)
            broker.session.reconnect()
            await cluster.until(lambda: cluster.controller is broker, within_ms=2000)
            found = cluster.zookeeper.read(paths.CONTROLLER)
            assert found is not None
            assert found.ephemeral_owner == broker.session.session_id
            cluster.write(f"{paths.DELETED_TOPICS}/t", b"")
            await cluster.quiet()
            assert cluster.data(f"{paths.DELETED_TOPICS}/t") is None

        check()


class TestExpiredSession:
    def test_a_broker_is_fenced_and_registers_again(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (2, 1))
            epoch = second.metadata.broker_epoch
            second.session.end()
            await cluster.quiet()
            assert first.state("t").leader == 1
            assert second.state("t").leader == 2  # it does not know yet
            second.session.reconnect()
            assert second.metadata.broker_epoch == -1
            with pytest.raises(ApiError, match="not registered"):
                await second.alter("t", [2])
            await cluster.quiet()
            assert second.metadata.broker_epoch > epoch
            assert first.image.brokers[2].epoch == second.metadata.broker_epoch
            assert (second.state("t").leader, second.state("t").isr) == (1, (1,))
            assert parts_of(first.image) == parts_of(second.image) == parts_of(cluster.image())

        check()

    def test_a_controller_resigns_and_another_takes_over(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            first.session.end()
            await cluster.until(lambda: second.metadata.is_controller)
            first.session.reconnect()
            assert not first.metadata.is_controller
            await cluster.quiet()
            assert cluster.controller is second
            assert first.metadata.broker_epoch > 0
            await second.stop()
            await cluster.quiet()
            assert cluster.controller is first  # it stands again

        check()

    def test_a_lone_broker_comes_back_with_its_partitions(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            await broker.create("t", (1,))
            broker.session.end()
            await asyncio.sleep(60)
            broker.session.reconnect()
            await cluster.quiet()
            assert cluster.controller is broker
            assert broker.state("t").leader == 1
            assert parts_of(broker.image) == parts_of(cluster.image())

        check()

    def test_the_registration_of_the_old_session_may_end_later(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            old = second.session.session_id
            second.session.cut()
            cluster.zookeeper.live.discard(old)  # the client learns of it before the znodes go
            second.session.reconnect()
            await asyncio.sleep(1)
            assert second.metadata.broker_epoch == -1
            cluster.zookeeper.live.add(old)
            cluster.zookeeper.end_session(old)
            await cluster.until(lambda: second.metadata.broker_epoch > 0)
            assert first.image.brokers[2].epoch == second.metadata.broker_epoch

        check()

    def test_it_expires_while_it_registers(self) -> None:
        """The registration of a session counts only while that session lasts, however late the response is used."""

        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            _, second = await cluster.start(1, 2)
            second.session.end()
            second.session.reconnect()
            for turns in range(40):
                for _ in range(turns):
                    await asyncio.sleep(0)
                second.session.end()
                second.session.reconnect()
            await cluster.until(lambda: second.metadata.broker_epoch > 0)
            await cluster.quiet()
            found = cluster.zookeeper.read(paths.broker(2))
            assert found is not None
            assert (found.czxid, found.ephemeral_owner) == (second.metadata.broker_epoch, second.session.session_id)

        check()

    def test_a_registration_that_waits_for_the_image(self) -> None:
        """A broker publishes slowly: its registration is in ZooKeeper, and its session ends before the image has it."""

        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            _, second = await cluster.start(1, 2)
            may_prepare = asyncio.Event()

            async def prepare(_change: object) -> None:
                await may_prepare.wait()

            second.session.end()
            second.session.reconnect()
            second.metadata.subscribe(lambda _: None, prepare)
            await cluster.until(lambda: cluster.zookeeper.read(paths.broker(2)) is not None)
            second.session.end()
            second.session.reconnect()
            await cluster.quiet()
            may_prepare.set()
            await cluster.quiet()
            found = cluster.zookeeper.read(paths.broker(2))
            assert found is not None
            assert (found.czxid, found.ephemeral_owner) == (second.metadata.broker_epoch, second.session.session_id)
            assert second.image.brokers[2].epoch == found.czxid

        check()

    def test_a_connection_that_is_lost_at_the_start(self) -> None:
        """The broker gives up the places of its earlier run before it registers, also over a new connection."""

        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (2, 1))
            await second.kill()
            again = cluster.broker(2)
            starting = asyncio.create_task(again.start())
            await asyncio.sleep(2)  # it waits for the end of the session
            again.session.cut()
            await asyncio.sleep(1)
            again.session.reconnect()
            await starting
            assert again.metadata.broker_epoch > 0
            assert (again.state("t").leader, again.state("t").isr) == (1, (1,))
            registrations = [
                step.found.czxid
                for steps in cluster.zookeeper.commits
                for step in steps
                if step.event.path == paths.broker(2) and step.found is not None
            ]
            assert len(registrations) == 2

        check()
