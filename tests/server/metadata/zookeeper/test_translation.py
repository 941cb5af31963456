"""Znodes become records of the metadata, and an image becomes znodes again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden_sets import captured_znodes
from server.metadata.images import image_of, partition_of, with_topic
from server.metadata.zookeeper.image_tree import znodes_of
from server.metadata.zookeeper.test_znodes import JSON, kind_of
from server.metadata.zookeeper.znode_trees import captured_mapping, captured_tree, tree_of
from tidelog.model import TopicPartition, ZnodeError
from tidelog.security.scram_credential import ScramMechanism
from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.metadata_record import MetadataRecord, decode_record, encode_record
from tidelog.server.metadata.partition_state import MIGRATING, PartitionState
from tidelog.server.metadata.zookeeper.image_znodes import quota_text
from tidelog.server.metadata.zookeeper.translation import ZooKeeperCluster, translate
from tidelog.server.metadata.zookeeper.znode_tree import Znode
from tidelog.server.metadata.zookeeper.znodes import ConfigZnode
from tidelog.storage.checkpoint import uuid_to_text

BOB = "bob smith@x*y~z"


def image_from(cluster: ZooKeeperCluster) -> MetadataImage:
    """Return the image of the records, after they went through the bytes of a log."""
    image = MetadataImage(cluster_id=cluster.cluster_id or "")
    for record in cluster.records():
        image.apply(decode_record(encode_record(record, 33)))
    return image


@pytest.fixture(scope="module")
def image() -> MetadataImage:
    return image_from(translate(captured_tree()))


class TestWhatKafkaLeft:
    def test_topics_and_partitions(self, image: MetadataImage) -> None:
        assert {name: len(topic.partitions) for name, topic in image.topics.items()} == {
            "__consumer_offsets": 4,
            "__transaction_state": 4,
            "customers": 2,
            "empty": 1,
            "old-format": 1,
            "orders": 20,
            "with.dots_and-dashes": 3,
        }
        topics = captured_znodes()
        for name, topic in image.topics.items():
            assert uuid_to_text(topic.id) in topics[f"/brokers/topics/{name}"]["data"]
        assert image.partition(TopicPartition("orders", 19)) == PartitionState(
            replicas=(7,), isr=(7,), leader=7, leader_epoch=0, partition_epoch=0, directories=(MIGRATING,)
        )

    def test_settings(self, image: MetadataImage) -> None:
        assert image.settings_of(ResourceType.TOPIC, "customers") == {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.2",
        }
        assert image.settings_of(ResourceType.BROKER, "7") == {"log.cleaner.threads": "2"}
        assert image.settings_of(ResourceType.BROKER, "")["log.retention.ms"] == "864000000"

    def test_quotas(self, image: MetadataImage) -> None:
        assert image.client_quotas == {
            (("user", "alice"),): {"producer_byte_rate": 123456.0, "consumer_byte_rate": 234567.0},
            (("client-id", "app one"), ("user", "alice")): {"request_percentage": 12.5},
            (("client-id", None), ("user", "alice")): {"producer_byte_rate": 1000.0},
            (("user", None),): {"controller_mutation_rate": 7.5},
            (("client-id", None), ("user", None)): {"consumer_byte_rate": 99999.0},
            (("client-id", "app one"),): {"consumer_byte_rate": 88888.0},
            (("client-id", None),): {"producer_byte_rate": 77777.0},
            (("ip", "127.0.0.9"),): {"connection_creation_rate": 50.0},
            (("ip", None),): {"connection_creation_rate": 5000.0},
        }

    def test_users(self, image: MetadataImage) -> None:
        assert image.scram_credentials.keys() == {ScramMechanism.SHA_256, ScramMechanism.SHA_512}
        for users in image.scram_credentials.values():
            assert {user: one.iterations for user, one in users.items()} == {"alice": 5000, BOB: 5000}

    def test_acls(self, image: MetadataImage) -> None:
        acls = set(image.acls.values())
        orders = Pattern(AclResourceType.TOPIC, "orders", PatternType.LITERAL)
        prefix = Pattern(AclResourceType.TOPIC, "cust", PatternType.PREFIXED)
        assert len(acls) == 11
        assert Acl(orders, "User:alice", "10.1.2.3", Operation.ALL, Permission.DENY) in acls
        assert Acl(prefix, f"User:{BOB}", "*", Operation.READ, Permission.ALLOW) in acls
        assert {acl.pattern.resource_type for acl in acls} == set(AclResourceType) - {0, 1}

    def test_the_rest(self) -> None:
        cluster = translate(captured_tree())
        assert cluster.next_producer_id == 1000
        assert cluster.controller_epoch == 1
        assert not cluster.brokers
        assert not cluster.untranslated
        assert not cluster.has_migration


def test_everything_without_a_translation_is_named() -> None:
    tree = captured_tree(
        {
            "/delegation_token/tokens/abc": {},
            "/consumers/old-group/offsets": b"",
            "/config/groups/g": {},
            "/config/users/alice": {"version": 1, "config": {"odd": "1"}},
            "/config/users/<default>": {"version": 1, "config": {"SCRAM-SHA-256": "x"}},
            "/admin/reassign_partitions": {},
            "/hbase": b"",
            "/admin/delete_topics/orders": b"",
            "/migration": b"",
        }
    )
    cluster = translate(tree)
    assert {one.what: list(one.names) for one in cluster.untranslated} == {
        "delegation tokens": ["abc"],
        "offsets of consumers before 0.9": ["old-group"],
        "settings of another type": ["/config/groups"],
        "unknown settings of users, clients and addresses": [
            "/config/users/<default> SCRAM-SHA-256",
            "/config/users/alice odd",
        ],
        "requests of old tools": ["/admin/reassign_partitions"],
        "znodes of other programs": ["hbase"],
    }
    assert cluster.deleted_topics == ("orders",)
    assert cluster.has_migration


@pytest.mark.parametrize(
    ("path", "data", "words"),
    [
        ("/brokers/topics/a b", {"version": 1, "partitions": {}}, "'a b' is not a valid name of a topic"),
        ("/brokers/topics/orders", {"version": 1, "partitions": {"0": []}}, "partition 0 has the replicas []"),
        ("/brokers/topics/orders", {"version": 1, "partitions": {"0": [1, 1]}}, "has the replicas [1, 1]"),
        ("/brokers/topics/orders", {"version": 1, "partitions": {"0": [-1]}}, "has the replicas [-1]"),
        (
            "/brokers/topics/again",
            {"version": 3, "partitions": {}, "topic_id": "T0lJTn8ETVqpyHF3yXQkpg"},
            "its topic_id is also that of",
        ),
        (
            "/brokers/topics/orders/partitions/3/state",
            {"version": 1, "leader": 1, "leader_epoch": 0, "controller_epoch": 1, "isr": [7, 8]},
            "isr is [7, 8], but the replicas are [7]",
        ),
        ("/brokers/ids/x", {}, "'x' is not a broker id"),
        ("/config/brokers/-1", {}, "'-1' is not a broker id"),
        ("/config/topics/a b", {"version": 1}, "is not a valid name of a topic"),
        ("/config/users/%ff", {"version": 1}, "its name is not percent-encoded UTF-8"),
        (
            "/config/clients/c",
            {"version": 1, "config": {"producer_byte_rate": "many"}},
            "'many', which is not a number",
        ),
        ("/config/clients/c", {"version": 1, "config": {"producer_byte_rate": "nan"}}, "'nan', which is not a number"),
        ("/config/users/u", {"version": 1, "config": {"SCRAM-SHA-256": "salt=x"}}, "is not a credential"),
        ("/kafka-acl/Cloud/c", {"version": 1, "acls": []}, "'Cloud' is not a resource type"),
        ("/kafka-acl/Group/a/b", b"", "/kafka-acl/Group/a: it has children"),
    ],
)
def test_a_znode_that_is_not_valid_is_named(path: str, data: Any, words: str) -> None:
    with pytest.raises(ZnodeError) as raised:
        translate(captured_tree({path: data}))
    assert words in str(raised.value)
    assert "salt=x" not in str(raised.value)


@given(path=st.sampled_from([path for path in captured_znodes() if kind_of(path)]), data=JSON)
def test_any_json_anywhere_is_refused_or_translated(path: str, data: Any) -> None:
    try:
        cluster = translate(captured_tree({path: data}))
    except ZnodeError as error:
        named = path in str(error)
    else:
        named = bool([record.name for record in cluster.records()])
    assert named


def test_an_image_and_its_znodes_are_the_same() -> None:
    image = image_from(translate(captured_tree()))
    states = [
        partition_of((1, 2, 3), isr=(3, 1), leader=3, leader_epoch=5, partition_epoch=9),
        partition_of((1, 2), isr=(1,), leader=-1, adding=(2,), removing=(1,), is_recovering=True),
    ]
    with_topic(image, *(migrating(state) for state in states), name="moving")
    image.apply(MetadataRecord("ConfigRecord", config(ResourceType.TOPIC, "moving", "flush.ms", "ü\x01")))
    again = translate(tree_of(znodes_of(image, controller_epoch=1, features={})))
    assert comparable(image_from(again)) == comparable(image)


def test_kafkas_znodes_become_themselves() -> None:
    """An image of Kafka's znodes becomes the same znodes, without registrations and announcements."""
    image = image_from(translate(captured_tree()))
    written = znodes_of(image, controller_epoch=1, features={})
    for path, found in captured_mapping().items():
        kind = kind_of(path)
        if kind in ("topic", "state", "cluster id", "feature"):
            assert written.pop(path) == found
        elif kind == "config" and found.data:
            assert ConfigZnode.decode(path, written.pop(path).data) == ConfigZnode.decode(path, found.data)
        elif kind in ("acls", "producer ids"):
            assert written.pop(path)
    assert not written


