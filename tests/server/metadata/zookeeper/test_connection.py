"""The settings of a connection to ZooKeeper, from a broker's properties."""

from __future__ import annotations

import pytest

from tidelog.model import ConfigError
from tidelog.server.metadata.zookeeper.connection import connection_settings

ADDRESS = "localhost:2181/kafka"


@pytest.mark.parametrize(
    ("properties", "timeout_ms"),
    [
        ({}, 18_000),
        ({"zookeeper.session.timeout.ms": "7000"}, 7000),
        ({"zookeeper.session.timeout.ms": "7000", "zookeeper.connection.timeout.ms": " 9000 "}, 9000),
        ({"zookeeper.connect": "elsewhere:1", "zookeeper.ssl.client.enable": "false"}, 18_000),
    ],
)
def test_timeouts(properties: dict[str, str], timeout_ms: int) -> None:
    settings = connection_settings(ADDRESS, properties)
    assert settings.timeout_ms == timeout_ms
    assert settings.tls is None
    assert str(settings.address) == ADDRESS


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"zookeeper.connection.timeout.ms": "0"}, "zookeeper.connection.timeout.ms: '0' is not a number of ms"),
        ({"zookeeper.session.timeout.ms": "1s"}, "'1s' is not a number of ms"),
        ({"zookeeper.ssl.client.enable": "yes"}, "'yes' is neither true nor false"),
        (
            {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.truststore.location": "/nowhere"},
            "zookeeper.ssl.truststore.location",
        ),
        (
            {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.enabled.protocols": "TLSv1"},
            "zookeeper.ssl.enabled.protocols: TLSv1 is not supported",
        ),
    ],
)
def test_mistakes_name_the_key(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        connection_settings(ADDRESS, properties)
    assert words in str(raised.value)
