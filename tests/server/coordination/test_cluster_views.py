"""A cluster of two brokers as its clients see it, from either broker and on each listener."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.harness import BrokerHome
from server.joined_broker import running_brokers
from server.transactions.librdkafka import SINGLE_NODE
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.metadata.requests import NewTopic
from tidelog.server.topics.internal_topics import partition_of

HERE, THERE, BOTH = "here", "there", "both"


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[BrokerHome]]:
    """Yield two brokers: the second is in another rack, and has more partitions by default."""
    further = {"broker_rack": "r2", "num_partitions": "3"}
    with running_brokers(tmp_path_factory.mktemp("brokers"), SINGLE_NODE, of_further=further) as running:
        topics = [
            NewTopic(name=HERE, assignments=((0, [1]),)),
            NewTopic(name=THERE, assignments=((0, [2]),)),
            NewTopic(name=BOTH, assignments=((0, [1, 2]), (1, [2, 1]))),
        ]
        both = ((0, [1]), (1, [2]))
        topics += [NewTopic(name=name, assignments=both) for name in (TRANSACTION_STATE_TOPIC, GROUP_METADATA_TOPIC)]
        made = running[0].run(lambda: running[0].server.controller.create_topics(topics))
        assert not any(one.error for one in made), made
        yield running


def ask(home: BrokerHome, api: ApiKey, version: int | None = None, /, **values: object) -> Struct:
    with home.client() as client:
        return client.call(api, version, **values)


def test_every_broker_describes_all_brokers_and_leaders(brokers: list[BrokerHome]) -> None:
    for home in brokers:
        answer = ask(home, ApiKey.METADATA, topics=[{"name": name} for name in (HERE, THERE, BOTH)])
        assert [(one.node_id, one.port, one.rack) for one in answer.brokers] == [
            (1, brokers[0].port, None),
            (2, brokers[1].port, "r2"),
        ]
        assert {
            (topic.name, part.partition_index): (part.leader_id, part.replica_nodes)
            for topic in answer.topics
            for part in topic.partitions
        } == {(HERE, 0): (1, (1,)), (THERE, 0): (2, (2,)), (BOTH, 0): (1, (1, 2)), (BOTH, 1): (2, (2, 1))}


@pytest.mark.parametrize("api", [ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER])
def test_any_live_broker_is_named_as_the_controller(brokers: list[BrokerHome], api: ApiKey) -> None:
    with brokers[1].client() as client:
        named = {client.call(api).controller_id for _ in range(64)}
    assert named == {1, 2}, "each with a probability of one half"


def test_describe_cluster_has_racks_and_may_have_fenced_brokers(brokers: list[BrokerHome]) -> None:
    answer = ask(brokers[0], ApiKey.DESCRIBE_CLUSTER)
    assert [(one.broker_id, one.rack, one.is_fenced) for one in answer.brokers] == [(1, None, False), (2, "r2", False)]
    brokers[1].stop()
    try:
        assert [one.broker_id for one in ask(brokers[0], ApiKey.DESCRIBE_CLUSTER).brokers] == [1]
        answer = ask(brokers[0], ApiKey.DESCRIBE_CLUSTER, include_fenced_brokers=True)
        assert [(one.broker_id, one.is_fenced) for one in answer.brokers] == [(1, False), (2, True)]
        assert answer.controller_id == 1
    finally:
        brokers[1].start()


def test_a_partition_without_its_only_replica(brokers: list[BrokerHome]) -> None:
    brokers[1].stop()
    try:
        (topic,) = ask(brokers[0], ApiKey.METADATA, topics=[{"name": THERE}]).topics
        (part,) = topic.partitions
        assert (part.error_code, part.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert (part.replica_nodes, part.offline_replicas) == ((2,), (2,))
        (topic,) = ask(brokers[0], ApiKey.DESCRIBE_TOPIC_PARTITIONS, topics=[{"name": THERE}]).topics
        (part,) = topic.partitions
        assert (part.leader_id, part.eligible_leader_replicas, part.last_known_elr) == (-1, (2,), (2,))
    finally:
        brokers[1].start()
    (topic,) = ask(brokers[0], ApiKey.METADATA, topics=[{"name": THERE}]).topics
    assert [part.leader_id for part in topic.partitions] == [2]


@pytest.mark.parametrize("key_type", [0, 1])
def test_a_coordinator_whose_broker_is_away(brokers: list[BrokerHome], key_type: int) -> None:
    keys = [next(name for name in map(str, range(99)) if partition_of(name, 2) == number) for number in (0, 1)]
    brokers[1].stop()
    try:
        found = ask(brokers[0], ApiKey.FIND_COORDINATOR, key_type=key_type, coordinator_keys=keys).coordinators
        assert [(one.error_code, one.node_id) for one in found] == [
            (ErrorCode.NONE, 1),
            (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1),
        ]
    finally:
        brokers[1].start()
    found = ask(brokers[0], ApiKey.FIND_COORDINATOR, key_type=key_type, coordinator_keys=keys).coordinators
    assert [(one.error_code, one.node_id) for one in found] == [(ErrorCode.NONE, 1), (ErrorCode.NONE, 2)]


def test_an_automatic_topic_has_the_configs_of_the_broker_that_was_asked(brokers: list[BrokerHome]) -> None:
    for home, partitions in zip(brokers, (1, 3), strict=True):
        name = f"automatic-{partitions}"
        with home.client() as client:
            while client.call(ApiKey.METADATA, topics=[{"name": name}]).topics[0].error_code:
                pass
            (topic,) = client.call(ApiKey.METADATA, topics=[{"name": name}]).topics
        assert len(topic.partitions) == partitions


def test_requests_at_another_broker_than_the_leader(brokers: list[BrokerHome]) -> None:
    offsets = [{"name": THERE, "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    (topic,) = ask(brokers[0], ApiKey.LIST_OFFSETS, replica_id=-1, topics=offsets).topics
    assert [part.error_code for part in topic.partitions] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    (topic,) = ask(brokers[1], ApiKey.LIST_OFFSETS, replica_id=-1, topics=offsets).topics
    assert [(part.error_code, part.offset) for part in topic.partitions] == [(0, 0)]
    deletions = [{"name": THERE, "partitions": [{"partition_index": 0, "offset": 0}]}]
    (topic,) = ask(brokers[0], ApiKey.DELETE_RECORDS, topics=deletions, timeout=1000).topics
    assert [part.error_code for part in topic.partitions] == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_producers_are_described_by_leaders_and_followers(brokers: list[BrokerHome]) -> None:
    names = {HERE: ErrorCode.NONE, BOTH: ErrorCode.NONE, THERE: ErrorCode.NOT_LEADER_OR_FOLLOWER}
    names["nowhere"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = [{"name": name, "partition_indexes": [0, 1] if name == BOTH else [0]} for name in names]
    for topic in ask(brokers[0], ApiKey.DESCRIBE_PRODUCERS, topics=asked).topics:
        assert {part.error_code for part in topic.partitions} == {names[topic.name]}, topic.name


def test_a_replica_that_is_elsewhere_does_not_move_between_log_directories(brokers: list[BrokerHome]) -> None:
    path = str(brokers[0].call(lambda: brokers[0].server.logs.online[0].path))
    dirs = [{"path": path, "topics": [{"name": THERE, "partitions": [0]}]}]
    (topic,) = ask(brokers[0], ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=dirs).results
    assert [part.error_code for part in topic.partitions] == [ErrorCode.REPLICA_NOT_AVAILABLE]


def test_a_group_or_transactional_id_at_the_wrong_coordinator(brokers: list[BrokerHome]) -> None:
    name = next(name for name in map(str, range(99)) if partition_of(name, 2) == 1)
    (group,) = ask(brokers[0], ApiKey.DESCRIBE_GROUPS, groups=[name]).groups
    assert group.error_code == ErrorCode.NOT_COORDINATOR
    answer = ask(brokers[0], ApiKey.INIT_PRODUCER_ID, transactional_id=name, transaction_timeout=1000)
    assert answer.error_code == ErrorCode.NOT_COORDINATOR
    (state,) = ask(brokers[0], ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[name]).transaction_states
    assert state.error_code == ErrorCode.NOT_COORDINATOR


def test_transactions_and_groups_are_listed_by_their_coordinators(brokers: list[BrokerHome]) -> None:
    names = [next(name for name in map(str, range(99)) if partition_of(name, 2) == number) for number in (0, 1)]
    for home, name in zip(brokers, names, strict=True):
        ask(home, ApiKey.INIT_PRODUCER_ID, transactional_id=name, transaction_timeout=1000)
        listed = ask(home, ApiKey.LIST_TRANSACTIONS).transaction_states
        assert [one.transactional_id for one in listed] == [name]


def test_producer_ids_of_two_brokers_are_different(brokers: list[BrokerHome]) -> None:
    blocks = [
        {ask(home, ApiKey.INIT_PRODUCER_ID, transactional_id=None).producer_id // 1000 for _ in range(3)}
        for home in brokers
    ]
    assert len(blocks[0] | blocks[1]) == 2
