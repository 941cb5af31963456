"""The rules of the controller's duties, and of a broker that starts."""

from __future__ import annotations

import json

import pytest

from server.metadata.images import image_of, partition_of, settings, with_topic
from server.metadata.zookeeper_cluster.mirrors import mirror_of, state_of, znode
from tidelog.model import TopicPartition, ZnodeError
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.partition_state import PartitionState
from tidelog.server.metadata.requests import Reassignment
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.operations import Create, Delete, SetData
from tidelog.server.metadata.zookeeper.znodes import StateZnode, TopicZnode
from tidelog.server.metadata.zookeeper_cluster import duty_rules
from tidelog.server.metadata.zookeeper_cluster.mirror import Unit, UnitKind, is_mirrored, unit_of
from tidelog.server.metadata.zookeeper_cluster.topic_removal import is_removable, removal_operations


def zookeeper_image(*partitions: PartitionState, alive: tuple[int, ...] = (1, 2, 3)) -> MetadataImage:
    """Return an image without features, as that of a cluster with ZooKeeper."""
    image = with_topic(image_of(alive), *partitions)
    image.features.clear()
    return image


def after(image: MetadataImage, decision: object) -> list[PartitionState]:
    """Return the partitions of the topic after a decision."""
    for record in decision.records:  # type: ignore[attr-defined]
        image.apply(record)
    return list(image.topics["t"].partitions.values())


class TestDepartedBrokers:
    def test_a_broker_in_sync_or_leading_that_is_not_registered_has_departed(self) -> None:
        image = zookeeper_image(partition_of((1, 2, 9)), partition_of((8,), isr=(8,)), alive=(1, 2))
        assert duty_rules.departed_brokers(image) == [8, 9]

    def test_the_only_one_in_sync_that_leads_nothing_stays(self) -> None:
        image = zookeeper_image(partition_of((8, 1), isr=(8,), leader=-1), alive=(1,))
        assert duty_rules.departed_brokers(image) == []
        assert duty_rules.has_leaderless(image)

    def test_registered_brokers_have_not(self) -> None:
        image = zookeeper_image(partition_of((1, 2, 3)))
        assert duty_rules.departed_brokers(image) == []
        assert not duty_rules.has_leaderless(image)


class TestRejoin:
    def test_it_leaves_where_another_in_sync_replica_is_registered(self) -> None:
        image = zookeeper_image(partition_of((1, 2, 3)), partition_of((2, 1)), alive=(2, 3))
        led, followed = after(image, duty_rules.rejoin(image, settings(), 1))
        assert (led.leader, led.isr, led.leader_epoch) == (2, (2, 3), 1)
        assert (followed.leader, followed.isr) == (2, (2,))

    def test_it_stays_in_sync_where_no_other_is_registered_but_leads_no_longer(self) -> None:
        image = zookeeper_image(partition_of((1, 2), leader_epoch=4), alive=())
        (state,) = after(image, duty_rules.rejoin(image, settings(), 1))
        assert (state.leader, state.isr, state.leader_epoch) == (-1, (1, 2), 5)

    def test_a_partition_elsewhere_does_not_change(self) -> None:
        image = zookeeper_image(partition_of((2, 3)), partition_of((1, 2), isr=(2,)))
        assert duty_rules.rejoin(image, settings(), 1).records == []


def test_a_broker_that_stops_hands_over_where_another_one_can_lead() -> None:
    image = zookeeper_image(partition_of((1, 2)), partition_of((1, 9)), partition_of((1,)), alive=(1, 2))
    moved, alone, only = after(image, duty_rules.hand_over(image, settings(), 1))
    assert (moved.leader, moved.isr) == (2, (2,))
    assert (alone.leader, alone.isr, only.leader) == (1, (1, 9), 1)


def test_a_failed_directory_takes_the_broker_out_of_its_partitions() -> None:
    image = zookeeper_image(partition_of((1, 2)), partition_of((1, 2)))
    lost = [TopicPartition("t", 0), TopicPartition("gone", 0)]
    first, second = after(image, duty_rules.leave(image, settings(), 1, lost))
    assert (first.leader, first.isr) == (2, (2,))
    assert (second.leader, second.isr) == (1, (1, 2))


class TestStates:
    def test_the_first_registered_replica_leads_and_the_registered_ones_are_in_sync(self) -> None:
        image = zookeeper_image(partition_of((9, 2, 3)), alive=(2, 3))
        mirror = mirror_of({0: (9, 2, 3)})
        made = duty_rules.state_operations(image, mirror, "t", controller_epoch=5)
        path = paths.state("t", 0)
        assert [one.path for one in made] == [paths.partitions("t"), path.removesuffix("/state"), path]
        assert isinstance(made[-1], Create)
        state = StateZnode.decode(path, made[-1].data)
        assert state == StateZnode(leader=2, leader_epoch=0, controller_epoch=5, isr=(2, 3))

    def test_a_partition_with_a_state_or_without_a_registered_replica_waits(self) -> None:
        image = zookeeper_image(partition_of((1,)), partition_of((9,)), alive=(1,))
        mirror = mirror_of({0: (1,), 1: (9,)}, {0: state_of(1)})
        assert duty_rules.state_operations(image, mirror, "t", controller_epoch=5) == []
        assert duty_rules.state_operations(image, mirror, "missing", controller_epoch=5) == []

    def test_a_topic_without_an_id_gets_one(self) -> None:
        mirror = mirror_of({0: (1, 2)}, topic_id=None)
        (made,) = duty_rules.id_operations(mirror, "t")
        assert isinstance(made, SetData)
        assert made.version == 7
        topic = TopicZnode.decode(made.path, made.data)
        assert topic.topic_id is not None
        assert topic.replicas == {0: (1, 2)}
        assert duty_rules.id_operations(mirror_of({0: (1,)}), "t") == []
        assert duty_rules.id_operations(mirror, "missing") == []


