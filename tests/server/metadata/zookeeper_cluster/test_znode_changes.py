"""The operations on znodes that carry out a decision's records, on the model of ZooKeeper."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server.metadata.images import settings
from server.metadata.zookeeper.image_tree import znodes_of
from server.metadata.zookeeper.test_translation import comparable
from server.metadata.zookeeper.test_znodes import kind_of
from server.metadata.zookeeper.znode_model import ModelZooKeeper
from server.metadata.zookeeper.znode_trees import captured_mapping, captured_tree, parents, tree_of
from server.metadata.zookeeper_cluster.cluster_records import cluster_records
from server.metadata.zookeeper_cluster.model_cluster import (
    DECISIONS,
    PERSISTENT,
    cluster_of,
    followed,
    image_of_model,
    new_cluster,
    settled,
)
from tidelog.model import TopicPartition, ZnodeError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.authorization.acl import Acl, AclFilter, Pattern, Permission
from tidelog.server.authorization.operation import Operation as AclOperation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller import topics
from tidelog.server.metadata.controller.acls import acl_record, create_acls, delete_acls
from tidelog.server.metadata.controller.brokers import allocate_producer_ids
from tidelog.server.metadata.controller.configs import config_record
from tidelog.server.metadata.controller.leaders import bump_leader_epoch
from tidelog.server.metadata.controller.quotas import alter_client_quotas
from tidelog.server.metadata.controller.reassignments import alter_reassignments
from tidelog.server.metadata.image import ConfigResource, MetadataImage, QuotaEntity
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import NewTopic, QuotaChange, Reassignment
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import Create, Delete, Operation, SetData, ZnodeConflictError
from tidelog.server.metadata.zookeeper.translation import translate, translate_acls
from tidelog.server.metadata.zookeeper.znode_tree import Znode
from tidelog.server.metadata.zookeeper.znodes import ConfigZnode
from tidelog.server.metadata.zookeeper_cluster.znode_changes import znode_changes
from tidelog.storage.checkpoint import uuid_to_text

ALICE = (("user", "alice"),)
ALICES_APP = (("client-id", "app"), ("user", "alice"))


def operations_for(
    zookeeper: ModelZooKeeper, image: MetadataImage, records: Sequence[MetadataRecord]
) -> list[Operation]:
    return znode_changes(image, zookeeper.table.all(), records, controller_epoch=3)


def carry_out(zookeeper: ModelZooKeeper, image: MetadataImage, records: Sequence[MetadataRecord]) -> list[Operation]:
    """Commit the records' operations, and let the image follow."""
    operations = operations_for(zookeeper, image, records)
    zookeeper.commit(operations)
    followed(image, zookeeper)
    return operations


def json_of(zookeeper: ModelZooKeeper, path: str) -> Any:
    found = zookeeper.read(path)
    assert found is not None
    return json.loads(found.data)


@given(st.data())
def test_records_and_their_operations_have_the_same_effect(data: st.DataObject) -> None:
    zookeeper, image = with_partitions()
    deleted: set[str] = set()
    for decide in data.draw(st.lists(st.sampled_from(DECISIONS), min_size=1, max_size=12)):
        records = decide(image, data)
        expected = image.copy()
        for record in records:
            expected.apply(record)
        if any(record.name == "TopicRecord" and record.fields["name"] in deleted for record in records):
            with pytest.raises(ApiError, match="is marked for deletion"):
                operations_for(zookeeper, image, records)
            continue
        deleted |= image.topics.keys() - expected.topics.keys()
        operations = operations_for(zookeeper, image, records)
        check_parts(zookeeper, operations)
        zookeeper.commit(operations)
        followed(image, zookeeper)
        assert set(cluster_of(zookeeper).deleted_topics) == deleted
        without(image, expected, deleted)
        assert settled(image) == settled(expected)
    again = image_of_model(zookeeper)
    without(again, again, deleted)
    assert settled(again) == settled(image)
    check_znodes_of(image)


def check_parts(zookeeper: ModelZooKeeper, operations: Sequence[Operation]) -> None:
    """Assert that the znodes are valid if only the first part of a change is committed, and that no topic is without
    its settings."""
    partial = copy.deepcopy(zookeeper)
    for operation in operations:
        partial.commit([operation])
        found = cluster_of(partial)
        for name, topic in found.topics.items():
            assert partial.read(f"/config/topics/{name}") is not None
            for state in topic.partitions.values():
                assert set(state.isr) <= set(state.replicas)


def check_znodes_of(image: MetadataImage) -> None:
    """Assert that the znodes of an image lead an empty image back to it."""
    written = znodes_of(image, controller_epoch=1, features={})
    above = {parent: Znode() for path in written for parent in parents(path)}
    empty = MetadataImage()
    for record in cluster_records(empty, translate(tree_of({**above, **written})), {}):
        empty.apply(record)
    assert settled(empty) == settled(image)


