"""The settings of a connection to ZooKeeper, from a broker's properties."""

from __future__ import annotations

import pytest

from tidelog.model import ConfigError
from tidelog.server.metadata.zookeeper.connection import connection_settings
from tidelog.server.metadata.zookeeper.settings import DigestLogin

JAAS = "zookeeper.sasl.jaas.config"
LOGIN_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"
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
        ({"zookeeper.set.acl": "true"}, "zookeeper.set.acl needs a user: set zookeeper.sasl.jaas.config, or"),
        ({"zookeeper.set.acl": "on"}, "zookeeper.set.acl: 'on' is neither true nor false"),
        ({JAAS: "x"}, "zookeeper.sasl.jaas.config: it ends where"),
        (
            {JAAS: 'a.Module required username="u" password="hidden";'},
            "it has to be org.apache.zookeeper.server.auth.D",
        ),
        ({JAAS: f'{LOGIN_MODULE} required password="hidden";'}, 'required username="NAME" password="PASSWORD";'),
    ],
)
def test_mistakes_name_the_key(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        connection_settings(ADDRESS, properties)
    assert words in str(raised.value)
    assert "hidden" not in str(raised.value)


def test_a_user() -> None:
    properties = {JAAS: f'{LOGIN_MODULE} required username="kafka" password="p;\'w";'}
    settings = connection_settings(ADDRESS, properties)
    assert settings.login == DigestLogin("kafka", "p;'w")
    assert not settings.sets_acls
    assert connection_settings(ADDRESS, {**properties, "zookeeper.set.acl": "true"}).sets_acls
    assert connection_settings(
        ADDRESS, {"zookeeper.ssl.keystore.location": "/key.pem", "zookeeper.set.acl": "true"}
    ).sets_acls