class TestRequests:
    def test_they_are_read_as_kafkas_tools_write_them(self) -> None:
        moves = {"version": 1, "partitions": [{"topic": "t", "partition": 1, "replicas": [2, 3]}]}
        assert duty_rules.requested_reassignments(json.dumps(moves).encode()) == [Reassignment("t", 1, (2, 3))]
        elections = {"version": 1, "partitions": [{"topic": "t", "partition": 1}]}
        assert duty_rules.requested_elections(json.dumps(elections).encode()) == [TopicPartition("t", 1)]

    @pytest.mark.parametrize("data", [b"", b"{}", b'{"version":2,"partitions":[]}', b'{"version":1,"partitions":[1]}'])
    def test_others_are_errors(self, data: bytes) -> None:
        with pytest.raises(ZnodeError, match="/admin/reassign_partitions"):
            duty_rules.requested_reassignments(data)
        with pytest.raises(ZnodeError, match="/admin/preferred_replica_election"):
            duty_rules.requested_elections(data)


class TestRemoval:
    def test_children_go_first_and_the_mark_last(self) -> None:
        mirror = mirror_of({0: (1,)}, {0: state_of(1)})
        mirror.put(f"{paths.DELETED_TOPICS}/t", znode())
        root = paths.topic("t")
        assert removal_operations(mirror, "t") == [
            Delete(f"{root}/partitions/0/state"),
            Delete(f"{root}/partitions/0"),
            Delete(f"{root}/partitions"),
            Delete("/config/topics/t"),
            Delete(root),
            Delete("/admin/delete_topics/t"),
        ]

    def test_it_waits_for_the_brokers_of_all_replicas(self) -> None:
        mirror = mirror_of({0: (1, 2)})
        mirror.put(f"{paths.DELETED_TOPICS}/t", znode())
        mirror.put(f"{paths.DELETED_TOPICS}/gone", znode())
        assert [is_removable(image_of((1,)), mirror, name) for name in ("gone", "t")] == [True, False]
        assert is_removable(image_of((1, 2)), mirror, "t")


class TestMirror:
    @pytest.mark.parametrize(
        ("path", "unit"),
        [
            ("/brokers/ids/5", Unit(UnitKind.BROKER, "5")),
            ("/brokers/topics/t", Unit(UnitKind.TOPIC, "t")),
            ("/brokers/topics/t/partitions/3/state", Unit(UnitKind.TOPIC, "t")),
            ("/admin/delete_topics/t", Unit(UnitKind.TOPIC, "t")),
            ("/config/topics/t", Unit(UnitKind.SETTINGS, "/config/topics/t")),
            ("/config/brokers/1", Unit(UnitKind.SETTINGS, "/config/brokers/1")),
            ("/config/users/u", Unit(UnitKind.ENTITY, "/config/users/u")),
            ("/config/users/u/clients", None),
            ("/config/users/u/clients/c", Unit(UnitKind.ENTITY, "/config/users/u/clients/c")),
            ("/config/users/clients", Unit(UnitKind.ENTITY, "/config/users/clients")),
            ("/config/ips/1.2.3.4", Unit(UnitKind.ENTITY, "/config/ips/1.2.3.4")),
            ("/kafka-acl/Topic", None),
            ("/kafka-acl/Topic/t", Unit(UnitKind.ACLS, "/kafka-acl/Topic/t")),
            ("/kafka-acl-extended/prefixed/Group/g", Unit(UnitKind.ACLS, "/kafka-acl-extended/prefixed/Group/g")),
            ("/latest_producer_id_block", Unit(UnitKind.PRODUCER_IDS, "")),
            ("/controller", Unit(UnitKind.CONTROLLER, "")),
            ("/controller_epoch", None),
        ],
    )
    def test_each_path_has_the_unit_that_depends_on_it(self, path: str, unit: Unit | None) -> None:
        assert is_mirrored(path)
        assert unit_of(path) == unit

    @pytest.mark.parametrize(
        "path", ["/config/changes/config_change_1", "/brokers/seqid", "/consumers", "/controllers"]
    )
    def test_other_paths_are_not_mirrored(self, path: str) -> None:
        assert not is_mirrored(path)

    def test_a_difference_is_of_data_version_or_owner(self) -> None:
        mirror = mirror_of({0: (1,)})
        other = {**mirror, "/controller": znode(b"x", owner=5)}
        assert list(mirror.changes_to(other)) == ["/controller"]
        assert mirror.put("/controller", znode(b"x", owner=5))
        assert not mirror.put("/controller", znode(b"x", owner=5)._replace(child_count=3))
        assert mirror.put("/controller", None)
        assert not mirror.put("/controller", None)
