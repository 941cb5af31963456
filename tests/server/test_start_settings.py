"""Settings with which a broker starts, and settings that it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.model import ConfigError
from tidelog.server.start_settings import StartSettings, load_start_config

KAFKAS_OWN = """
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT
log.dirs=kraft-combined-logs
"""
"""The part of Kafka 4.1's server.properties that matters for a start."""


def test_without_a_file_there_are_defaults_and_overrides_go_before_them() -> None:
    config = load_start_config(None, {"log.dirs": "elsewhere"})
    settings = StartSettings.of(config)
    assert config.log_dirs == ("elsewhere",)
    assert str(settings.endpoints.advertised[0]) == "PLAINTEXT://localhost:9092"
    assert config.number("offsets.topic.replication.factor") == 1


def test_kafkas_own_file_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(KAFKAS_OWN)
    config = load_start_config(path, {"node.id": "7"})
    settings = StartSettings.of(config)
    assert settings.node_id == 7
    assert [str(one) for one in settings.endpoints.advertised] == ["PLAINTEXT://localhost:9092"]
    assert config.warnings == ()


KAFKAS_WITH_ZOOKEEPER = """
broker.id=0
num.network.threads=3
num.io.threads=8
socket.request.max.bytes=104857600
log.dirs=kafka-logs
offsets.topic.replication.factor=1
log.retention.hours=168
zookeeper.connect=localhost:2181
zookeeper.connection.timeout.ms=18000
"""
"""The part of Kafka 3.9's server.properties for ZooKeeper that matters for a start."""


def test_kafkas_file_for_zookeeper_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(KAFKAS_WITH_ZOOKEEPER)
    config = load_start_config(path, {})
    settings = StartSettings.of(config)
    assert settings.node_id == 0
    assert not settings.has_controller
    assert settings.zookeeper is not None
    assert str(settings.zookeeper.address) == "localhost:2181"
    assert [one.port for one in settings.endpoints.listeners] == [9092]
    assert settings.endpoints.controllers == ()
    assert config.warnings == ()


def test_zookeeper_may_generate_the_id() -> None:
    config = load_start_config(None, {"zookeeper.connect": "localhost:2181/kafka", "log.dirs": "elsewhere"})
    assert StartSettings.of(config).node_id is None
    assert config["process.roles"] is None
    assert config.number("offsets.topic.replication.factor") == 1


@pytest.mark.parametrize(
    ("keys", "mistake"),
    [
        ({"broker.id.generation.enable": "false"}, "broker.id has to be set, because broker.id.generation.enable is"),
        ({"broker.id": "1001"}, "broker.id: 1001 is above reserved.broker.max.id, 1000"),
        ({"broker.id": "-2"}, "broker.id: -2 is no id; use -1 or leave it out"),
        ({"zookeeper.metadata.migration.enable": "true"}, "zookeeper.metadata.migration.enable: a migration"),
        ({"controller.listener.names": "CONTROLLER"}, "controller.listener.names must not be set"),
        ({"authorizer.zookeeper.url": "localhost:2182"}, "authorizer.zookeeper.url: ACLs in another ZooKeeper"),
        ({"zookeeper.connect": "localhost:99999"}, "ZooKeeper address 'localhost:99999'"),
        ({"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": "/none.pem"}, "/none.pem"),
        ({"process.roles": "broker,controller"}, "zookeeper.connect: a node with process.roles does not use ZooKeeper"),
    ],
)
def test_mistakes_of_a_broker_with_zookeeper(keys: dict[str, str], mistake: str) -> None:
    with pytest.raises(ConfigError) as raised:
        StartSettings.of(load_start_config(None, {"zookeeper.connect": "localhost:2181", **keys}))
    assert mistake in str(raised.value)


@pytest.mark.parametrize(
    "keys",
    [
        {"broker.id": "1001", "broker.id.generation.enable": "false"},
        {"broker.id": "1001", "reserved.broker.max.id": "1001"},
        {"node.id": "7"},
    ],
)
def test_ids_that_are_allowed(keys: dict[str, str]) -> None:
    config = load_start_config(None, {"zookeeper.connect": "localhost:2181", **keys})
    assert StartSettings.of(config).node_id == int(keys.get("broker.id", "7"))


def test_every_mistake_is_named_at_once(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_text(
        "process.roles=broker,controller\nzookeeper.connect=localhost\nlisteners=SSL://:1\n"
        "max.connections.per.ip.overrides=x\ncontroller.quorum.voters=1@a:1,2@b:1\n"
        "authorizer.class.name=my.Authorizer\nremote.log.storage.system.enable=true\n"
    )
    with pytest.raises(ConfigError) as raised:
        StartSettings.of(load_start_config(path, {}))
    for named in (
        "node.id has to be set",
        "zookeeper.connect",
        "controller.quorum.voters",
        "ssl.keystore.location: listener SSL needs a key",
        "max.connections.per.ip.overrides",
        "authorizer.class.name: my.Authorizer is not supported",
        "remote.log.storage.system.enable",
    ):
        assert named in str(raised.value)
