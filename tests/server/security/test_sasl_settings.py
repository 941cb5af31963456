"""A listener's SASL settings, and the errors that name invalid ones."""

from __future__ import annotations

import pytest

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.server.security.listener_config import ListenerConfig
from tidelog.server.security.sasl_settings import SaslSettings

PLAIN_KEY = "listener.name.own.plain.sasl.jaas.config"
PLAIN_USERS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="x" user_alice="hunter2";'
MANY = {"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512", PLAIN_KEY: PLAIN_USERS}


def settings(texts: dict[str, str]) -> SaslSettings:
    return SaslSettings.of(ListenerConfig(BrokerConfig.load(overrides=texts), "OWN"))


def test_users_of_plain_are_those_of_its_login_module() -> None:
    found = settings(MANY)
    assert found.mechanisms == ("PLAIN", "SCRAM-SHA-512")
    assert found.passwords == {"alice": "hunter2"}
    assert found.max_receive_bytes == 524288
    assert found.failure_delay_ms == 100
    assert "hunter2" not in repr(found)


def test_a_listener_and_a_mechanism_of_it_go_before_what_is_said_of_all() -> None:
    found = settings(
        MANY
        | {
            "sasl.enabled.mechanisms": "GSSAPI",
            "listener.name.own.sasl.enabled.mechanisms": "PLAIN, SCRAM-SHA-256, SCRAM-SHA-512",
            "listener.name.other.sasl.enabled.mechanisms": "OAUTHBEARER",
            "connections.max.reauth.ms": "1000",
            "listener.name.own.connections.max.reauth.ms": "2000",
            "listener.name.own.plain.connections.max.reauth.ms": "3000",
            "listener.name.own.scram-sha-512.connections.max.reauth.ms": "0",
            "listener.name.own.sasl.server.max.receive.size": "1000",
        }
    )
    assert found.max_reauth_ms == {"PLAIN": 3000, "SCRAM-SHA-256": 2000, "SCRAM-SHA-512": 0}
    assert found.max_receive_bytes == 1000


@pytest.mark.parametrize(
    ("texts", "mistake"),
    [
        ({}, "GSSAPI is not supported for listener OWN; use PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER"}, "OAUTHBEARER is not supported"),
        ({"sasl.enabled.mechanisms": ""}, "offers no mechanism"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, f"{PLAIN_KEY} has to be set"),
        ({"sasl.enabled.mechanisms": "PLAIN", "sasl.jaas.config": PLAIN_USERS}, f"{PLAIN_KEY} has to be set"),
        (
            MANY | {PLAIN_KEY: 'com.example.Module required user_alice="hunter2";'},
            "com.example.Module is not supported",
        ),
        (MANY | {PLAIN_KEY: PLAIN_USERS[:-1]}, f"{PLAIN_KEY}: it ends where a semicolon is expected"),
        (MANY | {"sasl.server.callback.handler.class": "com.example.Handler"}, "sasl.server.callback.handler.class:"),
        (
            MANY | {"listener.name.own.plain.sasl.server.callback.handler.class": "com.example.Handler"},
            "listener.name.own.plain.sasl.server.callback.handler.class:",
        ),
        (
            MANY | {"listener.name.own.scram-sha-512.sasl.jaas.config": PLAIN_USERS},
            "PlainLoginModule is not supported; for SCRAM-SHA-512 use org",
        ),
    ],
)
def test_a_mistake_is_named_without_a_secret(texts: dict[str, str], mistake: str) -> None:
    with pytest.raises(ConfigError) as raised:
        settings(texts)
    assert mistake in str(raised.value)
    assert "hunter2" not in str(raised.value)
