"""The keys of a broker that keeps its metadata in ZooKeeper, compared with those of Kafka 3.9."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

import pytest

from real_kafka.java import KRAFT_3, run_java
from tidelog.config.broker_config import BrokerConfig
from tidelog.config.broker_keys import BROKER_KEYS
from tidelog.config.explanation import explain
from tidelog.config.key import Key
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.topic_settings import TopicSettings
from tidelog.config.value_text import HIDDEN, format_value
from tidelog.config.zookeeper_keys import SASL_KEY, ZOOKEEPER_KEYS, ZOOKEEPER_TOPIC_KEYS, log_settings
from tidelog.model import ConfigError
from tidelog.server.configs.broker_entries import broker_entries
from tidelog.server.configs.resource_entries import topic_entries
from tidelog.storage.log.state.log_config import LogConfig

CONNECT = {"zookeeper.connect": "localhost:2181/kafka"}
_ANY_RELEASE = {"inter.broker.protocol.version", "log.message.format.version", "message.format.version"}
"""Keys whose allowed values are Kafka's releases. Here they are not checked."""


def config(**keys: str) -> BrokerConfig:
    return BrokerConfig.load(overrides=CONNECT | {key.replace("_", "."): text for key, text in keys.items()})


def test_a_broker_with_zookeeper_has_the_keys_and_requires_none_of_kafka_4() -> None:
    found = config(zookeeper_set_acl="true", inter_broker_protocol_version="2.8")
    assert found.uses_zookeeper
    assert found["zookeeper.connect"] == "localhost:2181/kafka"
    assert found.flag("zookeeper.set.acl")
    assert found.number("zookeeper.session.timeout.ms") == 18_000
    assert (found.warnings, found.missing) == ((), ())
    assert found.without_effect == ("inter.broker.protocol.version",)


def test_other_brokers_do_not_have_the_keys() -> None:
    found = BrokerConfig.load(overrides={**CONNECT, "process.roles": "broker"})
    assert not found.uses_zookeeper
    assert found.warnings == ("zookeeper.connect has no effect: Kafka 4 removed it (override)",)
    assert "node.id" in found.missing
    with pytest.raises(KeyError):
        found["zookeeper.connect"]


def test_values_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value 0 for configuration zookeeper.max.in.flight.requests"):
        config(zookeeper_max_in_flight_requests="0")


def test_run_time_changes_do_not_switch_to_zookeeper() -> None:
    changed = BrokerConfig.load().with_changes(CONNECT)
    assert not changed.uses_zookeeper
    assert changed.warnings == ("zookeeper.connect has no effect: Kafka 4 removed it (dynamic)",)


def test_the_keys_cannot_change_at_run_time() -> None:
    with pytest.raises(ConfigError, match=r"Cannot update these configs dynamically: \[zookeeper.connect\]"):
        config().with_changes(CONNECT)
    assert config().with_changes({"log.message.downconversion.enable": "false"}, cluster_wide=True).uses_zookeeper


def test_clients_are_shown_the_keys_without_passwords() -> None:
    entries = {entry.name: entry for entry in broker_entries(config(zookeeper_ssl_keystore_password="swordfish"))}
    assert entries["zookeeper.connect"].value == "localhost:2181/kafka"
    assert entries["reserved.broker.max.id"].value == "1000"
    assert entries["zookeeper.ssl.keystore.password"].value == HIDDEN
    assert "swordfish" not in str(entries)
    assert [synonym.value for synonym in entries["reserved.broker.max.id"].synonyms] == ["1000"]
    assert not {entry.name for entry in broker_entries(BrokerConfig.load())} & ZOOKEEPER_KEYS.keys()


def test_the_keys_are_explained() -> None:
    found = config()
    (explained,) = explain("zookeeper.connect", found, TopicSettings.of({}, found))
    assert explained.value == "localhost:2181/kafka"
    assert explain("zookeeper.connect", BrokerConfig.load(), TopicSettings.of({})) == []


