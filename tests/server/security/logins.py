"""Brokers whose listeners authenticate clients, and clients that implement TLS and SASL themselves."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from server.harness import BrokerHome, WireClient
from server.security.certificates import Files, authority, write_files
from server.security.test_scram_exchange import Client
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.schemas import Struct
from tidelog.security.scram_credential import ScramMechanism, random_salt, salted_password
from tidelog.server.metadata.requests import ScramUpsertion
from tidelog.server.network.listener import Listener

PASSWORD = "alice's secret"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "BOTH": "SASL_SSL",
}
_MODULE = "org.apache.kafka.common.security"


def security_settings(files: Files) -> dict[str, str]:
    """Return the settings of a broker with every kind of listener, and alice as a PLAIN user."""
    users = f'{_MODULE}.plain.PlainLoginModule required user_alice="{PASSWORD}" user_bob="bob\'s";'
    return {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.server),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.location": str(files.authority),
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        **{f"listener.name.{name}.plain.sasl.jaas.config": users for name in ("sasl", "both")},
        **{
            f"listener.name.{name}.{mechanism.title.lower()}.sasl.jaas.config": (
                f"{_MODULE}.scram.ScramLoginModule required;"
            )
            for name in ("sasl", "both")
            for mechanism in ScramMechanism
        },
    }


class SecureHome(BrokerHome):
    """A broker with a listener of each kind."""

    def __init__(
        self, directory: Path, settings: Mapping[str, str] | None = None, *, manual_time: bool = False
    ) -> None:
        self.files = write_files(directory / "certificates")
        texts = security_settings(self.files) | dict(settings or {})
        own = {key.replace(".", "_"): text for key, text in texts.items()}
        super().__init__(directory / "data", manual_time=manual_time, **own)

    def listener(self, name: str) -> Listener:
        return next(one for one in self.server.listeners if one.endpoint.name == name)

    def servers(self, name: str) -> str:
        """Return a listener's address for clients that check certificates."""
        return f"localhost:{self.listener(name).port}"

    def counts(self, name: str) -> tuple[int, int]:
        """Return the numbers of successful and failed authentications."""
        counts = self.listener(name).authentications
        return self.call(lambda: (counts.successful, counts.failed))

    def set_password(self, user: str, password: str = PASSWORD, iterations: int = 4096) -> None:
        """Set the password for both SCRAM mechanisms."""
        for mechanism in ScramMechanism:
            salt = random_salt()
            salted = salted_password(mechanism, password, iterations=iterations, salt=salt)
            new = ScramUpsertion(user, int(mechanism), iterations, salt, salted)
            outcomes = self.run(partial(self.server.controller.alter_scram_users, [], [new]))
            assert not outcomes[user].is_failure, outcomes

    def wire(self, name: str) -> WireClient:
        """Open a connection to a listener. The caller closes it."""
        port = self.listener(name).port
        return TlsClient(port) if LISTENERS[name] in ("SSL", "SASL_SSL") else WireClient(port)


class TlsClient(WireClient):
    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        super().__init__(port)
        context = context or ssl.create_default_context(cadata=authority().pem)
        self.socket = context.wrap_socket(self.socket, server_hostname="localhost")


@contextmanager
def secure_broker(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[SecureHome]:
    with SecureHome(directory, settings) as home:
        home.set_password("alice")
        yield home


def handshake(client: WireClient, mechanism: str, version: int = 1) -> Struct:
    return client.call(ApiKey.SASL_HANDSHAKE, version, mechanism=mechanism)


def token(client: WireClient, data: bytes, version: int = 2) -> Struct:
    return client.call(ApiKey.SASL_AUTHENTICATE, version, auth_bytes=data)


def log_in(
    client: WireClient, mechanism: str, user: str = "alice", password: str = PASSWORD, version: int = 2
) -> Struct:
    """Return the response to the last token."""
    assert handshake(client, mechanism).error_code == ErrorCode.NONE
    if mechanism == "PLAIN":
        return token(client, f"\0{user}\0{password}".encode(), version)
    kind = ScramMechanism.SHA_256 if mechanism.endswith("256") else ScramMechanism.SHA_512
    scram = Client(user=user, password=password, mechanism=kind)
    challenge = token(client, scram.first(), version)
    assert challenge.error_code == ErrorCode.NONE, challenge
    return token(client, scram.final(challenge.auth_bytes), version)


def bare(client: WireClient, data: bytes) -> bytes:
    """Send a token without headers and return the response."""
    client.socket.sendall(length_prefix([data]) + data)
    return client.receive_frame()


def is_served(client: WireClient) -> bool:
    try:
        return bool(client.call(ApiKey.METADATA, topics=[]).brokers)
    except ConnectionError:
        return False


def user_of(home: SecureHome, name: str) -> str:
    """Return the principal of a listener's only connection."""
    (connection,) = home.listener(name).connections
    return home.call(lambda: str(connection.client.principal))


def connected(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)
