"""The connections to other nodes have the security that a node's own configuration gives to their listener."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from server.configs.test_dynamic_settings import BROKER, alter
from server.harness import BrokerHome, WireClient
from server.security.certificates import Authority, write_files
from server.security.logins import PASSWORD, SecureHome
from tidelog.client import Address, AuthenticationError, ClientSettings, open_connection
from tidelog.client.model.errors import ClientError
from tidelog.client.security.sasl_login import SaslLogin
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.protocol.api_key import ApiKey
from tidelog.server.links.link_settings import broker_link_settings, controller_link_settings
from tidelog.testing.cluster import Cluster

MODULE = "org.apache.kafka.common.security"
LISTENERS = {
    "node.id": "3",
    "controller.listener.names": "Ctl,OTHER",
    "inter.broker.listener.name": "Inner",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.security.protocol.map": "INNER:SASL_PLAINTEXT,CTL:PLAINTEXT,TLS:SSL,SASL:SASL_PLAINTEXT,BOTH:SASL_SSL",
}


def config(**texts: str) -> BrokerConfig:
    own = {key.replace("_", "."): text for key, text in texts.items()}
    return BrokerConfig.load(overrides={**LISTENERS, **own})


def plain(listener: str, password: str = PASSWORD) -> Mapping[str, str]:
    jaas = f'{MODULE}.plain.PlainLoginModule required username="alice" password="{password}" user_bob="b";'
    return {f"listener.name.{listener}.plain.sasl.jaas.config": jaas}


def test_each_listener_has_its_mechanism_and_its_login() -> None:
    scram = f'{MODULE}.scram.ScramLoginModule required username="controller" password="c";'
    found = config(
        **plain("inner"),
        **{"listener.name.ctl.scram-sha-256.sasl.jaas.config": scram},
        sasl_mechanism_inter_broker_protocol="PLAIN",
        sasl_mechanism_controller_protocol="SCRAM-SHA-256",
    )
    assert broker_link_settings(found).security.sasl == SaslLogin(mechanism="PLAIN", user="alice", password=PASSWORD)
    assert controller_link_settings(found).security.sasl is None, "its listener is PLAINTEXT"
    secure = {"listener.security.protocol.map": "INNER:PLAINTEXT,CTL:SASL_PLAINTEXT"}
    texts = {name: setting.text for name, setting in found.static.items()}
    with_sasl = BrokerConfig.load(overrides={**texts, **secure})
    login = controller_link_settings(with_sasl).security.sasl
    assert login == SaslLogin(mechanism="SCRAM-SHA-256", user="controller", password="c")
    assert broker_link_settings(with_sasl).security.sasl is None


@pytest.mark.parametrize(
    ("texts", "mistake"),
    [
        ({}, r"sasl\.mechanism\.inter\.broker\.protocol: GSSAPI is not supported"),
        (
            {"sasl.mechanism.inter.broker.protocol": "PLAIN"},
            r"listener\.name\.inner\.plain\.sasl\.jaas\.config has to be set",
        ),
        (
            {
                **plain("inner"),
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.inner.sasl.enabled.mechanisms": "SCRAM-SHA-256",
            },
            r"listener INNER does not offer PLAIN \(listener\.name\.inner\.sasl\.enabled\.mechanisms\)",
        ),
        ({"listener.security.protocol.map": "CTL:PLAINTEXT"}, "INNER has no known protocol"),
        (
            {"listener.security.protocol.map": "INNER:SSL", "listener.name.inner.ssl.truststore.location": "/no/file"},
            r"listener\.name\.inner\.ssl\.truststore\.location",
        ),
    ],
)
def test_a_mistake_is_named_by_the_key_in_the_file(texts: Mapping[str, str], mistake: str) -> None:
    with pytest.raises(ConfigError, match=mistake):
        broker_link_settings(config(**texts))


def test_a_controllers_listener_without_a_protocol_is_plaintext_like_in_kafka() -> None:
    texts = {key: text for key, text in LISTENERS.items() if key != "listener.security.protocol.map"}
    assert controller_link_settings(BrokerConfig.load(overrides=texts)).security.tls is None


def test_times_and_buffers() -> None:
    numbers = {
        "replica.socket.timeout.ms": "30001",
        "controller.socket.timeout.ms": "30002",
        "socket.connection.setup.timeout.ms": "7",
        "socket.connection.setup.timeout.max.ms": "8",
        "connections.max.idle.ms": "9",
        "listener.security.protocol.map": "INNER:PLAINTEXT,CTL:PLAINTEXT",
    }
    brokers, controllers = (make(config(**numbers)) for make in (broker_link_settings, controller_link_settings))
    assert (brokers.request_timeout_ms, controllers.request_timeout_ms) == (30_001, 30_002)
    for found in (brokers, controllers):
        assert (found.connection_setup_timeout_ms, found.connection_setup_timeout_max_ms) == (7, 8)
        assert found.connections_max_idle_ms == 9
        assert found.receive_buffer_bytes == found.send_buffer_bytes == -1
    buffered = broker_link_settings(config(**numbers, replica_socket_receive_buffer_bytes="4096"))
    assert buffered.receive_buffer_bytes == 4096


def connect(settings: ClientSettings, port: int) -> None:
    async def work() -> None:
        connection = await open_connection(Address("localhost", port), settings)
        await connection.send(ApiKey.METADATA, {"topics": []})
        connection.close()

    asyncio.run(asyncio.wait_for(work(), 60))


def test_a_node_authenticates_to_a_listener_like_its_own(tmp_path: Path) -> None:
    """The settings that make a listener with TLS, SASL or both make the connections to it as well."""
    files = write_files(tmp_path / "own")
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(files.authority)}
    own = {**trusted, "ssl.keystore.type": "PEM", "ssl.keystore.location": str(files.server)}
    with SecureHome(tmp_path / "server") as home:
        for listener, texts in (
            ("TLS", own),
            ("MUTUAL", own),
            ("SASL", plain("sasl")),
            ("BOTH", {**own, **plain("both")}),
        ):
            protocols = LISTENERS["listener.security.protocol.map"] + ",MUTUAL:SSL"
            mechanism = {"sasl.mechanism.inter.broker.protocol": "PLAIN", "inter.broker.listener.name": listener}
            settings = broker_link_settings(
                config(**{"listener.security.protocol.map": protocols, **mechanism, **texts})
            )
            connect(settings, home.listener(listener).port)
        wrong = broker_link_settings(
            config(
                inter_broker_listener_name="SASL",
                sasl_mechanism_inter_broker_protocol="PLAIN",
                **plain("sasl", "another secret"),
            )
        )
        with pytest.raises(AuthenticationError, match="refuses user alice"):
            connect(wrong, home.listener("SASL").port)
        unknown = broker_link_settings(config(inter_broker_listener_name="TLS"))
        with pytest.raises(ClientError, match="certificate"):
            connect(unknown, home.listener("TLS").port)
        assert isinstance(unknown.security.tls, ssl.SSLContext)
        assert unknown.security.tls.check_hostname
        unnamed = config(
            inter_broker_listener_name="TLS", **{"listener.name.tls.ssl.endpoint.identification.algorithm": ""}
        )
        context = broker_link_settings(unnamed).security.tls
        assert context is not None
        assert not context.check_hostname


def write_other(directory: Path) -> tuple[str, str]:
    """Return the files of a key store that the nodes do not trust, and of its authority."""
    other, files = Authority("others"), (directory / "other.pem", directory / "others.pem")
    identity = other.issue_named("localhost")
    files[0].write_text(identity.key_pem() + identity.chain_pem)
    files[1].write_text(other.pem)
    return str(files[0]), str(files[1])


def test_a_changed_trust_store_is_the_next_connections_to_a_broker(tmp_path: Path) -> None:
    key_store, authority = write_other(tmp_path)
    settings = {
        "inter.broker.listener.name": "TLS",
        "listener.name.tls.ssl.truststore.type": "PEM",
        "listener.name.tls.ssl.truststore.location": str(tmp_path / "certificates" / "authority.pem"),
    }
    with SecureHome(tmp_path, settings) as home, home.wire("PLAINTEXT") as admin:

        def ask(purpose: str) -> None:
            home.run(lambda: home.server.links.send(1, ApiKey.METADATA, {"topics": []}, purpose=purpose))

        ask("before")
        alter(admin, BROKER, "1", "listener.name.tls.ssl.keystore.location", key_store)
        with pytest.raises(AuthenticationError, match=r"the certificate of broker 1 at .* is refused"):
            ask("after")
        alter(admin, BROKER, "1", "listener.name.tls.ssl.truststore.location", authority)
        ask("after")
        ask("before")  # its connection is open


def test_a_changed_trust_store_is_the_next_connections_to_the_controller(tmp_path: Path) -> None:
    key_store, authority = write_other(tmp_path)
    files = write_files(tmp_path / "certificates")
    settings = {
        "listener.security.protocol.map": "CONTROLLER:SSL,PLAINTEXT:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.authority),
    }
    with Cluster(1, directory=tmp_path / "cluster", configs=settings) as cluster:
        broker = cluster.brokers[1]
        with WireClient(broker.own_port) as admin:
            key = "listener.name.controller.ssl.truststore.location"
            alter(admin, BROKER, "1", key, authority)
            cluster.wait_for(lambda: key in broker.server.config.settings)
            cluster.controller.restart({"ssl.keystore.location": key_store})
            alter(admin, BROKER, "1", "log.cleaner.threads", "2")  # the broker forwards it


SINGLE = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    **plain("plaintext"),
}


def single(directory: Path, **texts: str) -> BrokerHome:
    own = {**SINGLE, "log.dirs": str(directory), **texts}
    return BrokerHome(directory, manual_time=False, **{key.replace(".", "_"): text for key, text in own.items()})


@pytest.mark.parametrize("mechanism", [None, "PLAIN", "SCRAM-SHA-256"])
def test_a_mistake_of_a_controllers_own_broker_is_found_at_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mechanism: str | None
) -> None:
    """A single node without the setting serves, because it needs none."""
    warning = "Other brokers may join, but this broker could not follow them: sasl.mechanism.inter.broker.protocol: "
    texts = {} if mechanism is None else {"sasl.mechanism.inter.broker.protocol": mechanism}
    if mechanism == "SCRAM-SHA-256":
        with pytest.raises(ConfigError, match=r"scram-sha-256\.sasl\.jaas\.config has to be set"):
            single(tmp_path, **texts).start()
    else:
        with single(tmp_path, **texts):
            pass
    assert (warning in caplog.text) is (mechanism is None)


def test_the_brokers_links_have_the_addresses_of_the_metadata(tmp_path: Path) -> None:
    with SecureHome(tmp_path) as home:

        async def ask() -> int:
            response = await home.server.links.send(1, ApiKey.METADATA, {"topics": []})
            return int(response.controller_id)

        assert home.run(ask) == 1