def test_topics_keep_the_settings_that_only_kafka_3_9_knows() -> None:
    old = {"message.format.version": "2.8", "retention.ms": "5"}
    settings = TopicSettings.of(old, config())
    assert (settings["message.format.version"], settings["retention.ms"]) == ("2.8", 5)
    assert settings["message.timestamp.difference.max.ms"] == 2**63 - 1
    with pytest.raises(ConfigError, match=r"message.downconversion.enable: Expected value to be either true or false"):
        TopicSettings.of({"message.downconversion.enable": "x"}, config())
    with pytest.raises(ConfigError, match=r"Unknown topic config name: message.format.version"):
        TopicSettings.of(old, BrokerConfig.load())


def test_clients_are_shown_those_settings_of_topics() -> None:
    entries = {entry.name: entry for entry in topic_entries({"message.format.version": "2.8"}, config())}
    assert entries["message.format.version"].value == "2.8"
    assert entries["message.downconversion.enable"].value == "true"
    others = {entry.name: entry for entry in topic_entries({"message.format.version": "2.8"}, BrokerConfig.load())}
    assert others["message.format.version"].key is None
    assert "message.downconversion.enable" not in others


@pytest.mark.kafka
@pytest.mark.parametrize(
    ("printer", "count", "newer", "own"),
    [
        ("kafka.server.KafkaConfig", 314, BROKER_KEYS, ZOOKEEPER_KEYS),
        ("org.apache.kafka.storage.internals.log.LogConfig", 36, TOPIC_KEYS, ZOOKEEPER_TOPIC_KEYS),
    ],
)
def test_the_tables_are_kafkas(printer: str, count: int, newer: Mapping[str, Key], own: Mapping[str, Key]) -> None:
    page = run_java(printer, release=KRAFT_3)
    row = re.compile(r">([\w.]+)</a></h4>\s*<p>.*?</p>\s*<table><tbody>(.*?)</tbody>", re.DOTALL)
    theirs = {
        name: {title: html.unescape(text) for title, text in re.findall(r"<th>(.*?):</th><td>(.*?)</td>", fields)}
        for name, fields in row.findall(page)
    }
    assert len(theirs) == count
    assert theirs.keys() - newer.keys() == own.keys() - {SASL_KEY}
    for name in theirs.keys() & own.keys():
        key, fields = own[name], theirs[name]
        assert key.type.value.lower() == fields["Type"], name
        assert (format_value(key.default) or "null") == re.sub(r" \(.*\)$", "", fields["Default"]), name
        assert name in _ANY_RELEASE or str(key.valid) == fields["Valid Values"], name
        assert key.importance.value == fields["Importance"], name
        assert key.mode.value == fields.get("Update Mode", "cluster-wide"), name


class TestSegmentsBelowKafka4sMinimum:
    def test_a_log_has_them(self) -> None:
        settings = log_settings({"segment.bytes": "1000", "retention.ms": "5"})
        assert settings == {"internal.segment.bytes": "1000", "retention.ms": "5"}
        assert LogConfig().with_properties(settings).segment_bytes == 1000

    @pytest.mark.parametrize(
        "settings", [{}, {"segment.bytes": "1048576"}, {"segment.bytes": "14", "internal.segment.bytes": "20"}]
    )
    def test_other_settings_stay(self, settings: dict[str, str]) -> None:
        assert log_settings(settings) == settings

    def test_kafka_39_has_a_minimum_too(self) -> None:
        with pytest.raises(ConfigError, match="Value must be at least 14"):
            log_settings({"segment.bytes": "13"})

    def test_a_topic_may_get_them_if_its_cluster_has_zookeeper(self) -> None:
        ours = config()
        assert TopicSettings.of({"segment.bytes": "14"}, ours)["segment.bytes"] == 14
        with pytest.raises(ConfigError, match="Value must be at least 1048576"):
            TopicSettings.of({"segment.bytes": "14"}, BrokerConfig.load())