def without(image: MetadataImage, expected: MetadataImage, deleted: set[str]) -> None:
    """Remove the topics whose deletion has begun from both images."""
    for name in deleted:
        for one in (image, expected):
            if name in one.topics:
                one.apply(MetadataRecord("RemoveTopicRecord", {"topicId": uuid_to_text(one.topics[name].id)}))


def test_kafkas_cluster_is_written_again() -> None:
    """The decisions that lead to the captured cluster write the znodes that Kafka wrote."""
    zookeeper = ModelZooKeeper(dict.fromkeys((*PERSISTENT, "/cluster"), b""))
    image = MetadataImage()
    decided = [
        record
        for record in cluster_records(image, translate(captured_tree()), {})
        if record.name != "ProducerIdsRecord"
    ]
    carry_out(zookeeper, image, [*decided, *allocate_producer_ids(image, 7, 1).records])
    assert comparable(image)[1:] == comparable(translate(captured_tree()).image())[1:]
    for path, found in captured_mapping().items():
        kind, written = kind_of(path), zookeeper.read(path)
        if kind in ("topic", "state", "config", "acls", "producer ids"):
            assert written is not None
            if kind == "config":
                assert ConfigZnode.decode(path, written.data) == ConfigZnode.decode(path, found.data)
            elif kind == "acls":
                assert {*translate_acls(path, written.data)} == {*translate_acls(path, found.data)}
            elif kind == "state":
                assert written.data == found.data.replace(b'"controller_epoch":1', b'"controller_epoch":3')
            else:
                assert written.data == found.data


class TestTopics:
    def test_a_new_topic(self) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        wanted = [NewTopic(name="t", partitions=2, replication_factor=1, configs={"flush.ms": "1"})]
        operations = carry_out(zookeeper, image, topics.create_topics(image, settings(), wanted).records)
        assert [(type(one), one.path) for one in operations] == [
            (Create, "/config/topics/t"),
            (Create, "/brokers/topics/t"),
            (Create, "/brokers/topics/t/partitions"),
            (Create, "/brokers/topics/t/partitions/0"),
            (Create, "/brokers/topics/t/partitions/0/state"),
            (Create, "/brokers/topics/t/partitions/1"),
            (Create, "/brokers/topics/t/partitions/1/state"),
        ]
        assert image.settings_of(ResourceType.TOPIC, "t") == {"flush.ms": "1"}

    def test_a_new_topic_does_not_inherit_settings(self) -> None:
        zookeeper = new_cluster()
        zookeeper.commit([Create("/config/topics/t", b'{"version":1,"config":{"flush.ms":"1"}}')])
        image = image_of_model(zookeeper)
        wanted = [NewTopic(name="t", partitions=1, replication_factor=1)]
        operations = carry_out(zookeeper, image, topics.create_topics(image, settings(), wanted).records)
        assert operations[0] == SetData("/config/topics/t", b'{"version":1,"config":{}}', 0)
        assert not image.settings_of(ResourceType.TOPIC, "t")

    def test_a_topic_whose_predecessor_is_not_gone(self) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        wanted = [NewTopic(name="t", partitions=1, replication_factor=1)]
        records = topics.create_topics(image, settings(), wanted).records
        zookeeper.commit([Create("/brokers/topics/t")])
        with pytest.raises(ApiError, match="Topic 't' is marked for deletion") as raised:
            operations_for(zookeeper, image, records)
        assert raised.value.code is ErrorCode.TOPIC_ALREADY_EXISTS

    def test_a_deletion_is_requested_once(self) -> None:
        zookeeper, image = with_partitions()
        records = topics.delete_topics(image, ["t"]).records
        assert carry_out(zookeeper, image, records) == [Create("/admin/delete_topics/t")]
        assert operations_for(zookeeper, image, records) == []

    def test_a_newer_state_is_a_conflict(self) -> None:
        zookeeper, image = with_partitions()
        records = bump_leader_epoch(image, TopicPartition("t", 1)).records
        operations = operations_for(zookeeper, image, records)
        zookeeper.commit(operations)
        assert json_of(zookeeper, paths.state("t", 1)) == {
            "controller_epoch": 3,
            "leader": 2,
            "version": 1,
            "leader_epoch": 1,
            "isr": [2, 1],
        }
        with pytest.raises(ZnodeConflictError, match="BadVersionError"):
            zookeeper.commit(operations)

    def test_the_version_of_a_state_is_the_partition_epoch_of_the_image(self) -> None:
        """An image that is older than the znodes must not overwrite a newer state."""
        zookeeper, image = with_partitions()
        zookeeper.commit([SetData(paths.state("t", 1), b"newer", 0)])
        (operation,) = operations_for(zookeeper, image, bump_leader_epoch(image, TopicPartition("t", 1)).records)
        assert isinstance(operation, SetData)
        assert operation.version == 0

    def test_a_partition_without_a_state_gets_one(self) -> None:
        zookeeper = new_cluster()
        replicas = b'{"version":3,"topic_id":"T0lJTn8ETVqpyHF3yXQkpg","partitions":{"0":[1]}}'
        zookeeper.commit([Create("/brokers/topics/t", replicas)])
        image = image_of_model(zookeeper)
        fields = {"partitionId": 0, "topicId": "T0lJTn8ETVqpyHF3yXQkpg", "leader": 1}
        operations = carry_out(zookeeper, image, [MetadataRecord("PartitionChangeRecord", fields)])
        assert [type(one) for one in operations] == [Create] * 3
        assert image.topics["t"].partitions[0].leader == 1

    def test_a_completed_reassignment_writes_the_state_first(self) -> None:
        zookeeper, image = with_partitions()
        wanted = [Reassignment("t", 0, (1,))]
        decision = alter_reassignments(image, settings(), wanted, may_change_factor=True)
        operations = carry_out(zookeeper, image, decision.records)
        assert [one.path for one in operations] == [paths.state("t", 0), paths.topic("t")]
        assert json_of(zookeeper, "/brokers/topics/t")["partitions"] == {"0": [1], "1": [2, 1]}
        assert image.topics["t"].partitions[0].replicas == (1,)


