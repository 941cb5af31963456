"""The metadata of brokers that keep it in ZooKeeper: starts, changes that other brokers see, and shutdowns."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from server.metadata.metadata_harness import setting, topic_resource
from server.metadata.zookeeper_cluster.metadata_cluster import SESSION_MS, MetadataCluster, on_cluster, parts_of
from tidelog.model import ConfigError, ZnodeError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.security.scram_credential import ScramMechanism
from tidelog.server.authorization.acl import Acl, AclFilter, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.metadata.broker_metadata import StartGivenUpError
from tidelog.server.metadata.requests import NewPartitions, NewTopic, QuotaChange, ScramUpsertion
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.znodes import BrokerZnode, ControllerZnode, TopicZnode
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties

DIRECTORY = Path("/data")


class TestStart:
    def test_a_lone_broker_is_registered_and_the_controller(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            assert broker.metadata.is_controller
            registered = cluster.zookeeper.read(paths.broker(1))
            assert registered is not None
            assert (registered.czxid, registered.ephemeral_owner) == (
                broker.metadata.broker_epoch,
                broker.session.session_id,
            )
            assert BrokerZnode.decode("", registered.data).features["tidelog"].oldest == 1
            elected = cluster.zookeeper.read(paths.CONTROLLER)
            assert elected is not None
            assert elected.ephemeral_owner == broker.session.session_id
            assert ControllerZnode.decode("", elected.data).broker_id == 1
            assert cluster.data(paths.CONTROLLER_EPOCH) == b"1"
            assert broker.image.controller_id == 1
            assert parts_of(broker.image) == parts_of(cluster.image())

        check()

    def test_the_second_broker_is_not_the_controller(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await cluster.quiet()
            assert cluster.controller is first
            assert (first.image.controller_id, second.image.controller_id) == (1, 1)
            assert cluster.data(paths.CONTROLLER_EPOCH) == b"1"
            assert first.image.brokers == second.image.brokers == cluster.image().brokers

        check()

    def test_the_image_stands_still_until_the_broker_joins(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (first,) = await cluster.start(1)
            second = cluster.broker(2)
            await second.load()
            await second.metadata.start()
            await first.create("t", (1,))
            await cluster.quiet()
            assert "t" not in second.image.topics
            await second.metadata.join(second.registration())
            assert "t" in second.image.topics

        check()

    def test_topics_have_ids_before_the_logs_are_loaded(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = cluster.broker(1), cluster.broker(2)
            cluster.write(paths.topic("t"), TopicZnode(topic_id=None, replicas={0: (1,)}).encode())
            await first.load()
            found = first.image.topics["t"].id
            await second.load()
            assert second.image.topics["t"].id == found == cluster.image().topics["t"].id

        check()

    def test_a_broker_leaves_the_places_of_its_killed_run(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (2, 1))
            await second.kill()
            (again,) = await cluster.start(2)
            assert cluster.clock.monotonic_ms() >= SESSION_MS
            state = again.state("t")
            assert (state.leader, state.isr, state.leader_epoch) == (1, (1,), 1)
            assert again.metadata.broker_epoch > second.metadata.broker_epoch

        check()

    def test_a_lone_broker_leads_again_in_a_new_epoch(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            await broker.create("t", (1,))
            await broker.kill()
            (again,) = await cluster.start(1)
            state = again.state("t")
            assert (state.leader, state.isr) == (1, (1,))
            assert state.leader_epoch > 0

        check()

    def test_a_doubled_id_is_refused(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (first,) = await cluster.start(1)
            with pytest.raises(ConfigError, match=r"broker\.id 1: a live broker with this id"):
                await cluster.start(1)
            assert cluster.zookeeper.read(paths.broker(1)) is not None
            await first.stop()

        check()

    def test_the_start_is_given_up(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (first,) = await cluster.start(1)
            await first.kill()
            second = cluster.broker(1)
            starting = asyncio.create_task(second.start())
            await asyncio.sleep(1)
            second.metadata.give_up_start()
            with pytest.raises(StartGivenUpError):
                await starting
            await asyncio.sleep(SESSION_MS / 1000)

        check()

    def test_a_running_broker_of_kafka_is_refused(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            of_kafka = BrokerZnode(listeners=(), timestamp_ms=0)
            cluster.write(paths.broker(7), of_kafka.encode())
            with pytest.raises(ConfigError, match="broker 7 in host:2181 is a running broker of Kafka"):
                await cluster.start(1)
            assert cluster.zookeeper.read(paths.broker(1)) is None

        check()

    @pytest.mark.parametrize(
        "path",
        [
            paths.topic("t"),
            f"{paths.TOPIC_CONFIGS}/t",
            f"{paths.USER_CONFIGS}/u",
            "/kafka-acl/Topic/t",
            paths.PRODUCER_IDS,
            paths.broker(3),
        ],
    )
    def test_a_znode_that_is_not_valid_is_named(self, path: str) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (first,) = await cluster.start(1)
            await first.stop()
            cluster.write(path, b"{")
            with pytest.raises(ZnodeError, match=path):
                await cluster.start(1)

        check()

    def test_format_and_load_run_in_a_thread(self) -> None:
        async def work() -> None:
            cluster = MetadataCluster()
            broker = cluster.broker(1)
            await asyncio.to_thread(broker.metadata.format)
            await asyncio.to_thread(broker.metadata.load)
            await broker.metadata.start()
            await broker.metadata.join(broker.registration())
            assert broker.metadata.is_controller
            found = MetaProperties.read(broker.fs, DIRECTORY / META_PROPERTIES_FILE)
            assert found is not None
            assert (found.version, found.node_id, found.cluster_id) == (0, 1, broker.image.cluster_id)
            await broker.stop()

        asyncio.run(work())


class TestChanges:
    """A change at one broker is in the images of the others soon."""

    def test_topics(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            made = await second.create("t", (2, 1), (1, 2), retention_ms="5")
            assert made.error is ErrorCode.NONE
            assert second.image.topics["t"].id == made.topic_id  # the image has it when the call returns
            assert second.state("t", 1).leader == 1
            await cluster.quiet()
            assert first.image.topics["t"] == second.image.topics["t"]
            assert first.metadata.committed_settings("t") == {"retention.ms": "5"}
            (grown,) = await first.metadata.create_partitions([NewPartitions(topic="t", total=3)])
            assert grown.error is ErrorCode.NONE
            await cluster.quiet()
            assert len(second.image.topics["t"].partitions) == 3
            assert parts_of(first.image) == parts_of(second.image) == parts_of(cluster.image())

        check()

    def test_an_existing_topic_is_refused(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            results = await asyncio.gather(*(one.create("t", (one.node_id,)) for one in (first, second)))
            assert sorted(one.error for one in results) == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
            await cluster.quiet()
            assert first.image.topics == second.image.topics
            assert {one.topic_id for one in results if one.topic_id} == {first.image.topics["t"].id}

        check()

    def test_deletion(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (2, 1), retention_ms="5")
            (deleted,) = await second.metadata.delete_topics(["t"])
            assert deleted.error is ErrorCode.NONE
            for path in (paths.topic("t"), f"{paths.TOPIC_CONFIGS}/t", f"{paths.DELETED_TOPICS}/t"):
                assert cluster.zookeeper.read(path) is None
            assert not first.image.topics
            assert not second.image.topics
            again = await second.create("t", (2,))
            assert again.error is ErrorCode.NONE
            assert again.topic_id != deleted.topic_id
            assert not second.metadata.committed_settings("t")

        check()

    def test_a_replica_that_is_away_delays_the_deletion(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (1, 2))
            await second.stop()
            (deleted,) = await first.metadata.delete_topics(["t"], timeout_ms=1000)
            assert deleted.error is ErrorCode.NONE
            assert "t" not in first.image.topics
            assert cluster.zookeeper.read(paths.topic("t")) is not None
            refused = await first.create("t", (1,))
            assert refused.error is ErrorCode.TOPIC_ALREADY_EXISTS
            await cluster.start(2)
            await cluster.until(lambda: cluster.zookeeper.read(paths.topic("t")) is None)

        check()

    def test_settings(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (1,))
            changes = {topic_resource("t"): [setting("retention.ms", "7")]}
            outcomes = await second.metadata.alter_configs(changes)
            assert not outcomes[topic_resource("t")].is_failure
            await cluster.quiet()
            assert first.image.settings_of(*topic_resource("t")) == {"retention.ms": "7"}
            (announced,) = cluster.zookeeper.table.children("/config/changes") or ()
            assert json.loads(cluster.data(f"/config/changes/{announced}") or b"") == {
                "version": 2,
                "entity_path": "topics/t",
            }

        check()

    def test_quotas_credentials_and_acls(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            cluster.settings["authorizer.class.name"] = "kafka.security.authorizer.AclAuthorizer"
            first, second = await cluster.start(1, 2)
            entity = (("user", "u"),)
            await first.metadata.alter_client_quotas([QuotaChange(entity, [("request_percentage", 9.0)])])
            wanted = ScramUpsertion("u", int(ScramMechanism.SHA_256), 4096, b"salt", b"salted")
            assert not (await first.metadata.alter_scram_users([], [wanted]))["u"].is_failure
            acl = Acl(
                pattern=Pattern(AclResourceType.TOPIC, "t", PatternType.LITERAL),
                principal="User:u",
                host="*",
                operation=Operation.READ,
                permission=Permission.ALLOW,
            )
            await second.metadata.create_acls([acl])
            await cluster.quiet()
            assert second.image.client_quotas == {entity: {"request_percentage": 9.0}}
            assert "u" in second.image.scram_credentials[ScramMechanism.SHA_256]
            assert list(first.image.acls.values()) == [acl]
            assert parts_of(first.image) == parts_of(second.image) == parts_of(cluster.image())
            (removed,) = await first.metadata.delete_acls([AclFilter(operation=Operation.ANY)])
            assert list(removed.acls) == [acl]
            await cluster.quiet()
            assert not second.image.acls

        check()

    def test_producer_ids_are_given_once(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            brokers = await cluster.start(1, 2, 3)
            blocks = await asyncio.gather(*(one.metadata.allocate_producer_ids() for one in brokers for _ in range(4)))
            ids = sorted(number for block in blocks for number in block)
            assert ids == list(range(12_000))

        check()

    def test_in_sync_replicas(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await second.create("t", (1, 2))
            await cluster.quiet()
            left = await first.alter("t", [1])
            assert left.state is not None
            assert (left.state.isr, left.state.partition_epoch) == ((1,), 1)
            assert first.state("t") == left.state
            await cluster.quiet()
            assert second.state("t") == left.state
            refused = await second.alter("t", [1, 2])
            assert refused.outcome.error is ErrorCode.INVALID_REQUEST  # it does not lead

        check()

    def test_a_conflict_is_decided_again(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (1,))
            second.session.is_lagging = True
            await first.metadata.alter_configs({topic_resource("t"): [setting("retention.ms", "7")]})
            await cluster.quiet()
            assert not second.image.settings_of(*topic_resource("t"))
            await second.metadata.alter_configs({topic_resource("t"): [setting("flush.ms", "8")]})
            wanted = {"retention.ms": "7", "flush.ms": "8"}
            assert second.image.settings_of(*topic_resource("t")) == wanted
            await cluster.quiet()
            assert first.image.settings_of(*topic_resource("t")) == wanted

        check()

    def test_a_state_of_an_old_version_is_refused(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, _ = await cluster.start(1, 2)
            await first.create("t", (1, 2))
            first.session.is_lagging = True
            found = cluster.data(paths.state("t", 0))
            assert found is not None
            cluster.write(paths.state("t", 0), found.replace(b'"leader_epoch":0', b'"leader_epoch":5'))
            refused = await first.alter("t", [1])
            assert refused.outcome.error is ErrorCode.FENCED_LEADER_EPOCH
            assert first.state("t").leader_epoch == 5

        check()

    def test_a_large_topic_takes_several_commits(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            made = await first.metadata.create_topics([NewTopic(name="t", partitions=2000, replication_factor=2)])
            assert made[0].error is ErrorCode.NONE
            await cluster.quiet()
            assert len(second.image.topics["t"].partitions) == 2000
            assert all(state.has_leader for state in second.image.topics["t"].partitions.values())
            assert parts_of(second.image) == parts_of(cluster.image())

        check()

    def test_nothing_is_written_to_validate(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            before = len(cluster.zookeeper.commits)
            (made,) = await broker.metadata.create_topics([NewTopic(name="t", partitions=1)], validate_only=True)
            assert made.error is ErrorCode.NONE
            assert len(cluster.zookeeper.commits) == before

        check()


class TestShutdown:
    def test_other_replicas_lead_before_the_registration_ends(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            first, second = await cluster.start(1, 2)
            await first.create("t", (1, 2))
            seen: list[tuple[bool, int]] = []
            second.metadata.subscribe(lambda _: seen.append((1 in second.image.brokers, second.state("t").leader)))
            await first.metadata.hand_over()
            await cluster.quiet()
            assert seen[0] == (True, 2)
            assert seen[-1] == (False, 2)
            assert second.state("t").isr == (2,)
            await first.metadata.leave()
            await first.close()
            await cluster.until(lambda: cluster.controller is second, within_ms=1000)

        check()

    def test_the_last_broker_stays_in_sync(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            await broker.create("t", (1,))
            await broker.metadata.hand_over()
            await cluster.quiet()
            await broker.metadata.leave()
            await broker.close()
            state = cluster.image().topics["t"].partitions[0]
            assert (state.leader, state.isr, state.leader_epoch) == (-1, (1,), 1)
            assert cluster.zookeeper.read(paths.CONTROLLER) is None
            (again,) = await cluster.start(1)
            assert (again.state("t").leader, again.state("t").leader_epoch) == (1, 2)

        check()

    def test_changes_are_refused_afterwards(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            await broker.metadata.leave()
            with pytest.raises(ApiError, match="stops"):
                await broker.create("t", (1,))
            await broker.metadata.close()
            await broker.metadata.close()

        check()

    def test_a_change_that_waits_ends_with_the_broker(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            broker.session.cut()
            waiting = asyncio.create_task(broker.create("t", (1,)))
            await cluster.quiet()
            assert not waiting.done()
            await broker.metadata.close()
            await asyncio.wait([waiting])
            assert waiting.cancelled()

        check()

    def test_it_ends_without_zookeeper(self) -> None:
        @on_cluster
        async def check(cluster: MetadataCluster) -> None:
            (broker,) = await cluster.start(1)
            broker.session.cut()
            await broker.stop()

        check()
