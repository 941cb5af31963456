"""The group APIs over the wire, in every version, and the groups after a restart."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from server.groups.group_broker import GroupBroker, group_broker
from server.harness import BrokerHome, WireClient
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.metadata import NOT_REQUESTED
from tidelog.server.authorization.operation import SUPPORTED, operation_bits
from tidelog.server.authorization.resource import AclResourceType
from tidelog.server.topics.internal_topics import partition_of
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.testing.broker.loop_thread import PATIENCE_S

NO_SUBSCRIPTION = "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."


@pytest.mark.parametrize(
    ("key", "expected"),
    [("", 0), ("g", 3), ("console-consumer-1", 24), ("größer", 15), ("\U0001f600", 49), ("polygenelubricants", 0)],
)
def test_partitions_are_those_java_finds(key: str, expected: int) -> None:
    assert partition_of(key, 50) == expected


@pytest.mark.parametrize("version", range(7))
def test_a_coordinator_is_found_and_the_topic_made(groups: GroupBroker, version: int) -> None:
    keys = {"key": "g"} if version < 4 else {"coordinator_keys": ["g", "h"]}
    answer = groups.client.call(ApiKey.FIND_COORDINATOR, version, key_type=0, **keys)
    found = [answer] if version < 4 else list(answer.coordinators)
    assert {(one.error_code, one.node_id, one.host, one.port) for one in found} == {
        (0, 1, "127.0.0.1", groups.harness.port)
    }
    topic = groups.harness.call(lambda: groups.harness.broker.metadata.image.topics["__consumer_offsets"])
    assert len(topic.partitions) == 4


def test_coordinators_that_there_are_none_of(groups: GroupBroker) -> None:
    answer = groups.client.call(ApiKey.FIND_COORDINATOR, key_type=2, coordinator_keys=["g:x:0"])
    assert answer.coordinators[0].error_code == ErrorCode.INVALID_REQUEST
    answer = groups.client.call(ApiKey.FIND_COORDINATOR, key_type=1, coordinator_keys=["tx"])
    assert answer.coordinators[0].error_code == 0


def test_before_the_topic_is_there_nobody_coordinates(groups: GroupBroker) -> None:
    assert groups.join().error_code == ErrorCode.NOT_COORDINATOR
    assert groups.commit(1, generation_id_or_member_epoch=-1) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    groups.make_topic()
    assert groups.commit(1) == ErrorCode.NOT_COORDINATOR


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins_syncs_heartbeats_and_leaves_in_every_version(groups: GroupBroker, version: int) -> None:
    groups.find()
    joined = groups.join(version=version)
    if version >= 4:
        assert joined.error_code == ErrorCode.MEMBER_ID_REQUIRED
        joined = groups.join(joined.member_id, version)
    assert (joined.error_code, joined.leader, joined.protocol_name) == (0, joined.member_id, "range")
    who = {"group_id": "g", "member_id": joined.member_id, "generation_id": joined.generation_id}
    assignments = [{"member_id": joined.member_id, "assignment": b"x"}]
    protocol = {"protocol_type": "consumer", "protocol_name": "range"}
    call = groups.client.call
    assert call(ApiKey.SYNC_GROUP, min(version, 5), assignments=assignments, **who, **protocol).assignment == b"x"
    assert call(ApiKey.HEARTBEAT, min(version, 4), **who).error_code == 0
    one = {"member_id": joined.member_id} if version < 3 else {"members": [{"member_id": joined.member_id}]}
    left = call(ApiKey.LEAVE_GROUP, min(version, 5), group_id="g", **one)
    assert left.error_code == 0
    assert call(ApiKey.HEARTBEAT, min(version, 4), **who).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(("fields", "error"), [
    ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
    ({"session_timeout": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
    ({"session_timeout": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
    ({"protocols": []}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ({"member_id": "who"}, ErrorCode.UNKNOWN_MEMBER_ID),
])  # fmt: skip
def test_joins_that_no_group_takes(groups: GroupBroker, fields: dict[str, Any], error: ErrorCode) -> None:
    groups.find()
    assert groups.join(**fields).error_code == error
    assert groups.join(version=0, **fields).error_code == error


@pytest.mark.parametrize("version", range(2, 10))
def test_offsets_are_committed_and_fetched_in_every_version(groups: GroupBroker, version: int) -> None:
    groups.make_topic()
    groups.find()
    assert groups.commit(42, version) == 0
    asked = {"topics": [{"name": "t", "partition_indexes": [0, 1]}]}
    if version < 8:
        answer = groups.client.call(ApiKey.OFFSET_FETCH, version - 1, group_id="g", **asked)
    else:
        (answer,) = groups.client.call(ApiKey.OFFSET_FETCH, version, groups=[{"group_id": "g", **asked}]).groups
    (found,) = answer.topics
    first, second = found.partitions
    assert (first.committed_offset, first.metadata, first.error_code) == (42, "note", 0)
    assert (second.committed_offset, second.metadata, second.error_code) == (-1, "", 0)


def test_offsets_of_all_partitions_and_of_several_groups(groups: GroupBroker) -> None:
    groups.make_topic()
    groups.find()
    groups.commit(1)
    groups.commit(2, group_id="h")
    asked = [{"group_id": name, "topics": None} for name in ("g", "h", "nobody")]
    answer = groups.client.call(ApiKey.OFFSET_FETCH, 9, groups=asked)
    found = [
        (group.group_id, [(topic.name, part.committed_offset) for topic in group.topics for part in topic.partitions])
        for group in answer.groups
    ]
    assert found == [("g", [("t", 1)]), ("h", [("t", 2)]), ("nobody", [])]
    all_of_g = groups.client.call(ApiKey.OFFSET_FETCH, 2, group_id="g", topics=None)
    assert [topic.name for topic in all_of_g.topics] == ["t"]


@pytest.mark.parametrize("version", [1, 2, 9])
def test_offsets_of_a_group_that_is_elsewhere(groups: GroupBroker, version: int) -> None:
    asked = {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}
    if version < 8:
        answer = groups.client.call(ApiKey.OFFSET_FETCH, version, **asked)
    else:
        (answer,) = groups.client.call(ApiKey.OFFSET_FETCH, version, groups=[asked]).groups
    error = answer.topics[0].partitions[0].error_code if version == 1 else answer.error_code
    assert error == ErrorCode.NOT_COORDINATOR


def test_topics_that_are_not_there(groups: GroupBroker) -> None:
    groups.make_topic()
    groups.find()
    assert groups.commit(1, topic={"name": "gone"}) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert groups.fetch(topic="gone").committed_offset == -1, "to ask is no error"


def test_offsets_of_a_topic_that_is_deleted_go_with_it(groups: GroupBroker) -> None:
    groups.make_topic()
    groups.find()
    groups.commit(7)
    groups.harness.run(lambda: groups.harness.broker.controller.delete_topics(["t"]))
    groups.make_topic()
    assert groups.fetch().committed_offset == -1


def test_a_group_is_listed_described_and_deleted(groups: GroupBroker) -> None:
    groups.make_topic()
    member_id, generation = groups.stable_member()
    groups.commit(5, generation_id_or_member_epoch=generation, member_id=member_id)
    call = groups.client.call
    (listed,) = call(ApiKey.LIST_GROUPS, states_filter=["stable"], types_filter=["Classic"]).groups
    assert (listed.group_id, listed.protocol_type, listed.group_state, listed.group_type) == (
        "g",
        "consumer",
        "Stable",
        "classic",
    )
    assert not call(ApiKey.LIST_GROUPS, states_filter=["Empty"]).groups
    assert not call(ApiKey.LIST_GROUPS, types_filter=["consumer"]).groups
    described, nobody = call(ApiKey.DESCRIBE_GROUPS, groups=["g", "x"], include_authorized_operations=True).groups
    assert (described.group_state, described.protocol_data) == ("Stable", "range")
    assert (described.authorized_operations, nobody.authorized_operations) == (
        operation_bits(SUPPORTED[AclResourceType.GROUP]),
        NOT_REQUESTED,
    )
    (member,) = described.members
    assert (member.member_id, member.client_id, member.client_host) == (member_id, "test", "/127.0.0.1")
    assert (bytes(member.member_metadata), bytes(member.member_assignment)) == (b"m", b"everything")
    assert (nobody.group_state, nobody.error_code) == ("Dead", ErrorCode.GROUP_ID_NOT_FOUND)
    assert call(ApiKey.DESCRIBE_GROUPS, 5, groups=["x"]).groups[0].error_code == 0

    deleted = call(ApiKey.DELETE_GROUPS, groups_names=["g", "x"]).results
    assert [one.error_code for one in deleted] == [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    call(ApiKey.LEAVE_GROUP, group_id="g", members=[{"member_id": member_id}])
    assert call(ApiKey.DELETE_GROUPS, groups_names=["g"]).results[0].error_code == 0
    assert groups.fetch().committed_offset == -1


def test_offsets_are_deleted(groups: GroupBroker) -> None:
    groups.make_topic()
    groups.find()
    groups.commit(5)
    topics = [{"name": name, "partitions": [{"partition_index": 0}]} for name in ("t", "gone")]
    answer = groups.client.call(ApiKey.OFFSET_DELETE, group_id="g", topics=topics)
    assert answer.error_code == 0
    assert [topic.partitions[0].error_code for topic in answer.topics] == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert groups.fetch().committed_offset == -1
    other = groups.client.call(ApiKey.OFFSET_DELETE, group_id="x", topics=topics)
    assert other.error_code == ErrorCode.GROUP_ID_NOT_FOUND


# --- consumer groups ---


def test_consumer_groups_over_the_wire(groups: GroupBroker) -> None:
    topic_id = groups.make_topic()
    groups.find("k")
    joined = groups.beat("m1", 0)
    assert (joined.error_code, joined.member_epoch, joined.heartbeat_interval) == (0, 2, 5000)
    assert [(part.topic_id, part.partitions) for part in joined.assignment.topic_partitions] == [(topic_id, (0, 1))]
    assert groups.beat("m1", 2).assignment is None
    (described, nobody) = groups.client.call(ApiKey.CONSUMER_GROUP_DESCRIBE, group_ids=["k", "x"]).groups
    assert (described.group_state, described.group_epoch, described.assignor_name) == ("Stable", 2, "uniform")
    (member,) = described.members
    assert (member.member_epoch, member.subscribed_topic_names, member.member_type) == (2, ("t",), 1)
    assert [(part.topic_name, part.partitions) for part in member.assignment.topic_partitions] == [("t", (0, 1))]
    assert nobody.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (classic,) = groups.client.call(ApiKey.DESCRIBE_GROUPS, groups=["k"]).groups
    assert classic.error_message == "Group k is not a classic group."
    assert groups.commit(3, group_id="k", generation_id_or_member_epoch=2, member_id="m1") == 0
    stale = groups.commit(3, group_id="k", generation_id_or_member_epoch=1, member_id="m1")
    assert stale == ErrorCode.STALE_MEMBER_EPOCH
    assert groups.beat("m1", -1).member_epoch == -1


def test_a_client_of_version_0_is_given_a_member_id(groups: GroupBroker) -> None:
    groups.make_topic()
    groups.find("k")
    joining = {"group_id": "k", "rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    joined = groups.client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, member_id="", member_epoch=0, **joining)
    assert (joined.error_code, len(joined.member_id)) == (0, 36)
    leaving = groups.client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, group_id="k", member_id="", member_epoch=-1)
    assert leaving.error_message == "MemberId can't be empty."


@pytest.mark.parametrize(("fields", "message"), [
    ({"member_id": ""}, "MemberId can't be empty."),
    ({"group_id": ""}, "GroupId can't be empty."),
    ({"instance_id": ""}, "InstanceId can't be empty."),
    ({"rack_id": ""}, "RackId can't be empty."),
    ({"rebalance_timeout": -1}, "RebalanceTimeoutMs must be provided in first request."),
    ({"topic_partitions": None}, "TopicPartitions must be empty when (re-)joining."),
    ({"subscribed_topic_names": None}, NO_SUBSCRIPTION),
    ({"epoch": -2}, "InstanceId can't be null."),
    ({"epoch": -3}, "MemberEpoch is invalid."),
    ({"server_assignor": "mine"}, "ServerAssignor mine is not supported. Supported assignors: uniform, range."),
])  # fmt: skip
def test_heartbeats_that_no_group_takes(groups: GroupBroker, fields: dict[str, Any], message: str) -> None:
    groups.find("k")
    given: dict[str, Any] = {"member_id": "m1", "epoch": 0} | fields
    assert groups.beat(**given).error_message == message


def test_without_the_feature_there_are_no_consumer_groups(tmp_path: Any) -> None:
    with group_broker(tmp_path / "data", group_coordinator_rebalance_protocols="classic") as groups:
        groups.find("k")
        assert groups.beat("m1", 0).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_group_has_time_outs_of_its_own(groups: GroupBroker) -> None:
    groups.make_topic()
    groups.find("k")
    operation = {"name": "consumer.heartbeat.interval.ms", "config_operation": 0, "value": "7000"}
    resources = [{"resource_type": 32, "resource_name": "k", "configs": [operation]}]
    answer = groups.client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources)
    assert answer.responses[0].error_code == 0
    assert groups.beat("m1", 0).heartbeat_interval == 7000


# --- restarts ---


def test_groups_and_offsets_are_there_after_a_restart(groups: GroupBroker) -> None:
    groups.make_topic()
    member_id, generation = groups.stable_member()
    groups.commit(5, generation_id_or_member_epoch=generation, member_id=member_id)
    groups.find("k")
    groups.beat("m1", 0)
    groups.restart()
    who = {"group_id": "g", "member_id": member_id, "generation_id": generation}
    assert groups.client.call(ApiKey.HEARTBEAT, **who).error_code == 0
    assert groups.fetch().committed_offset == 5
    assert groups.beat("m1", 2).member_epoch == 2
    assert groups.commit(6, generation_id_or_member_epoch=generation, member_id=member_id) == 0


def test_what_a_client_waits_for_is_answered_when_the_broker_stops(groups: GroupBroker) -> None:
    member_id, _ = groups.stable_member()
    with groups.harness.client() as other:
        asked = {
            "group_id": "g",
            "session_timeout": 30_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"m"}],
        }
        pending = other.call(ApiKey.JOIN_GROUP, 9, **asked).member_id
        other.send(ApiKey.JOIN_GROUP, 9, member_id=pending, **asked)
        who = {"group_id": "g", "member_id": member_id, "generation_id": 1}
        while groups.client.call(ApiKey.HEARTBEAT, **who).error_code == 0:
            pass
        groups.restart()
        assert other.is_closed_by_broker()
    assert groups.client.call(ApiKey.HEARTBEAT, **who).error_code == 0, "the rebalance under way is forgotten"


def test_a_coordinator_that_stops_fails_pending_joins(groups: GroupBroker) -> None:
    groups.stable_member()
    pending = groups.join().member_id
    joining = {"group_id": "g", "session_timeout": 30_000, "rebalance_timeout": 60_000, "protocol_type": "consumer"}
    protocols = [{"name": "range", "metadata": b"m"}]
    sent = groups.client.send(ApiKey.JOIN_GROUP, 9, member_id=pending, protocols=protocols, **joining)
    harness = groups.harness
    harness.wait_for(lambda: _waiting(harness, groups.client) == 1)
    harness.call(harness.broker.groups.stop)
    assert groups.client.receive(ApiKey.JOIN_GROUP, 9, sent).error_code == ErrorCode.NOT_COORDINATOR
    harness.call(harness.broker.groups.start)


@pytest.mark.parametrize("key_type", [0, 1])
def test_a_coordinator_is_named_when_it_has_the_partition(
    groups: GroupBroker, monkeypatch: pytest.MonkeyPatch, key_type: int
) -> None:
    """The topic is in the metadata before its logs exist. FindCoordinator waits for the logs."""
    harness, logs = groups.harness, groups.harness.broker.logs
    may_be_made = threading.Event()
    make = logs.get_or_create

    def make_later(*args: Any, **options: Any) -> PartitionLog:
        assert may_be_made.wait(PATIENCE_S)
        return make(*args, **options)

    def find(client: WireClient) -> int:
        return client.send(ApiKey.FIND_COORDINATOR, 6, key_type=key_type, coordinator_keys=["g"])

    monkeypatch.setattr(logs, "get_or_create", make_later)
    topic = GROUP_METADATA_TOPIC if key_type == 0 else TRANSACTION_STATE_TOPIC
    with harness.client() as first, harness.client() as second:
        sent = [(first, find(first))]
        harness.wait_for(lambda: bool(harness.broker.metadata.committed_settings(topic)))
        sent.append((second, find(second)))
        harness.wait_for(lambda: _waiting(harness, first, second) == 2)
        assert [harness.call(lambda: _waiting(harness, first, second)) for _turn in range(5)] == [2] * 5
        may_be_made.set()
        for client, correlation_id in sent:
            (found,) = client.receive(ApiKey.FIND_COORDINATOR, 6, correlation_id).coordinators
            assert (found.error_code, found.node_id) == (0, 1)
            if key_type == 0:
                asked = [{"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]}]
                (answer,) = client.call(ApiKey.OFFSET_FETCH, 9, groups=asked).groups
            else:
                answer = client.call(ApiKey.INIT_PRODUCER_ID, transactional_id="g", transaction_timeout=1000)
            assert answer.error_code == 0


def _waiting(harness: BrokerHome, *clients: WireClient) -> int:
    """Return the number of these clients that wait for a response."""
    ports = {client.socket.getsockname()[1] for client in clients}
    return sum(not one.is_idle for one in harness.broker.listeners[0].connections if one.client.port in ports)