class TestSettings:
    def test_unknown_settings_survive(self) -> None:
        zookeeper = new_cluster()
        zookeeper.commit([Create("/config/users/alice", b'{"version":1,"config":{"odd":"1"}}')])
        image = image_of_model(zookeeper)
        operations = carry_out(zookeeper, image, quota(image, ALICE, producer_byte_rate=5.0))
        assert operations == [
            SetData("/config/users/alice", b'{"version":1,"config":{"producer_byte_rate":"5","odd":"1"}}', 0),
            Create("/config/changes/config_change_", b'{"version":2,"entity_path":"users/alice"}', is_sequential=True),
        ]
        carry_out(zookeeper, image, quota(image, ALICE, producer_byte_rate=None))
        assert json_of(zookeeper, "/config/users/alice")["config"] == {"odd": "1"}

    def test_the_last_client_of_a_user_goes_with_its_parents(self) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        carry_out(zookeeper, image, quota(image, ALICES_APP, producer_byte_rate=5.0))
        assert zookeeper.read("/config/users/alice") is not None
        operations = carry_out(zookeeper, image, quota(image, ALICES_APP, producer_byte_rate=None))
        assert operations[:-1] == [
            Delete("/config/users/alice/clients/app", 0),
            Delete("/config/users/alice/clients", 0),
            Delete("/config/users/alice", 0),
        ]
        assert not image.client_quotas

    def test_another_client_keeps_the_parents(self) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        other = (("client-id", "other"), ("user", "alice"))
        both = [*quota(image, ALICES_APP, producer_byte_rate=5.0), *quota(image, other, producer_byte_rate=6.0)]
        carry_out(zookeeper, image, both)
        operations = operations_for(zookeeper, image, quota(image, ALICES_APP, producer_byte_rate=None))
        assert [one.path for one in operations if isinstance(one, Delete)] == ["/config/users/alice/clients/app"]

    def test_a_user_and_a_client_come_and_go_together(self) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        for value in (5.0, None, 6.0, None):
            changes = [
                *quota(image, ALICE, producer_byte_rate=value),
                *quota(image, ALICES_APP, producer_byte_rate=value),
            ]
            for one in (changes, changes[::-1]):
                assert apply_to_copy(zookeeper, image, one) == len({ALICE, ALICES_APP} if value else ())
            carry_out(zookeeper, image, changes)
        assert zookeeper.read("/config/users/alice") is None

    def test_a_user_with_clients_stays(self) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        carry_out(zookeeper, image, quota(image, ALICE, producer_byte_rate=5.0))
        carry_out(zookeeper, image, quota(image, ALICES_APP, producer_byte_rate=6.0))
        carry_out(zookeeper, image, quota(image, ALICE, producer_byte_rate=None))
        assert json_of(zookeeper, "/config/users/alice") == {"version": 1, "config": {}}
        assert image.client_quotas == {ALICES_APP: {"producer_byte_rate": 6.0}}

    def test_a_topic_without_settings_keeps_its_znode(self) -> None:
        zookeeper, image = with_partitions()
        resource = ConfigResource(ResourceType.TOPIC, "t")
        carry_out(zookeeper, image, [config_record(resource, "flush.ms", "1")])
        operations = carry_out(zookeeper, image, [config_record(resource, "flush.ms", None)])
        assert operations[0] == SetData("/config/topics/t", b'{"version":1,"config":{}}', 1)

    def test_an_equal_setting_is_not_written(self) -> None:
        zookeeper, image = with_partitions()
        resource = ConfigResource(ResourceType.BROKER, "")
        carry_out(zookeeper, image, [config_record(resource, "log.retention.ms", "1")])
        assert zookeeper.read("/config/brokers/<default>") is not None
        assert operations_for(zookeeper, image, [config_record(resource, "log.retention.ms", "1")]) == []

    def test_configs_that_zookeeper_does_not_keep(self) -> None:
        zookeeper, image = with_partitions()
        record = config_record(ConfigResource(ResourceType.GROUP, "g"), "x", "1")
        with pytest.raises(ApiError, match="ZooKeeper has no configs of the type GROUP"):
            operations_for(zookeeper, image, [record])

    def test_a_producer_id_is_never_given_twice(self) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        records = allocate_producer_ids(image, 2, 1).records
        carry_out(zookeeper, image, records)
        assert json_of(zookeeper, "/latest_producer_id_block") == {
            "version": 1,
            "broker": 2,
            "block_start": "0",
            "block_end": "999",
        }
        with pytest.raises(ZnodeError, match="its block ends with 999"):
            operations_for(zookeeper, image, records)


