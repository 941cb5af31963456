"""Sessions with a real ZooKeeper server that has TLS and SASL: users, refusals, and the ACLs of new znodes."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from real_kafka.zookeeper_cluster import ZooKeeperServer
from server.metadata.zookeeper.session_harness import Proxy, RecordedSession
from server.security.certificates import authority, client_identity, server_identity
from tidelog.model import ZooKeeperError
from tidelog.server.metadata.zookeeper.connection import connection_settings
from tidelog.server.metadata.zookeeper.digest_md5 import DigestMd5
from tidelog.server.metadata.zookeeper.operations import Create, SetData
from tidelog.server.metadata.zookeeper.session import SessionState

pytestmark = pytest.mark.kafka
_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule required"
_SASL_REQUEST = 102
_chroots = itertools.count()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("secrets")
    texts = {
        "server.pem": server_identity().key_pem() + server_identity().chain_pem,
        "client.pem": client_identity().key_pem() + client_identity().chain_pem,
        "trusted.pem": authority().pem,
        "jaas.conf": f'Server {{ {_MODULE} user_kafka="the password" user_müller="pässword Ω"; }};',
    }
    for name, text in texts.items():
        (directory / name).write_text(text)
    return directory


@pytest.fixture(scope="module")
def server(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    tls = {
        "ssl.keyStore.location": str(files / "server.pem"),
        "ssl.trustStore.location": str(files / "trusted.pem"),
        "ssl.clientAuth": "need",
        "authProvider.sasl": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
    }
    with pytest.MonkeyPatch.context() as patch:
        options = f"-Djava.security.auth.login.config={files / 'jaas.conf'} -Dfile.encoding=UTF-8"
        patch.setenv("JAVA_TOOL_OPTIONS", options)
        with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper"), tls=tls) as started:
            yield started


@pytest.fixture
def chroot() -> str:
    return f"/secure-{next(_chroots)}"


def user(name: str = "kafka", password: str = "the password") -> dict[str, str]:
    return {
        "zookeeper.sasl.jaas.config": f'{_MODULE} username="{name}" password="{password}";',
        "zookeeper.connection.timeout.ms": "60000",
    }


def session(address: str, properties: Mapping[str, str]) -> RecordedSession:
    return RecordedSession(connection_settings(address, properties))


class TestTls:
    def test_a_client_with_a_certificate(self, server: ZooKeeperServer, files: Path, chroot: str) -> None:
        properties = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(files / "trusted.pem"),
            "zookeeper.ssl.keystore.location": str(files / "client.pem"),
        }

        async def run() -> None:
            async with session(server.tls_address + chroot, properties) as recorded:
                await recorded.session.watch_all()
                await recorded.session.commit([Create(f"/{number}", bytes(5_000)) for number in range(100)])
                found = await recorded.session.read([f"/{number}" for number in range(100)])
                assert all(one is not None and len(one.data) == 5_000 for one in found)
                assert len(recorded.events) == 100

        asyncio.run(run())

    def test_the_reason_of_a_refusal(self, server: ZooKeeperServer, files: Path, chroot: str) -> None:
        properties = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(files / "client.pem"),  # another authority
            "zookeeper.connection.timeout.ms": "1500",
        }

        async def run() -> None:
            recorded = session(server.tls_address + chroot, properties)
            with pytest.raises(ZooKeeperError, match=r"client port with TLS\? \(the last attempt: "):
                await recorded.session.open()

        asyncio.run(run())


class TestUsers:
    @pytest.mark.parametrize(("name", "password"), [("kafka", "the password"), ("müller", "pässword Ω")])
    def test_a_user(self, server: ZooKeeperServer, chroot: str, name: str, password: str) -> None:
        async def run() -> None:
            async with session(server.address + chroot, user(name, password)) as recorded:
                await recorded.session.watch_all()
                await recorded.session.commit([Create("/x")])
                assert recorded.states == [SessionState.CONNECTED]
                samples = {sample.name.name: sample.values for sample in recorded.session.meters.samples()}
                assert samples["ZooKeeperSaslAuthenticationsPerSec"]["Count"] == 1

        asyncio.run(run())

    @pytest.mark.parametrize(("name", "password"), [("kafka", "the wrong one"), ("nobody", "no password")])
    def test_a_wrong_password(self, server: ZooKeeperServer, chroot: str, name: str, password: str) -> None:
        """The error comes at once, and no connection is reported before it."""

        async def run() -> None:
            recorded = session(server.address + chroot, user(name, password))
            with pytest.raises(
                ZooKeeperError, match=r"does not authenticate the user of zookeeper\.sasl\.jaas\.config: the server ref"
            ) as raised:
                await recorded.session.open()
            assert password not in str(raised.value)
            assert recorded.states[0] is SessionState.AUTH_FAILED
            assert recorded.states[-1] is SessionState.CLOSED

        asyncio.run(run())

    def test_a_server_that_does_not_know_the_password(
        self, server: ZooKeeperServer, chroot: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        respond = DigestMd5.respond

        def expect_another_proof(exchange: DigestMd5, challenge: bytes) -> bytes:
            response = respond(exchange, challenge)
            exchange._expected = "0" * 32
            return response

        monkeypatch.setattr(DigestMd5, "respond", expect_another_proof)

        async def run() -> None:
            with pytest.raises(ZooKeeperError, match=r"jaas\.config: the server does not know the password"):
                await session(server.address + chroot, user()).session.open()

        asyncio.run(run())

    def test_a_refusal_in_the_middle_is_tried_again(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with (
                Proxy.open(server.address) as proxy,
                session(proxy.address + chroot, user()) as recorded,
            ):
                session_id = recorded.session.session_id
                proxy.request_types[_SASL_REQUEST] = 999
                proxy.cut()
                await recorded.until_state(SessionState.DISCONNECTED, SessionState.AUTH_FAILED)
                proxy.request_types.clear()
                await recorded.until_state(SessionState.CONNECTING, SessionState.CONNECTED)
                assert recorded.session.session_id != session_id
                assert await recorded.session.list_children(["/"]) == [()]

        asyncio.run(run())

    def test_a_server_that_ends_in_the_middle_keeps_the_session(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with (
                Proxy.open(server.address) as proxy,
                session(proxy.address + chroot, user()) as recorded,
            ):
                session_id = recorded.session.session_id
                proxy.cut_types.add(_SASL_REQUEST)
                proxy.cut()
                await recorded.until_state(SessionState.DISCONNECTED)
                await proxy.until_cut(2)
                proxy.cut_types.clear()
                await recorded.until_state(SessionState.DISCONNECTED, SessionState.CONNECTED)
                assert recorded.session.session_id == session_id

        asyncio.run(run())


class TestAcls:
    def test_new_znodes_belong_to_the_user(self, server: ZooKeeperServer, chroot: str) -> None:
        """Everybody reads all but passwords. Old consumers may write."""
        secure = {**user(), "zookeeper.set.acl": "true"}

        async def run() -> None:
            async with (
                session(server.address + chroot, secure) as owner,
                session(server.address + chroot, {}) as other,
                session(server.address + chroot, user("müller", "pässword Ω")) as another,
            ):
                names = ("/brokers", "/config", "/config/users", "/config/users/alice", "/config/brokers", "/consumers")
                await owner.session.commit([Create(name) for name in names])
                for stranger in (other.session, another.session):
                    assert len(await stranger.read(["/", "/brokers", "/config"])) == 3
                    for hidden in ("/config/users", "/config/users/alice", "/config/brokers"):
                        with pytest.raises(ZooKeeperError, match=f"does not allow a read of {hidden}: the ACL"):
                            await stranger.read([hidden])
                    with pytest.raises(ZooKeeperError, match="does not allow SetData of znode /brokers: the ACL"):
                        await stranger.commit([SetData("/brokers", b"", 0)])
                    with pytest.raises(ZooKeeperError, match="does not allow Create of znode /x"):
                        await stranger.commit([Create("/x")])
                    await stranger.commit([SetData("/consumers", b"", -1)])
                await owner.session.commit([SetData("/config/users/alice", b"x", 0)])

        asyncio.run(run())
        everybody, creator = READ_ACL_UNSAFE[0], ("sasl", "kafka")
        client = KazooClient(server.address)
        client.start()
        try:
            acls, _ = client.get_acls(chroot)
        finally:
            client.stop()
            client.close()
        assert everybody in acls
        assert [(acl.perms, tuple(acl.id)) for acl in acls if acl != everybody] == [(CREATOR_ALL_ACL[0].perms, creator)]

    def test_without_the_setting_they_are_open(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with session(server.address + chroot, user()):
                pass

        asyncio.run(run())
        client = KazooClient(server.address)
        client.start()
        try:
            assert client.get_acls(chroot)[0] == OPEN_ACL_UNSAFE
        finally:
            client.stop()
            client.close()
