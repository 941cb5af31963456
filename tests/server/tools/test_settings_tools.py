"""kafka-configs for topics, brokers, groups, client metrics, loggers and quotas."""

from __future__ import annotations

import pytest

from real_kafka.kafka_tools import KafkaTools

pytestmark = pytest.mark.kafka

CONFIGS = "kafka-configs"


def described(tools: KafkaTools, *arguments: str) -> list[str]:
    """Return the settings without the heading."""
    return tools.told(CONFIGS, "--describe", *arguments)[1:]


def test_of_a_topic(tools: KafkaTools) -> None:
    tools.told("kafka-topics", "--create", "--topic", "t", "--config", "segment.ms=77777")
    added = "retention.ms=7000,cleanup.policy=[compact,delete]"
    where = ("--topic", "t")
    tools.told(CONFIGS, "--alter", *where, "--add-config", added, "--delete-config", "segment.ms")
    policy, retention = described(tools, *where)
    assert policy.startswith("cleanup.policy=compact,delete sensitive=false")
    assert policy.endswith(
        "{DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}"
    )
    assert retention == "retention.ms=7000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=7000}"
    assert len(described(tools, *where, "--all")) == 37
    refused = tools.run(CONFIGS, "--alter", *where, "--add-config", "retention.ms=x")
    assert refused.code == 1
    assert "Invalid value x for configuration retention.ms: Not a number of type LONG" in refused.err


def test_of_a_broker_and_of_all(tools: KafkaTools) -> None:
    tools.told(CONFIGS, "--alter", "--broker", "1", "--add-config", "log.retention.bytes=1000")
    tools.told(CONFIGS, "--alter", "--broker-defaults", "--add-config", "log.retention.bytes=9,log.roll.ms=100000")
    of_this = described(tools, "--broker", "1")
    assert (
        "log.retention.bytes=1000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.bytes=1000, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.bytes=9, DEFAULT_CONFIG:log.retention.bytes=-1}"
    ) in of_this
    of_all = [line.split(" ")[0] for line in described(tools, "--broker-defaults")]
    assert of_all == ["log.retention.bytes=9", "log.roll.ms=100000", "min.insync.replicas=1"]
    tools.told(CONFIGS, "--alter", "--broker", "1", "--delete-config", "log.retention.bytes")
    tools.told(CONFIGS, "--alter", "--broker-defaults", "--delete-config", "log.retention.bytes,log.roll.ms")
    assert not any("log.retention.bytes" in line for line in described(tools, "--broker", "1"))


def test_of_client_metrics(tools: KafkaTools) -> None:
    where = ("--entity-type", "client-metrics")
    tools.told(CONFIGS, "--alter", *where, "--entity-name", "m", "--add-config", "interval.ms=1000")
    assert described(tools, *where) == [
        "interval.ms=1000 sensitive=false synonyms={DYNAMIC_CLIENT_METRICS_CONFIG:interval.ms=1000}"
    ]


def test_of_quotas(tools: KafkaTools) -> None:
    users, clients = ("--entity-type", "users"), ("--entity-type", "clients")
    tools.told(CONFIGS, "--alter", *users, "--entity-name", "ann", "--add-config", "producer_byte_rate=1024000000")
    tools.told(CONFIGS, "--alter", *clients, "--entity-default", "--add-config", "request_percentage=5000")
    of_both = (*users, "--entity-name", "ann", *clients, "--entity-name", "c")
    tools.told(CONFIGS, "--alter", *of_both, "--add-config", "consumer_byte_rate=2048000000")
    assert tools.told(CONFIGS, "--describe", *users, "--entity-name", "ann") == [
        "Quota configs for user-principal 'ann' are producer_byte_rate=1.024E9"
    ]
    assert tools.told(CONFIGS, "--describe", *clients) == [
        "Quota configs for the default client-id are request_percentage=5000.0"
    ]
    assert tools.told(CONFIGS, "--describe", *of_both) == [
        "Quota configs for user-principal 'ann', client-id 'c' are consumer_byte_rate=2.048E9"
    ]


def test_of_quotas_by_every_kind_of_name(tools: KafkaTools) -> None:
    strange = "CN=broker one, O=Acme+*"
    rates = "producer_byte_rate=1,consumer_byte_rate=2,request_percentage=3.5,controller_mutation_rate=4.5"
    shown = "consumer_byte_rate=2.0, controller_mutation_rate=4.5, producer_byte_rate=1.0, request_percentage=3.5"
    for where, who in (
        (("--user", strange), f"user-principal '{strange}'"),
        (("--user-defaults",), "the default user-principal"),
        (("--user", "bob", "--client-defaults"), "user-principal 'bob', the default client-id"),
        (("--user-defaults", "--client", "d"), "the default user-principal, client-id 'd'"),
        (("--client", "e"), "client-id 'e'"),
    ):
        tools.told(CONFIGS, "--alter", *where, "--add-config", rates)
        (line,) = tools.told(CONFIGS, "--describe", *where)
        assert sorted(line.removeprefix(f"Quota configs for {who} are ").split(", ")) == shown.split(", ")
        tools.told(CONFIGS, "--alter", *where, "--delete-config", "producer_byte_rate,request_percentage")
        (line,) = tools.told(CONFIGS, "--describe", *where)
        assert sorted(line.removeprefix(f"Quota configs for {who} are ").split(", ")) == shown.split(", ")[:2]
        tools.told(CONFIGS, "--alter", *where, "--delete-config", "consumer_byte_rate,controller_mutation_rate")
        assert tools.told(CONFIGS, "--describe", *where) == []


def test_of_addresses(tools: KafkaTools) -> None:
    """The rates are high because the tool itself connects from this address."""
    tools.told(CONFIGS, "--alter", "--ip", "127.0.0.1", "--add-config", "connection_creation_rate=1000")
    tools.told(CONFIGS, "--alter", "--ip-defaults", "--add-config", "connection_creation_rate=2000")
    assert tools.told(CONFIGS, "--describe", "--ip", "127.0.0.1") == [
        "Quota configs for ip '127.0.0.1' are connection_creation_rate=1000.0"
    ]
    assert sorted(tools.told(CONFIGS, "--describe", "--entity-type", "ips")) == [
        "Quota configs for ip '127.0.0.1' are connection_creation_rate=1000.0",
        "Quota configs for the default ip are connection_creation_rate=2000.0",
    ]
    for where in (("--ip", "127.0.0.1"), ("--ip-defaults",)):
        tools.told(CONFIGS, "--alter", *where, "--delete-config", "connection_creation_rate")
        assert tools.told(CONFIGS, "--describe", *where) == []
    refused = tools.run(CONFIGS, "--alter", "--ip", "127.0.0.1", "--add-config", "connection_creation_rate=0")
    assert refused.code == 1
    assert "greater than 0" in refused.err


def test_of_loggers(tools: KafkaTools) -> None:
    where = ("--entity-type", "broker-loggers", "--entity-name", "1")
    tools.told(CONFIGS, "--alter", *where, "--add-config", "tidelog.server=FATAL")
    below = "tidelog.server.dispatcher=FATAL sensitive=false synonyms={}"
    assert below in described(tools, *where)
    tools.told(CONFIGS, "--alter", *where, "--delete-config", "tidelog.server")
    assert below not in described(tools, *where)
