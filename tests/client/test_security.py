"""TLS and SASL against tidelog's own broker, and against servers with wrong certificates and false tokens."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from client.peer import LOOPS, Peer, PeerConnection, run
from server.security.certificates import Authority, Identity, authority, server_identity
from server.security.logins import MECHANISMS, PASSWORD, SecureHome, secure_broker
from server.security.test_scram_exchange import Users
from tidelog.client import (
    Address,
    AuthenticationError,
    ClientConfig,
    ClientError,
    ClientSettings,
    ClusterClient,
    Connection,
    open_connection,
)
from tidelog.client.security.client_security import ClientSecurity
from tidelog.client.security.sasl_login import SaslLogin
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.security.scram_credential import ScramCredential, ScramMechanism
from tidelog.server.security.sasl_exchange import SaslError
from tidelog.server.security.scram_exchange import ScramExchange

MODULE = "org.apache.kafka.common.security"
PEM = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority().pem}
LIST_GROUPS = ApiKey.LIST_GROUPS


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureHome]:
    with secure_broker(
        tmp_path_factory.mktemp("secure"), {"connection.failed.authentication.delay.ms": "1"}
    ) as running:
        yield running


def login(mechanism: str, password: str = PASSWORD, user: str = "alice") -> dict[str, str]:
    name = "plain.Plain" if mechanism == "PLAIN" else "scram.Scram"
    jaas = f'{MODULE}.{name}LoginModule required username="{user}" password="{password}";'
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def settings_of(port: int, protocol: str, **texts: str) -> ClientSettings:
    own = {"bootstrap.servers": f"localhost:{port}", "security.protocol": protocol}
    return ClientSettings.of(ClientConfig.load(overrides={**own, **texts}))


def connect(settings: ClientSettings, loop: str = "asyncio") -> None:
    """Connect, send a request, and close."""

    async def work() -> None:
        connection = await open_connection(settings.bootstrap[0], settings)
        response = await connection.send(ApiKey.METADATA, {"topics": []})
        assert [node.node_id for node in response.brokers] == [1]
        connection.close()

    run(work, loop)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize(("listener", "protocol"), [("SASL", "SASL_PLAINTEXT"), ("BOTH", "SASL_SSL")])
def test_every_mechanism(home: SecureHome, listener: str, protocol: str, mechanism: str, loop: str) -> None:
    connect(settings_of(home.listener(listener).port, protocol, **PEM, **login(mechanism)), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_tls_and_the_clients_certificate(home: SecureHome, loop: str) -> None:
    connect(settings_of(home.listener("TLS").port, "SSL", **PEM), loop)
    own = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(home.files.client)}
    connect(settings_of(home.listener("MUTUAL").port, "SSL", **PEM, **own), loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_broker_that_requires_a_certificate(home: SecureHome, loop: str) -> None:
    with pytest.raises(AuthenticationError, match=r"certificate required.*ssl.keystore.location"):
        connect(settings_of(home.listener("MUTUAL").port, "SSL", **PEM), loop)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_wrong_names_and_passwords(home: SecureHome, mechanism: str) -> None:
    for wrong in (login(mechanism, "another secret"), login(mechanism, PASSWORD, "nobody")):
        with pytest.raises(AuthenticationError, match=f"refuses user .* by SASL {mechanism}: ") as caught:
            connect(settings_of(home.listener("SASL").port, "SASL_PLAINTEXT", **wrong))
        assert "secret" not in str(caught.value)


def test_an_authentication_error_is_not_repeated(home: SecureHome) -> None:
    _, failed = home.counts("SASL")

    async def work() -> None:
        wrong = login("PLAIN", "another secret")
        async with ClusterClient(settings_of(home.listener("SASL").port, "SASL_PLAINTEXT", **wrong)) as client:
            with pytest.raises(AuthenticationError):
                await client.metadata_of(None)

    run(work)
    assert home.counts("SASL")[1] == failed + 1


def test_a_listener_of_another_protocol(home: SecureHome) -> None:
    quick = {"socket.connection.setup.timeout.ms": "2000"}
    for listener, protocol, text in (
        ("TLS", "PLAINTEXT", "a TLS alert: the port needs TLS|has closed the connection|is lost"),
        ("PLAINTEXT", "SSL", "during the TLS handshake; is it a port with TLS"),
        ("PLAINTEXT", "SASL_PLAINTEXT", "does not support SaslHandshake|refuses SASL|closed the connection|is lost"),
        ("SASL", "PLAINTEXT", "has closed the connection|is lost"),
    ):
        with pytest.raises(ClientError, match=text):
            connect(settings_of(home.listener(listener).port, protocol, **PEM, **login("PLAIN"), **quick))


# --- certificates ---


def context_of(identity: Identity, directory: Path) -> ssl.SSLContext:
    file = directory / "server.pem"
    file.write_text(identity.key_pem() + identity.chain_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def serve(peer: PeerConnection) -> None:
    await peer.tell_versions()
    await peer.serve({ApiKey.METADATA: {"brokers": [{"node_id": 1, "host": "h", "port": 1}], "topics": []}})


def connect_to(identity: Identity, directory: Path, host: str, loop: str = "asyncio", **texts: str) -> None:
    """Connect to a server with this certificate by this name."""

    async def work() -> None:
        async with Peer(
            serve, tls=context_of(identity, directory), host="127.0.0.1" if host == "localhost" else host
        ) as peer:
            settings = settings_of(peer.port, "SSL", **{**PEM, **texts})
            connection = await open_connection(Address(host, peer.port), settings)
            connection.close()

    run(work, loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_certificates_that_are_accepted(tmp_path: Path, loop: str) -> None:
    connect_to(server_identity(), tmp_path, "localhost", loop)
    connect_to(server_identity(), tmp_path, "127.0.0.1", loop)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_certificate_with_another_name(tmp_path: Path, loop: str) -> None:
    with pytest.raises(AuthenticationError, match=r"is refused: .*ssl.endpoint.identification.algorithm"):
        connect_to(server_identity(), tmp_path, "127.0.0.2", loop)
    connect_to(server_identity(), tmp_path, "127.0.0.2", loop, **{"ssl.endpoint.identification.algorithm": ""})


@pytest.mark.parametrize("loop", LOOPS)
def test_an_expired_certificate(tmp_path: Path, loop: str) -> None:
    expired = authority().issue_named("localhost", expired=True)
    for texts in ({}, {"ssl.endpoint.identification.algorithm": ""}):
        with pytest.raises(AuthenticationError, match="certificate has expired"):
            connect_to(expired, tmp_path, "localhost", loop, **texts)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_certificate_of_an_unknown_authority(tmp_path: Path, loop: str) -> None:
    other = Authority("others").issue_named("localhost")
    for texts in ({}, {"ssl.endpoint.identification.algorithm": ""}):
        with pytest.raises(AuthenticationError, match=r"is refused: .*ssl.truststore.location"):
            connect_to(other, tmp_path, "localhost", loop, **texts)


# --- servers that lie ---


class SaslServer:
    """A server of SCRAM-SHA-256 whose tokens a test may change."""

    def __init__(self, change: Callable[[int, bytes], bytes] = lambda number, token: token) -> None:
        self.authentications = 0
        self.requests: list[ApiKey] = []
        self.lifetime_ms = 0
        self.password = "secret"
        self._change = change

    async def __call__(self, peer: PeerConnection) -> None:
        await peer.tell_versions()
        exchange: ScramExchange | None = None
        number = 0
        while True:
            request = await peer.request()
            self.requests.append(request.api)
            if request.api is ApiKey.SASL_HANDSHAKE:
                users = Users({"alice": ScramCredential.of_password(ScramMechanism.SHA_256, self.password)})
                exchange, number = ScramExchange(ScramMechanism.SHA_256, users), 0
                await peer.respond(request, {"error_code": 0, "mechanisms": ["SCRAM-SHA-256"]})
            elif request.api is ApiKey.SASL_AUTHENTICATE:
                assert exchange is not None
                number += 1
                try:
                    token = exchange.respond(bytes(request.values.auth_bytes))
                except SaslError as error:
                    code = int(ErrorCode.SASL_AUTHENTICATION_FAILED)
                    await peer.respond(request, {"error_code": code, "error_message": error.message})
                    continue
                self.authentications += number == 2
                token = self._change(number, token)
                await peer.respond(
                    request, {"error_code": 0, "auth_bytes": token, "session_lifetime": self.lifetime_ms}
                )
            else:
                await peer.respond(request, {"groups": []})


def with_sasl(server: SaslServer, use: Callable[[Connection], Awaitable[None]]) -> None:
    async def work() -> None:
        async with Peer(server) as peer:
            sasl = SaslLogin(mechanism="SCRAM-SHA-256", user="alice", password="secret")
            settings = peer.settings(security=ClientSecurity(sasl=sasl))
            connection = await open_connection(peer.address, settings)
            try:
                await use(connection)
            finally:
                connection.close()

    run(work)


async def one_request(connection: Connection) -> None:
    await connection.send(LIST_GROUPS, {})


def test_a_server_that_knows_the_password() -> None:
    server = SaslServer()
    with_sasl(server, one_request)
    assert server.authentications == 1


def test_a_server_with_a_wrong_signature_is_refused() -> None:
    """An impostor accepts any proof, and claims success."""

    def lie(number: int, token: bytes) -> bytes:
        return token if number == 1 else b"v=" + base64.b64encode(bytes(32))

    server = SaslServer(lie)
    with pytest.raises(AuthenticationError, match=r"server 127.0.0.1:\d+ is refused: its SCRAM signature is wrong"):
        with_sasl(server, one_request)
    assert LIST_GROUPS not in server.requests, "the impostor gets no request"


@pytest.mark.parametrize("token", [b"", b"v=", b"e=other-error", b"\xff"])
def test_a_server_without_a_signature_is_refused(token: bytes) -> None:
    server = SaslServer(lambda number, real: real if number == 1 else token)
    with pytest.raises(AuthenticationError, match="is refused: "):
        with_sasl(server, one_request)
    assert LIST_GROUPS not in server.requests


def test_a_server_that_weakens_the_proof_is_refused() -> None:
    server = SaslServer(lambda number, token: token.replace(b"i=4096", b"i=1"))
    with pytest.raises(AuthenticationError, match="it wants 1 SCRAM iterations"):
        with_sasl(server, one_request)


# --- sessions (KIP-368) ---


def test_a_session_is_renewed_before_its_end() -> None:
    server = SaslServer()
    server.lifetime_ms = 100

    async def use(connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        while server.authentications < 3:
            await asyncio.gather(*(connection.send(LIST_GROUPS, {}) for _ in range(3)))
            await asyncio.sleep(0.001)
        assert loop.time() - begin >= 2 * 0.085

    with_sasl(server, use)


def test_a_session_without_an_end_is_not_renewed() -> None:
    server = SaslServer()

    async def use(connection: Connection) -> None:
        for _ in range(50):
            await connection.send(LIST_GROUPS, {})

    with_sasl(server, use)
    assert server.requests.count(ApiKey.SASL_HANDSHAKE) == 1


def test_a_renewal_that_fails_ends_the_connection() -> None:
    server = SaslServer()
    server.lifetime_ms = 1

    async def use(connection: Connection) -> None:
        server.password = "another"
        await asyncio.sleep(0.002)
        with pytest.raises(AuthenticationError, match="refuses user alice by SASL SCRAM-SHA-256"):
            await connection.send(LIST_GROUPS, {})
        assert not connection.is_open
        with pytest.raises(AuthenticationError):
            await connection.send(LIST_GROUPS, {})

    with_sasl(server, use)


def test_sessions_of_tidelogs_broker(tmp_path: Path) -> None:
    with secure_broker(tmp_path, {"connections.max.reauth.ms": "1300"}) as home:

        async def work() -> None:
            settings = settings_of(home.listener("SASL").port, "SASL_PLAINTEXT", **login("SCRAM-SHA-256"))
            connection = await open_connection(settings.bootstrap[0], settings)
            while not counts.successful_reauth:
                await connection.send(ApiKey.METADATA, {"topics": []})
                await asyncio.sleep(0.01)
            await connection.send(ApiKey.METADATA, {"topics": []})
            connection.close()

        counts: Any = home.listener("SASL").authentications
        run(work)
        assert counts.expired == counts.failed_reauth == 0
