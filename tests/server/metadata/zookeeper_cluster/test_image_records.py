"""The records that lead from an image to the translated znodes."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from counted_calls import CountedCalls
from server.metadata.zookeeper.test_translation import comparable
from server.metadata.zookeeper.test_znodes import kind_of
from server.metadata.zookeeper.znode_trees import captured_tree
from server.metadata.zookeeper_cluster.cluster_records import cluster_records
from tidelog.model import TopicPartition, ZnodeError
from tidelog.replication.registration_request import BrokerEndpoint, VersionRange
from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord, decode_record, encode_record
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.acl_znode import pattern_of
from tidelog.server.metadata.zookeeper.translation import (
    ZooKeeperTopic,
    translate,
    translate_acls,
    translate_entity,
    translate_settings,
    translate_topic,
)
from tidelog.server.metadata.zookeeper.znode_tree import Znode, ZnodeTree
from tidelog.server.metadata.zookeeper.znodes import BrokerZnode, StateZnode, TopicZnode
from tidelog.server.metadata.zookeeper_cluster.image_records import (
    acl_records,
    broker_records,
    config_records,
    producer_id_records,
    quota_records,
    scram_records,
    topic_records,
)

BROKER = BrokerZnode(
    listeners=(BrokerEndpoint("PLAINTEXT", "host", 9092), BrokerEndpoint("TLS", "::1", 9093, 1)),
    timestamp_ms=5,
    rack="a",
    features={"tidelog": VersionRange(1, 1)},
)
ORDERS = Pattern(AclResourceType.TOPIC, "orders", PatternType.LITERAL)


def applied(image: MetadataImage, records: Sequence[MetadataRecord]) -> MetadataImage:
    """Apply the records, after they went through the bytes of a log, and return the same image."""
    for record in records:
        image.apply(decode_record(encode_record(record, 33)))
    return image


@pytest.fixture
def image() -> MetadataImage:
    cluster = translate(captured_tree())
    image = MetadataImage(cluster_id=cluster.cluster_id or "")
    return applied(image, cluster_records(image, cluster, {7: (42, BROKER)}))


def state(leader: int, epoch: int, **fields: Any) -> PartitionState:
    return PartitionState.of(
        {
            **PartitionState(replicas=(1, 2), isr=(1, 2), leader=leader, partition_epoch=epoch).fields(),
            **fields,
        }
    )


class TestCluster:
    def test_an_empty_image_becomes_that_of_the_cluster(self, image: MetadataImage) -> None:
        assert comparable(image) == comparable(translate(captured_tree()).image())
        assert image.brokers.keys() == {7}

    def test_an_equal_image_needs_no_records(self, image: MetadataImage) -> None:
        assert cluster_records(image, translate(captured_tree()), {7: (42, BROKER)}) == []

    def test_an_image_loses_everything_that_the_cluster_does_not_have(self, image: MetadataImage) -> None:
        empty = translate(ZnodeTree({}))
        applied(image, cluster_records(image, empty, {}))
        assert comparable(image) == (image.cluster_id, {}, {}, {}, {}, set(), 1000)
        assert image.brokers == {}

    def test_a_changed_tree_and_back(self, image: MetadataImage) -> None:
        before, ids = comparable(image), dict(image.acls)
        changed = translate(
            captured_tree(
                {
                    "/config/topics/orders": {"version": 1, "config": {"retention.ms": "1"}},
                    "/config/users/alice": {"version": 1, "config": {"producer_byte_rate": "5"}},
                    "/kafka-acl/Topic/orders": {"version": 1, "acls": []},
                    "/config/clients/new": {"version": 1, "config": {"consumer_byte_rate": "7"}},
                }
            )
        )
        applied(image, cluster_records(image, changed, {}))
        assert comparable(image) == comparable(changed.image())
        applied(image, cluster_records(image, translate(captured_tree()), {}))
        assert comparable(image) == before
        assert {one for one, acl in image.acls.items() if acl.pattern != ORDERS} == {
            one for one, acl in ids.items() if acl.pattern != ORDERS
        }

    def test_the_parts_one_by_one_are_the_whole(self, image: MetadataImage) -> None:
        tree, parts = captured_tree(), MetadataImage()
        for path, kind in ((path, kind_of(path)) for path in tree.znodes):
            data, name = tree.data(path) or b"", path.rpartition("/")[2]
            if kind == "topic":
                applied(parts, topic_records(parts, name, translate_topic(tree, name)))
            elif kind == "acls":
                applied(parts, acl_records(parts, pattern_of(path), translate_acls(path, data)))
            elif kind == "config" and path.split("/")[2] in ("topics", "brokers"):
                applied(parts, config_records(parts, *translate_settings(path, data)))
            elif kind == "config" and name != "clients":
                found = translate_entity(path, data)
                applied(parts, quota_records(parts, found.entity, found.quotas))
                applied(parts, scram_records(parts, found.entity[0][1] or "", found.credentials))
        assert comparable(parts)[1:-1] == comparable(image)[1:-1]


class TestTopics:
    def test_only_the_changed_partition_has_a_record(self, image: MetadataImage) -> None:
        data = StateZnode(leader=-1, leader_epoch=4, controller_epoch=2, isr=(7,)).encode()
        tree = captured_tree({paths.state("orders", 3): Znode(data, 9)})
        records = topic_records(image, "orders", translate_topic(tree, "orders"))
        assert [(record.name, record.fields["partitionId"]) for record in records] == [("PartitionRecord", 3)]
        found = applied(image, records).partition(TopicPartition("orders", 3))
        assert found is not None
        assert (found.leader, found.leader_epoch, found.partition_epoch) == (-1, 4, 9)

    def test_a_read_that_is_older_than_the_image_is_left_out(self, image: MetadataImage) -> None:
        newer = captured_tree(
            {
                paths.state("orders", 3): Znode(
                    StateZnode(leader=7, leader_epoch=1, controller_epoch=1, isr=(7,)).encode(), 2
                )
            }
        )
        applied(image, topic_records(image, "orders", translate_topic(newer, "orders")))
        assert topic_records(image, "orders", translate_topic(captured_tree(), "orders")) == []

    def test_a_topic_that_is_gone(self, image: MetadataImage) -> None:
        assert translate_topic(captured_tree({paths.topic("orders"): None}), "orders") is None
        applied(image, topic_records(image, "orders", None))
        assert "orders" not in image.topics
        assert topic_records(image, "orders", None) == []

    def test_another_topic_under_the_same_name(self, image: MetadataImage) -> None:
        other = ZooKeeperTopic(uuid.uuid4(), {0: state(1, 0)})
        records = topic_records(image, "orders", other)
        assert records[0].name == "RemoveTopicRecord"
        applied(image, records)
        assert image.topics["orders"].id == other.topic_id
        assert image.topics["orders"].partitions == {0: state(1, 0)}
        assert image.settings_of(ResourceType.TOPIC, "orders").get("compression.type") == "zstd"

    def test_a_topic_without_an_id_waits_for_one(self, image: MetadataImage) -> None:
        assert topic_records(image, "new", ZooKeeperTopic(None, {0: state(1, 0)})) == []

    def test_a_partition_that_is_missing_is_refused(self, image: MetadataImage) -> None:
        topic = image.topics["customers"]
        with pytest.raises(ZnodeError, match=r"/brokers/topics/customers: partition 1 is missing"):
            topic_records(image, "customers", ZooKeeperTopic(topic.id, {0: topic.partitions[0]}))

    def test_the_id_of_another_topic_is_refused(self, image: MetadataImage) -> None:
        with pytest.raises(ZnodeError, match=r"/brokers/topics/new: its topic_id is also that of orders"):
            topic_records(image, "new", ZooKeeperTopic(image.topics["orders"].id, {}))


class TestBrokers:
    def test_a_registration(self, image: MetadataImage) -> None:
        broker = image.brokers[7]
        assert (broker.epoch, broker.rack, broker.is_active) == (42, "a", True)
        assert tuple(broker.listeners.values()) == BROKER.listeners
        assert broker.features == BROKER.features
        assert broker_records(image, 7, (42, BROKER)) == []

    def test_another_epoch_is_another_incarnation(self, image: MetadataImage) -> None:
        before = image.brokers[7].incarnation_id
        after = applied(image, broker_records(image, 7, (43, BROKER))).brokers[7]
        assert after.epoch == 43
        assert after.incarnation_id != before

    def test_a_changed_listener_keeps_the_controlled_shutdown(self, image: MetadataImage) -> None:
        fields = {"brokerId": 7, "brokerEpoch": 42, "inControlledShutdown": 1}
        image.apply(MetadataRecord("BrokerRegistrationChangeRecord", fields))
        assert broker_records(image, 7, (42, BROKER)) == []
        changed = broker_records(image, 7, (42, replace(BROKER, rack="b")))
        assert applied(image, changed).brokers[7].in_controlled_shutdown
        assert not applied(image, broker_records(image, 7, (50, BROKER))).brokers[7].in_controlled_shutdown

    def test_a_broker_that_is_gone(self, image: MetadataImage) -> None:
        assert not applied(image, broker_records(image, 7, None)).brokers
        assert broker_records(image, 7, None) == []


class TestSettings:
    def test_a_resource(self, image: MetadataImage) -> None:
        for path, name in (
            ("/config/topics/orders", "orders"),
            ("/config/brokers/7", "7"),
            ("/config/brokers/<default>", ""),
        ):
            resource, settings = translate_settings(path, b'{"version":1,"config":{"retention.ms":"1"}}')
            assert resource.name == name
            applied(image, config_records(image, resource, settings))
            assert image.configs[resource] == {"retention.ms": "1"}
            assert config_records(image, resource, settings) == []
            applied(image, config_records(image, *translate_settings(path, b"")))
            assert resource not in image.configs

    def test_an_entity(self, image: MetadataImage) -> None:
        path = "/config/users/alice"
        found = translate_entity(path, captured_tree().data(path) or b"")
        assert found.entity == (("user", "alice"),)
        assert found.credentials.keys() == set(ScramMechanism)
        assert quota_records(image, found.entity, found.quotas) == []
        assert scram_records(image, "alice", found.credentials) == []
        applied(image, quota_records(image, found.entity, {"producer_byte_rate": 1.0}))
        assert image.client_quotas[found.entity] == {"producer_byte_rate": 1.0}
        new = ScramCredential.of_password(ScramMechanism.SHA_256, "x")
        applied(image, scram_records(image, "alice", {ScramMechanism.SHA_256: new}))
        assert image.scram_credentials[ScramMechanism.SHA_256]["alice"] == new
        assert "alice" not in image.scram_credentials[ScramMechanism.SHA_512]

    @pytest.mark.parametrize(
        ("path", "entity"),
        [
            ("/config/clients/<default>", (("client-id", None),)),
            ("/config/ips/127.0.0.9", (("ip", "127.0.0.9"),)),
            ("/config/users/a%20b/clients/c", (("client-id", "c"), ("user", "a b"))),
            ("/config/users/<default>/clients/<default>", (("client-id", None), ("user", None))),
        ],
    )
    def test_the_entity_of_a_path(self, path: str, entity: object) -> None:
        assert translate_entity(path, b"") == (entity, {}, {})

    def test_producer_ids_never_go_back(self, image: MetadataImage) -> None:
        assert producer_id_records(image, 999) == []
        assert applied(image, producer_id_records(image, 2000)).next_producer_id == 2000


class TestAcls:
    def test_an_acl_keeps_its_id(self, image: MetadataImage) -> None:
        before = {acl: acl_id for acl_id, acl in image.acls.items()}
        path = "/kafka-acl/Topic/orders"
        acls = translate_acls(path, captured_tree().data(path) or b"")
        assert acl_records(image, ORDERS, acls) == []
        new = Acl(ORDERS, "User:eve", "*", Operation.READ, Permission.ALLOW)
        applied(image, acl_records(image, ORDERS, [acls[0], new]))
        after = {acl: acl_id for acl_id, acl in image.acls.items()}
        assert {acl for acl in after if acl.pattern == ORDERS} == {acls[0], new}
        assert {acl: after[acl] for acl in after if acl != new} == {acl: before[acl] for acl in after if acl != new}

    def test_a_znode_that_is_gone(self, image: MetadataImage) -> None:
        path = "/kafka-acl-extended/prefixed/Topic/cust"
        prefix = Pattern(AclResourceType.TOPIC, "cust", PatternType.PREFIXED)
        assert translate_acls(path, captured_tree().data(path) or b"")[0].pattern == prefix
        applied(image, acl_records(image, prefix, translate_acls(path, b"")))
        assert len(image.acls) == 10


def test_large_topics_take_few_calls_a_partition() -> None:
    """A changed state of a topic with 1,000 partitions, and a cluster with 10,000 partitions."""
    znodes: dict[str, Znode] = {}
    data = StateZnode(leader=1, leader_epoch=0, controller_epoch=1, isr=(1, 2, 3)).encode()
    for topic in map(str, range(10)):
        replicas = dict.fromkeys(range(1000), (1, 2, 3))
        znodes[paths.topic(topic)] = Znode(TopicZnode(topic_id=uuid.uuid4(), replicas=replicas).encode())
        znodes |= {paths.state(topic, number): Znode(data) for number in replicas}
    tree = ZnodeTree.of(znodes)
    image = MetadataImage()
    with CountedCalls() as calls:
        for record in cluster_records(image, translate(tree), {}):
            image.apply(record)
    assert calls.number < 400 * 10_000
    znodes[paths.state("3", 500)] = Znode(data, 1)
    with CountedCalls() as calls:
        assert len(topic_records(image, "3", translate_topic(ZnodeTree(znodes), "3"))) == 1
    assert calls.number < 200 * 1_000