class TestAcls:
    def test_the_announcements_are_those_of_kafka(self) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        carry_out(zookeeper, image, create_acls(image, [acl("orders"), acl("cust", PatternType.PREFIXED)]).records)
        announced = {path: found.data for path, found in zookeeper.table.all().items() if "acl_changes_" in path}
        captured = captured_mapping()
        assert announced == {
            path: captured[path].data
            for path in (
                "/kafka-acl-changes/acl_changes_0000000000",
                "/kafka-acl-extended-changes/acl_changes_0000000000",
            )
        }

    def test_a_resource_without_acls_has_no_znode(self) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        carry_out(zookeeper, image, create_acls(image, [acl("orders")]).records)
        operations = carry_out(zookeeper, image, delete_acls(image, [AclFilter()]).records)
        assert operations[0] == Delete("/kafka-acl/Topic/orders", 0)
        assert not image.acls

    @pytest.mark.parametrize("name", ["a/b", ".", "..", "a\x01", "a\U0001f600", "\ue000"])
    def test_a_name_that_zookeeper_does_not_allow(self, name: str) -> None:
        zookeeper = new_cluster()
        with pytest.raises(ApiError, match="ZooKeeper cannot keep") as raised:
            operations_for(zookeeper, image_of_model(zookeeper), [acl_record("id", acl(name))])
        assert raised.value.code is ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize("name", ["a.b", "...", "ü", " ", "*"])
    def test_a_name_that_zookeeper_allows(self, name: str) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        carry_out(zookeeper, image, create_acls(image, [acl(name)]).records)
        assert {one.pattern.name for one in image.acls.values()} == {name}

    def test_a_user_whose_name_zookeeper_does_not_allow(self) -> None:
        zookeeper = new_cluster()
        image = image_of_model(zookeeper)
        with pytest.raises(ApiError, match=r"ZooKeeper cannot keep '/config/users/\.\.'"):
            operations_for(zookeeper, image, quota(image, (("user", ".."),), producer_byte_rate=1.0))


def with_partitions() -> tuple[ModelZooKeeper, MetadataImage]:
    """Return a cluster with the topic ``t``, which has two partitions of two replicas."""
    zookeeper = new_cluster()
    image = image_of_model(zookeeper)
    wanted = [NewTopic(name="t", assignments=[(0, (1, 2)), (1, (2, 1))])]
    carry_out(zookeeper, image, topics.create_topics(image, settings(), wanted).records)
    return zookeeper, image


def apply_to_copy(zookeeper: ModelZooKeeper, image: MetadataImage, records: Sequence[MetadataRecord]) -> int:
    """Return the number of entities with quotas after the records' operations."""
    changed = copy.deepcopy(zookeeper)
    try:
        changed.commit(operations_for(zookeeper, image, records))
    except ZnodeConflictError as error:
        pytest.fail(str(error))
    return len(cluster_of(changed).quotas)


def quota(image: MetadataImage, entity: QuotaEntity, **values: float | None) -> Sequence[MetadataRecord]:
    return alter_client_quotas(image, [QuotaChange(entity, [*values.items()])]).records


def acl(name: str, kind: PatternType = PatternType.LITERAL) -> Acl:
    pattern = Pattern(AclResourceType.TOPIC, name, kind)
    return Acl(pattern, "User:eve", "*", AclOperation.READ, Permission.ALLOW)
