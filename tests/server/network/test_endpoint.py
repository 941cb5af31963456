"""Endpoints from ``listeners`` and ``advertised.listeners``."""

from __future__ import annotations

import socket

import pytest

from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.security.security_protocol import SecurityProtocol
from tidelog.server.network.endpoint import BrokerEndpoints, endpoints_of


def endpoints(**settings: str) -> BrokerEndpoints:
    return endpoints_of(BrokerConfig.load(overrides={key.replace("_", "."): text for key, text in settings.items()}))


def texts(found: object) -> list[str]:
    return list(map(str, found))  # type: ignore[call-overload]


def test_what_is_listened_to_is_advertised_unless_something_else_is() -> None:
    found = endpoints(listeners="PLAINTEXT://127.0.0.1:9092")
    assert texts(found.listeners) == texts(found.advertised) == ["PLAINTEXT://127.0.0.1:9092"]
    found = endpoints(listeners="PLAINTEXT://:9092", advertised_listeners="PLAINTEXT://kafka.example:19092")
    assert texts(found.advertised) == ["PLAINTEXT://kafka.example:19092"]


@pytest.mark.parametrize("host", ["", "0.0.0.0", "[::]"])
def test_where_every_address_is_listened_to_the_machines_name_is_advertised(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setattr(socket, "getfqdn", lambda: "machine.example")
    (advertised,) = endpoints(listeners=f"PLAINTEXT://{host}:9092").advertised
    assert advertised.host == "machine.example"


def test_listeners_have_names_of_their_own_and_addresses_of_both_kinds() -> None:
    found = endpoints(
        listeners="internal://[::1]:9092, EXTERNAL://10.0.0.1:0",
        advertised_listeners="EXTERNAL://host:0,INTERNAL://[fe80::1]:1",
        listener_security_protocol_map="INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    )
    assert texts(found.listeners) == ["INTERNAL://[::1]:9092", "EXTERNAL://10.0.0.1:0"]
    at = found.advertised_at({"INTERNAL": 9092, "EXTERNAL": 4711})
    assert texts(at) == ["INTERNAL://[fe80::1]:1", "EXTERNAL://host:4711"]


def test_a_name_stands_for_a_protocol() -> None:
    own = endpoints(listeners="SSL://:1,SASL_PLAINTEXT://:2,SASL_SSL://:3,PLAINTEXT://:4").advertised
    assert [one.protocol.name for one in own] == ["SSL", "SASL_PLAINTEXT", "SASL_SSL", "PLAINTEXT"]
    (named,) = endpoints(
        listeners="OWN://:1", advertised_listeners="OWN://host:2", listener_security_protocol_map="own:sasl_ssl"
    ).advertised
    assert named.protocol is SecurityProtocol.SASL_SSL


def test_a_controllers_listener_is_left_alone() -> None:
    found = endpoints(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093",
        advertised_listeners="PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
        controller_listener_names="CONTROLLER",
    )
    assert texts(found.listeners) == ["PLAINTEXT://:9092"]
    assert texts(found.advertised) == ["PLAINTEXT://localhost:9092"]
    assert texts(found.controllers) == ["CONTROLLER://:9093"]


@pytest.mark.parametrize(
    ("settings", "mistake"),
    [
        (
            {"listeners": "OWN://:9093", "listener_security_protocol_map": "OWN:TLS"},
            "OWN has unknown protocol TLS; use PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        ({"inter_broker_listener_name": "OWN"}, "inter.broker.listener.name: OWN is not one of the listeners"),
        ({"security_inter_broker_protocol": "SSL"}, "security.inter.broker.protocol: SSL is not one of the listeners"),
        (
            {"inter_broker_listener_name": "PLAINTEXT", "security_inter_broker_protocol": "PLAINTEXT"},
            "must not both be set",
        ),
        ({"listeners": "OWN://:9093"}, "listeners: OWN is not in listener.security.protocol.map"),
        ({"listeners": "localhost:9092"}, "'localhost:9092' is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://:65536"}, "'PLAINTEXT://:65536' is not NAME://host:port"),
        ({"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "several listeners named PLAINTEXT"),
        ({"listeners": "CONTROLLER://:1", "controller_listener_names": "CONTROLLER"}, "not the controller's"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:9092"}, "0.0.0.0 is not an address that clients can connect to"),
        ({"advertised_listeners": "SSL://host:9092"}, "SSL is not one of the listeners"),
        ({"early_start_listeners": "PLAINTEXT,INNER"}, "early.start.listeners: INNER is not one of the listeners"),
    ],
)
def test_a_mistake_is_named(settings: dict[str, str], mistake: str) -> None:
    with pytest.raises(ConfigError) as raised:
        endpoints(**settings)
    assert mistake in str(raised.value)