def migrating(state: PartitionState) -> PartitionState:
    return PartitionState.of({**state.fields(), "directories": [uuid_to_text(MIGRATING)] * len(state.replicas)})


def config(kind: ResourceType, name: str, key: str, value: str) -> dict[str, Any]:
    return {"resourceType": int(kind), "resourceName": name, "name": key, "value": value}


def comparable(image: MetadataImage) -> tuple[object, ...]:
    return (
        image.cluster_id,
        image.topics,
        image.configs,
        image.client_quotas,
        image.scram_credentials,
        set(image.acls.values()),
        image.next_producer_id,
    )


@given(
    st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.floats(1, 1e18)), max_size=5)
)
def test_names_and_numbers_of_quotas_survive(quotas: list[tuple[str, float]]) -> None:
    image = image_of(())
    for name, value in quotas:
        fields = {"entity": [{"entityType": "user", "entityName": name}], "key": "producer_byte_rate"}
        image.apply(MetadataRecord("ClientQuotaRecord", {**fields, "value": value, "remove": False}))
    znodes = znodes_of(image, controller_epoch=0, features={})
    assert all("/" not in path.removeprefix("/config/users/") for path in znodes if path.startswith("/config/users/"))
    again = image_from(translate(tree_of({**znodes, "/": Znode()})))
    assert again.client_quotas == image.client_quotas


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("request_percentage", 50.0, "50.0"),
        ("controller_mutation_rate", 12_345_678.0, "1.2345678E7"),
        ("producer_byte_rate", 12_345_678.0, "12345678"),
        ("connection_creation_rate", 50.0, "50"),
    ],
)
def test_a_quota_has_the_text_of_its_type(key: str, value: float, text: str) -> None:
    """Kafka 3.9 writes doubles with a fraction, and the other quotas as whole numbers."""
    assert quota_text(key, value) == text
