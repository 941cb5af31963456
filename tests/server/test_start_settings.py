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
