"""kafka-acls: ACLs are added, listed and removed, and take effect for the next client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from real_kafka.kafka_tools import KafkaTools
from server.authorization.guarded_broker import guarded_broker
from server.harness import BrokerHome
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode

pytestmark = pytest.mark.kafka

ACLS = "kafka-acls"


@pytest.fixture
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerHome]:
    with guarded_broker(tmp_path_factory.mktemp("acls")) as home:
        yield home


def listed(tools: KafkaTools, *arguments: str) -> list[str]:
    """Return the ACLs without the headings of their patterns."""
    lines = tools.told(ACLS, "--list", *arguments)
    return sorted(line for line in lines if line.startswith("(principal="))


def entry(operation: str, principal: str = "User:user-ann", host: str = "*", permission: str = "ALLOW") -> str:
    return f"(principal={principal}, host={host}, operation={operation}, permissionType={permission})"


def test_entries_come_and_go(tools: KafkaTools, guarded: BrokerHome) -> None:
    at = tools.at(guarded.bootstrap)
    ann = ("--allow-principal", "User:user-ann")
    assert listed(at) == []
    at.told(ACLS, "--add", *ann, "--operation", "Read", "--topic", "orders")
    at.told(ACLS, "--add", *ann, "--operation", "Write", "--topic", "or", "--resource-pattern-type", "prefixed")
    at.told(ACLS, "--add", "--deny-principal", "User:*", "--deny-host", "10.0.0.7", "--operation", "All", "--cluster")
    denied = entry("ALL", principal="User:*", host="10.0.0.7", permission="DENY")
    assert listed(at) == sorted([entry("READ"), entry("WRITE"), denied])
    assert listed(at, "--topic", "orders") == [entry("READ")]
    matching = ("--topic", "orders", "--resource-pattern-type", "match")
    assert listed(at, *matching) == [entry("READ"), entry("WRITE")]
    refused = at.run(ACLS, "--add", *ann, "--operation", "Create", "--group", "g")
    assert refused.code == 1
    at.told(ACLS, "--remove", "--force", *ann, "--operation", "Read", "--topic", "orders")
    assert listed(at, *matching) == [entry("WRITE")]


def test_they_count_at_once(tools: KafkaTools, guarded: BrokerHome) -> None:
    asked = [{"name": "orders", "partitions": [{"partition_index": 0, "timestamp": -1}]}]
    with guarded.client(client_id="user-ann") as client:

        def error() -> int:
            (topic,) = client.call(ApiKey.LIST_OFFSETS, replica_id=-1, topics=asked).topics
            return int(topic.partitions[0].error_code)

        assert error() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        consumer = ("--allow-principal", "User:user-ann", "--consumer", "--topic", "orders", "--group", "g")
        tools.at(guarded.bootstrap).told(ACLS, "--add", *consumer)
        assert error() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        tools.at(guarded.bootstrap).told(ACLS, "--remove", "--force", *consumer)
        assert error() == ErrorCode.TOPIC_AUTHORIZATION_FAILED
