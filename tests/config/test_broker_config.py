"""A broker's configuration: layers, sources of values, values from several keys, changes at run time."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config.broker_config import BrokerConfig
from tidelog.config.java_properties import store_line
from tidelog.config.origin import OriginKind, parse_server_properties
from tidelog.config.topic_settings import topic_texts
from tidelog.model import ConfigError

HOUR_MS = 3_600_000
FLUSH_KEY = "log.flush.interval.ms"
SECRET_KEY = "listener.name.inside.sasl.oauthbearer.client.credentials.client.secret"
RATIO_KEY = "log.cleaner.min.cleanable.ratio"


@pytest.fixture
def server_properties(tmp_path: Path) -> Path:
    path = tmp_path / "server.properties"
    path.write_text(
        "# a broker's\n"
        "broker.id=7\n"
        "log.dirs = /disk0 , /disk1\n"
        "log.retention.hours=2\n"
        "log.segment.bytes=1048576\n"
        "log.segment.bytes=2097152\n"
        "num.io.threads=4\n"
        "delegation.token.secret.key=swordfish\n"
        f"{SECRET_KEY}=opensesame\n"
        "rsm.config.bucket=b\n"
    )
    return path


def test_layers(server_properties: Path) -> None:
    config = BrokerConfig.load(server_properties, {"log.roll.ms": "5", "num.io.threads": "6"})
    assert (config["log.segment.bytes"], str(config.origin("log.segment.bytes"))) == (1 << 21, "server.properties:6")
    assert (config["num.io.threads"], str(config.origin("num.io.threads"))) == (6, "override")
    assert (config["num.network.threads"], str(config.origin("num.network.threads"))) == (3, "default")
    assert config["log.retention.ms"] is None
    assert config.log_dirs == ("/disk0", "/disk1")
    assert (config.node_id, config.missing) == (7, ("controller.listener.names", "process.roles"))
    assert config.topic_defaults()["retention.ms"] == 2 * HOUR_MS
    assert config.warnings == ()
    with pytest.raises(KeyError):
        config["segment.bytes"]


def test_without_anything() -> None:
    config = BrokerConfig.load()
    assert config == BrokerConfig()
    assert config.log_dirs == ("/tmp/kafka-logs",)
    assert (config.node_id, config.missing) == (None, ("controller.listener.names", "node.id", "process.roles"))
    assert (config.number("background.threads"), config.flag("log.cleaner.enable")) == (10, True)
    assert config.texts("log.cleanup.policy") == ("delete",)


def test_typed_values(server_properties: Path) -> None:
    config = BrokerConfig.load(server_properties)
    for wrong in (config.flag, config.texts):
        with pytest.raises(AssertionError):
            wrong("num.io.threads")
    with pytest.raises(AssertionError):
        config.number("log.dirs")


@pytest.mark.parametrize(
    ("set_", "topic_key", "value", "decided_by"),
    [
        ({}, "retention.ms", 168 * HOUR_MS, "log.retention.hours"),
        ({"log.retention.minutes": "3"}, "retention.ms", 180_000, "log.retention.minutes"),
        ({"log.retention.hours": "-7"}, "retention.ms", -1, "log.retention.hours"),
        ({"log.retention.hours": "1", "log.retention.ms": "9"}, "retention.ms", 9, "log.retention.ms"),
        ({"log.roll.hours": "2"}, "segment.ms", 2 * HOUR_MS, "log.roll.hours"),
        ({"log.roll.hours": "2", "log.roll.ms": "8"}, "segment.ms", 8, "log.roll.ms"),
        ({"log.roll.jitter.hours": "2"}, "segment.jitter.ms", 2 * HOUR_MS, "log.roll.jitter.hours"),
        ({"log.flush.scheduler.interval.ms": "4"}, "flush.ms", 4, "log.flush.scheduler.interval.ms"),
        (
            {"log.flush.scheduler.interval.ms": "4", "log.flush.interval.ms": "3"},
            "flush.ms",
            3,
            "log.flush.interval.ms",
        ),
        ({"message.max.bytes": "77"}, "max.message.bytes", 77, "message.max.bytes"),
        (
            {"log.cleaner.min.cleanable.ratio": ".1"},
            "min.cleanable.dirty.ratio",
            0.1,
            "log.cleaner.min.cleanable.ratio",
        ),
    ],
)
def test_defaults_of_topics(set_: Mapping[str, str], topic_key: str, value: object, decided_by: str) -> None:
    found = BrokerConfig.load(None, set_).topic_default(topic_key)
    assert found is not None
    assert (found[0], found[1].key) == (value, decided_by)
    if set_:
        text = topic_texts(set_)[topic_key]
        assert (text.text, text.broker_key) == (set_[decided_by] if value == 0.1 else str(value), decided_by)


def test_a_key_without_a_default_of_the_broker() -> None:
    assert BrokerConfig.load().topic_default("remote.storage.enable") is None


@pytest.mark.parametrize(
    ("key", "warning"),
    [
        ("log.retension.ms", "log.retension.ms is not a key of Kafka 4.4; did you mean log.retention.ms? (override)"),
        ("colour", "colour is not a key of Kafka 4.4 (override)"),
        ("retention.ms", "retention.ms is a topic setting; the broker's is log.retention.ms (override)"),
        ("remote.storage.enable", "remote.storage.enable is a topic setting (override)"),
        ("zookeeper.set.acl", "zookeeper.set.acl has no effect: Kafka 4 removed it (override)"),
        ("inter.broker.protocol.version", "inter.broker.protocol.version has no effect: Kafka 4 removed it (override)"),
        ("config.providers", "config.providers has no effect: values are read literally (override)"),
        ("listener.name.inside.colour", "listener.name.inside.colour is not a key of Kafka 4.4 (override)"),
    ],
)
def test_warnings(key: str, warning: str) -> None:
    assert BrokerConfig.load(None, {key: "x"}).warnings == (warning,)


def test_what_is_odd_is_told_once(server_properties: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        BrokerConfig.load(server_properties, {"colour": "blue"}).log_warnings()
    effect = f"delegation.token.secret.key, {SECRET_KEY}"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "colour is not a key of Kafka 4.4 (override)"),
        ("INFO", f"known to Kafka, without effect in tidelog: {effect}"),
    ]


def test_secrets_are_in_no_text(server_properties: Path) -> None:
    config = BrokerConfig.load(server_properties)
    assert "swordfish" not in repr(config)
    assert "opensesame" not in repr(config)
    assert repr(config.shown("delegation.token.secret.key")) == "[hidden]"


def test_every_mistake_is_named_with_its_line(server_properties: Path) -> None:
    with server_properties.open("a") as file:
        file.write("log.roll.hours=0\nnum.io.threads=many\n")
    with pytest.raises(ConfigError) as caught:
        BrokerConfig.load(server_properties, {"log.preallocate": "maybe"})
    assert caught.value.message.split("; ") == [
        "Invalid value many for configuration num.io.threads: Not a number of type INT (server.properties:12)",
        "Invalid value 0 for configuration log.roll.hours: Value must be at least 1 (server.properties:11)",
        "Invalid value maybe for configuration log.preallocate: Expected value to be either true or false (override)",
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: No such file or directory \(file .*absent"):
        BrokerConfig.load(tmp_path / "absent")
    (tmp_path / "bad").write_text("a=1\nb=\\u12")
    with pytest.raises(ConfigError, match=r"line 2: malformed"):
        BrokerConfig.load(tmp_path / "bad")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_properties_round_trip(texts: dict[str, str]) -> None:
    file = "".join(f"# {number}\n{store_line(key, text)}\n" for number, (key, text) in enumerate(texts.items()))
    found = parse_server_properties(file, "f")
    assert {key: setting.text for key, setting in found.items()} == texts
    assert [str(setting.origin) for setting in found.values()] == [f"f:{2 * n + 2}" for n in range(len(texts))]


class TestChanges:
    def test_a_change_and_the_way_back(self, server_properties: Path) -> None:
        start = BrokerConfig.load(server_properties)
        changed = start.with_changes({"log.retention.ms": "5", "num.io.threads": "8"})
        assert changed.topic_defaults()["retention.ms"] == 5
        assert changed.origin("log.retention.ms").kind is OriginKind.DYNAMIC
        assert start.topic_defaults()["retention.ms"] == 2 * HOUR_MS
        back = changed.with_changes({"log.retention.ms": None, "num.io.threads": None, "log.roll.ms": None})
        assert back == start
        assert str(back.origin("num.io.threads")) == "server.properties:7"

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"log.dirs": "/x"}, "Cannot update these configs dynamically: [log.dirs]"),
            ({"log.retention.hours": None}, "Cannot update these configs dynamically: [log.retention.hours]"),
            ({"log.segment.bytes": "5"}, "Invalid value 5 for configuration log.segment.bytes: Value must be at least"),
            ({"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
            (
                {"num.io.threads": "9"},
                "failed for num.io.threads=9, value should not be greater than double",
            ),
            ({"background.threads": "4"}, "background.threads=4, value should be at least half the current value 10"),
            ({"log.cleaner.threads": "3"}, "threads cannot be increased to more than double the current value 1"),
            ({"log.local.retention.ms": "7200001"}, "must not be more than log.retention.ms property value: 7200000"),
            ({"log.retention.bytes": "5", "log.local.retention.bytes": "-1"}, "must not be -1 as log.retention.bytes"),
        ],
    )
    def test_refused(self, server_properties: Path, changes: dict[str, str], message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            BrokerConfig.load(server_properties).with_changes(changes)
        assert message in caught.value.message

    def test_all_brokers_share_no_listener(self) -> None:
        start = BrokerConfig.load()
        assert start.with_changes({"max.connections": "5"}, cluster_wide=True)["max.connections"] == 5
        with pytest.raises(ConfigError, match=r"at default cluster level, broker id must be specified: \[listeners\]"):
            start.with_changes({"listeners": "PLAINTEXT://:9"}, cluster_wide=True)
