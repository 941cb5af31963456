"""A session with a real ZooKeeper server: its requests, states, events, and connections that break."""

from __future__ import annotations

import asyncio
import itertools
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AsyncExitStack

import pytest

from real_kafka.zookeeper_cluster import ZooKeeperServer
from server.metadata.zookeeper.session_harness import HANG_S, Proxy, RecordedSession, until
from tidelog.model import ConfigError, ZnodeError, ZooKeeperError
from tidelog.server.metadata.zookeeper import session as session_module
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.first_znodes import make_first_znodes
from tidelog.server.metadata.zookeeper.operations import (
    MAX_COMMIT_BYTES,
    Check,
    ConnectionLostError,
    Create,
    Delete,
    Operation,
    ReadZnode,
    SessionExpiredError,
    SetData,
    ZnodeConflictError,
)
from tidelog.server.metadata.zookeeper.session import EventKind, SessionState, ZnodeEvent, ZooKeeperSession
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings

pytestmark = pytest.mark.kafka
CONNECTING, CONNECTED, DISCONNECTED, EXPIRED, _, CLOSED = SessionState
CREATED, DELETED, CHANGED = EventKind
_chroots = itertools.count()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as started:
        yield started


@pytest.fixture
def chroot() -> str:
    return f"/test/{next(_chroots)}"


def settings(address: str, session_timeout_ms: int = 30_000, timeout_ms: int = 60_000) -> ZooKeeperSettings:
    return ZooKeeperSettings(
        address=ZooKeeperAddress.parse(address), session_timeout_ms=session_timeout_ms, timeout_ms=timeout_ms
    )


def samples(session: ZooKeeperSession) -> dict[str, Mapping[str, float]]:
    return {sample.name.name: sample.values for sample in session.meters.samples()}


def measured(session: ZooKeeperSession) -> dict[str, float]:
    """Return the counts that are not 0 by the middle of their names: ``Expires`` for ``ZooKeeperExpiresPerSec``."""
    counts = {name[9:-6]: values["Count"] for name, values in samples(session).items() if name.endswith("PerSec")}
    return {name: count for name, count in counts.items() if count}


class TestRequests:
    def test_the_chroot_is_created_with_its_parents(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with RecordedSession(settings(server.address)) as root:
                assert await root.session.read([f"{chroot}/a"]) == [None]
                for _ in range(2):
                    async with RecordedSession(settings(f"{server.address}{chroot}/a/b")) as below:
                        assert await below.session.list_children(["/"]) == [()]
                assert await root.session.list_children([f"{chroot}/a"]) == [("b",)]

        asyncio.run(run())

    def test_values(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with RecordedSession(settings(server.address + chroot)) as recorded:
                session = recorded.session
                created = await session.commit(
                    [
                        Create("/topic", b"one"),
                        SetData("/topic", b"two", 0),
                        Create("/topic/live", is_ephemeral=True),
                        Create("/topic/change_", b"x", is_sequential=True),
                        Check("/topic", 1),
                    ]
                )
                assert created == ["/topic", None, "/topic/live", "/topic/change_0000000001", None]
                topic, live, missing = await session.read(["/topic", "/topic/live", "/nowhere"])
                assert topic is not None
                assert live is not None
                assert missing is None
                assert topic == ReadZnode(b"two", 1, topic.czxid, 0, 2, topic.created_ms)
                assert abs(topic.created_ms - time.time() * 1000) < HANG_S * 1000
                assert live == ReadZnode(b"", 0, topic.czxid, session.session_id, 0, topic.created_ms)
                assert await session.list_children(["/topic", "/nowhere"]) == [("change_0000000001", "live"), None]
                await session.sync()
                assert (
                    await session.commit([Delete("/topic/live"), Delete("/topic/change_0000000001", 0)]) == [None] * 2
                )
                assert await session.list_children(["/topic"]) == [()]
                assert await session.commit([]) == []

        asyncio.run(run())

    @pytest.mark.parametrize(
        ("operation", "reason"),
        [
            (Create("/x"), "NodeExistsError"),
            (Create("/missing/y"), "NoNodeError"),
            (SetData("/x", b"", 4), "BadVersionError"),
            (SetData("/missing", b"", 0), "NoNodeError"),
            (Delete("/x"), "NotEmptyError"),
            (Delete("/x/y", 3), "BadVersionError"),
            (Check("/x", 5), "BadVersionError"),
            (Check("/missing", 0), "NoNodeError"),
        ],
    )
    def test_a_conflict_changes_nothing(
        self, server: ZooKeeperServer, chroot: str, operation: Operation, reason: str
    ) -> None:
        async def run() -> None:
            async with RecordedSession(settings(server.address + chroot)) as recorded:
                session = recorded.session
                await session.commit([Create("/x", b"old"), Create("/x/y")])
                with pytest.raises(ZnodeConflictError, match=f"znode {operation.path} failed: {reason}") as raised:
                    await session.commit([Create("/before"), SetData("/x", b"new", 0), operation, Create("/after")])
                assert raised.value.operation == operation
                assert raised.value.reason == reason
                assert await session.list_children(["/"]) == [("x",)]
                (x,) = await session.read(["/x"])
                assert x is not None
                assert x.data == b"old"

        asyncio.run(run())

    def test_a_commit_that_is_too_large(self, server: ZooKeeperServer, chroot: str) -> None:
        """The largest commit that is sent is accepted."""

        async def run() -> None:
            async with RecordedSession(settings(server.address + chroot)) as recorded:
                small = [Create(f"/{number}", bytes(400)) for number in range(1_800)]
                await recorded.session.commit(small)
                largest = bytes(MAX_COMMIT_BYTES - 150)
                assert await recorded.session.commit([Create("/large", largest)]) == ["/large"]
                with pytest.raises(ZooKeeperError, match=r"a change of /too-large and 0 other znodes has 1,000,\d+ b"):
                    await recorded.session.commit([Create("/too-large", bytes(MAX_COMMIT_BYTES - 100))])
                assert recorded.session.state is CONNECTED

        asyncio.run(run())

    def test_a_refusal_that_is_no_conflict(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with RecordedSession(settings(server.address + chroot)) as recorded:
                await recorded.session.commit([Create("/live", is_ephemeral=True)])
                with pytest.raises(
                    ZooKeeperError, match=r"Create of znode /live/x failed \(NoChildrenForEph"
                ) as raised:
                    await recorded.session.commit([Create("/live/x")])
                assert not isinstance(raised.value, ZnodeConflictError)

        asyncio.run(run())

    def test_many_reads_are_pipelined_in_their_sequence(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with RecordedSession(settings(server.address + chroot)) as recorded:
                names = [f"/{number}" for number in range(1500)]
                await recorded.session.commit([Create(name, name.encode()) for name in names])
                found = await recorded.session.read([*names, "/missing", *reversed(names)])
                data = [None if one is None else one.data.decode() for one in found]
                assert data == [*names, None, *reversed(names)]

        asyncio.run(run())

    def test_too_many_children(self, server: ZooKeeperServer, chroot: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(session_module, "MAX_CHILDREN", 1)

        async def run() -> None:
            async with RecordedSession(settings(server.address + chroot)) as recorded:
                await recorded.session.commit([Create("/x"), Create("/x/1"), Create("/x/2")])
                with pytest.raises(ZnodeError, match="znode /x has 2 children, and at most 1 are read"):
                    await recorded.session.list_children(["/x"])

        asyncio.run(run())

    def test_the_first_znodes(self, server: ZooKeeperServer, chroot: str) -> None:
        """Brokers that start together make them, and agree on the id of their cluster."""

        async def run() -> None:
            async with AsyncExitStack() as opened:
                sessions = [
                    (await opened.enter_async_context(RecordedSession(settings(server.address + chroot)))).session
                    for _ in range(3)
                ]
                ids = await asyncio.gather(*(make_first_znodes(one, has_authorizer=True) for one in sessions))
                assert len(set(ids)) == 1
                assert await sessions[0].list_children(["/config"]) == [
                    ("brokers", "changes", "clients", "ips", "topics", "users")
                ]

        asyncio.run(run())


class TestEvents:
    def test_kinds_below_the_chroot(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with (
                RecordedSession(settings(server.address + chroot)) as watching,
                RecordedSession(settings(server.address + chroot)) as writing,
                RecordedSession(settings(f"{server.address}{chroot}-next")) as next_chroot,
            ):
                await watching.session.watch_all()
                await next_chroot.session.commit([Create("/hidden")])
                await writing.session.commit([SetData("/", b"root", -1), Create("/a"), Create("/a/b", b"1")])
                await writing.session.commit([SetData("/a/b", b"2", 0), Delete("/a/b"), Delete("/a")])
                await watching.session.sync()
                assert watching.events == [
                    ZnodeEvent(CHANGED, "/"),
                    ZnodeEvent(CREATED, "/a"),
                    ZnodeEvent(CREATED, "/a/b"),
                    ZnodeEvent(CHANGED, "/a/b"),
                    ZnodeEvent(DELETED, "/a/b"),
                    ZnodeEvent(DELETED, "/a"),
                ]
                assert writing.events == []

        asyncio.run(run())

    def test_without_a_chroot(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with RecordedSession(settings(server.address)) as recorded:
                await recorded.session.watch_all()
                async with RecordedSession(settings(server.address + chroot)):
                    pass
                await recorded.session.sync()
                assert ZnodeEvent(CREATED, chroot) in recorded.events

        asyncio.run(run())

    def test_events_and_responses_keep_the_sequence_of_the_server(self, server: ZooKeeperServer, chroot: str) -> None:
        """Exactly N events have arrived at the response with version N of a counter."""

        async def run() -> None:
            async with (
                RecordedSession(settings(server.address + chroot)) as reading,
                RecordedSession(settings(server.address + chroot)) as writing,
            ):
                await writing.session.commit([Create("/counter")])
                await reading.session.watch_all()
                changes = 600
                seen: list[tuple[int, int]] = []

                async def write() -> None:
                    for version in range(changes):
                        await writing.session.commit([SetData("/counter", b"", version)])

                resolve = session_module._resolve

                def resolve_and_note(future: asyncio.Future[ReadZnode], value: object) -> None:
                    if isinstance(value, ReadZnode):
                        seen.append((value.version, len(reading.events)))
                    resolve(future, value)

                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(session_module, "_resolve", resolve_and_note)
                    writes = asyncio.create_task(write())
                    while not writes.done():
                        await reading.session.read(["/counter"] * 40)
                    await writes
                assert len({version for version, _ in seen}) > 50
                assert [one for one in seen if one[0] != one[1]] == []

        asyncio.run(run())

    def test_a_server_before_3_6(self, server: ZooKeeperServer, chroot: str) -> None:
        """The server sees a request that it does not know, and responds like an older one to the watch."""

        async def run() -> None:
            async with Proxy.open(server.address) as proxy:
                proxy.request_types[106] = 999
                async with RecordedSession(settings(proxy.address + chroot)) as recorded:
                    with pytest.raises(ZooKeeperError, match=r"is older than 3\.6, and a broker needs 3\.6 or newer"):
                        await recorded.session.watch_all()

        asyncio.run(run())


class TestStates:
    def test_open_and_close(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            recorded = RecordedSession(settings(server.address + chroot))
            session = recorded.session
            assert session.state is CONNECTING
            assert session.session_id == 0
            with pytest.raises(ConnectionLostError, match="there is no connection"):
                await session.sync()
            await session.open()
            assert session.state is CONNECTED
            before = session.meters.latency.count
            await session.commit([Create("/live", is_ephemeral=True)])
            assert session.meters.latency.count == before + 1
            assert measured(session) == {"SyncConnects": 1}
            assert samples(session)["SessionState"]["Value"] == 1
            await asyncio.gather(session.close(), session.close())
            assert recorded.states == [CONNECTED, CLOSED]
            assert samples(session)["SessionState"]["Value"] == 0
            with pytest.raises(ConnectionLostError, match="there is no connection"):
                await session.read(["/"])
            await session.close()
            async with RecordedSession(settings(server.address + chroot)) as next_session:
                assert await next_session.session.read(["/live"]) == [None]

        asyncio.run(run())

    def test_requests_before_the_end_are_complete(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with RecordedSession(settings(server.address + chroot)) as recorded:
                read = asyncio.create_task(recorded.session.read(["/"] * 100))
                await asyncio.sleep(0)
                await recorded.session.close()
                assert len(await read) == 100

        asyncio.run(run())

    def test_a_reconnection_keeps_the_session(self, server: ZooKeeperServer, chroot: str) -> None:
        async def run() -> None:
            async with (
                Proxy.open(server.address) as proxy,
                RecordedSession(settings(proxy.address + chroot)) as recorded,
                RecordedSession(settings(server.address + chroot)) as other,
            ):
                session = recorded.session
                session_id = session.session_id
                await session.watch_all()
                await session.commit([Create("/live", is_ephemeral=True)])
                proxy.silence()
                outstanding = [asyncio.create_task(session.read(["/live"])) for _ in range(3)]
                await asyncio.sleep(0)
                proxy.cut()
                proxy.restore()
                results = await asyncio.gather(*outstanding, return_exceptions=True)
                assert {type(one) for one in results} == {ConnectionLostError}
                assert "the connection broke during a read of /live" in str(results[0])
                await recorded.until_state(CONNECTED, DISCONNECTED, CONNECTED)
                assert session.session_id == session_id
                (live,) = await session.read(["/live"])
                assert live is not None
                assert live.ephemeral_owner == session_id
                seen = len(recorded.events)
                await other.session.commit([SetData("/live", b"unseen", 0)])
                await session.sync()
                assert len(recorded.events) == seen  # the watch ended with its connection
                await session.watch_all()
                await other.session.commit([SetData("/live", b"seen", 1)])
                await session.sync()
                assert recorded.events[seen:] == [ZnodeEvent(CHANGED, "/live")]

        asyncio.run(run())

    def test_an_expired_session(self, server: ZooKeeperServer, chroot: str) -> None:
        """The connection is away for longer than the session."""

        async def run() -> None:
            async with (
                Proxy.open(server.address) as proxy,
                RecordedSession(settings(proxy.address + chroot, session_timeout_ms=4_000)) as recorded,
                RecordedSession(settings(server.address + chroot)) as other,
            ):
                session = recorded.session
                session_id = session.session_id
                await session.commit([Create("/live", is_ephemeral=True)])
                await other.session.watch_all()
                proxy.refuses = True
                proxy.cut()
                await recorded.until_state(CONNECTED, DISCONNECTED)
                with pytest.raises(ConnectionLostError):
                    await session.read(["/live"])
                await until(lambda: ZnodeEvent(DELETED, "/live") in other.events)
                in_expired: list[BaseException] = []
                record = session._on_state

                def try_in_expired(state: SessionState) -> None:
                    record(state)
                    if state is EXPIRED:
                        task = asyncio.ensure_future(session.commit([Create("/too-late")]))
                        task.add_done_callback(lambda done: in_expired.append(done.exception() or ZooKeeperError("")))

                session._on_state = try_in_expired
                proxy.restore()
                await recorded.until_state(CONNECTED, DISCONNECTED, EXPIRED, CONNECTING, CONNECTED)
                assert session.session_id != session_id
                await session.commit([Create("/live", is_ephemeral=True)])
                (live,) = await session.read(["/live"])
                assert live is not None
                assert live.ephemeral_owner == session.session_id
                assert measured(session) == {"SyncConnects": 2, "Disconnects": 1, "Expires": 1}
                assert len(in_expired) == 1
                assert isinstance(in_expired[0], SessionExpiredError | ConnectionLostError)
                assert await session.read(["/too-late"]) == [None]

        asyncio.run(run())

    def test_a_request_is_for_the_connection_that_the_loop_knows(self, server: ZooKeeperServer, chroot: str) -> None:
        """The client reconnects while the loop is busy. A commit of the loop before it knows is not sent."""

        async def run() -> None:
            async with (
                Proxy.open(server.address) as proxy,
                RecordedSession(settings(proxy.address + chroot)) as recorded,
            ):
                session = recorded.session
                client = session._client
                reports = client._reports
                assert isinstance(reports, session_module._Reports)
                states: list[Callable[[], None]] = []
                session._deliver = lambda callback, *values: states.append(lambda: callback(*values))  # type: ignore[method-assign]
                client._reports = reports._replace(deliver=session._deliver)
                proxy.cut()
                await until(lambda: len(states) >= 2)  # disconnected and connected again
                assert session.state is CONNECTED
                with pytest.raises(ConnectionLostError):
                    await session.commit([Create("/stale")])
                for tell in states:
                    tell()
                del session._deliver
                client._reports = reports
                assert recorded.states[-2:] == [DISCONNECTED, CONNECTED]
                assert await session.read(["/stale"]) == [None]

        asyncio.run(run())

    @pytest.mark.parametrize("is_busy", [False, True])
    def test_a_silent_server_is_noticed(self, server: ZooKeeperServer, chroot: str, is_busy: bool) -> None:
        """Also if the client sends requests all the time."""

        async def run() -> None:
            async with (
                Proxy.open(server.address) as proxy,
                RecordedSession(settings(proxy.address + chroot, session_timeout_ms=4_000)) as recorded,
            ):
                proxy.silence()
                tasks: list[asyncio.Task[list[ReadZnode | None]]] = []
                started = time.monotonic()
                while recorded.session.state is CONNECTED:
                    if is_busy:
                        tasks.append(asyncio.create_task(recorded.session.read(["/"])))
                    await asyncio.sleep(0.05)
                    assert time.monotonic() - started < HANG_S
                results = await asyncio.gather(*tasks, return_exceptions=True)
                assert {type(one) for one in results} <= {ConnectionLostError}
                proxy.restore()
                await recorded.until_state(CONNECTED)

        asyncio.run(run())

    def test_a_response_that_is_not_zookeepers(self, server: ZooKeeperServer, chroot: str) -> None:
        """The next connection follows."""

        async def run() -> None:
            async with (
                Proxy.open(server.address) as proxy,
                RecordedSession(settings(proxy.address + chroot)) as recorded,
            ):
                for junk in (
                    b"\x00\x00\x00\x10" + b"\xff" * 16,
                    b"\x00\x00\x00\x02ab",
                    b"\xff\xff\xff\xf0" + bytes(50),
                ):
                    seen = len(recorded.states)
                    proxy.silence()
                    outstanding = asyncio.create_task(recorded.session.read(["/"]))
                    await asyncio.sleep(0)
                    proxy.send_to_clients(junk)
                    with pytest.raises(ConnectionLostError):
                        await outstanding
                    proxy.restore()
                    await until(lambda seen=seen: recorded.states[seen:] == [DISCONNECTED, CONNECTED])  # type: ignore[misc]
                    assert len(await recorded.session.read(["/"])) == 1

        asyncio.run(run())

    def test_close_with_a_silent_server(self, server: ZooKeeperServer, chroot: str) -> None:
        """The client waits for a third of the session's timeout, and not until it notices the silence."""

        async def run() -> None:
            async with Proxy.open(server.address) as proxy:
                recorded = RecordedSession(settings(proxy.address + chroot, session_timeout_ms=40_000))
                await recorded.session.open()
                proxy.silence()
                started = time.monotonic()
                await asyncio.to_thread(recorded.session._client.end, 0.05)
                assert time.monotonic() - started < 12
                await recorded.session.close()
                assert recorded.states == [CONNECTED, DISCONNECTED, CLOSED]

        asyncio.run(run())


class TestOpen:
    def test_a_server_that_is_away(self) -> None:
        async def run() -> None:
            with socket.create_server(("127.0.0.1", 0)) as listening:
                address = f"127.0.0.1:{listening.getsockname()[1]}"
            recorded = RecordedSession(settings(address, timeout_ms=500))
            with pytest.raises(ZooKeeperError, match=rf"{address} did not accept a session within 0\.5 s: .*refused"):
                await recorded.session.open()
            assert recorded.states == [CLOSED]

        asyncio.run(run())

    def test_cancelled(self, server: ZooKeeperServer) -> None:
        async def run() -> None:
            async with Proxy.open(server.address) as proxy:
                proxy.refuses = True
                recorded = RecordedSession(settings(proxy.address))
                opening = asyncio.create_task(recorded.session.open())
                await asyncio.sleep(0.05)
                opening.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await opening
                assert recorded.session.state is CLOSED

        asyncio.run(run())

    def test_a_session_that_is_never_opened(self) -> None:
        async def run() -> None:
            recorded = RecordedSession(settings("127.0.0.1:1"))
            await recorded.session.close()
            assert recorded.states == [CLOSED]

        asyncio.run(run())

    def test_kazoo_is_named_if_it_is_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "kazoo.client", None)

        async def run() -> None:
            with pytest.raises(ConfigError, match=r"zookeeper.connect needs the library kazoo: pip install"):
                RecordedSession(settings("127.0.0.1:1"))

        asyncio.run(run())
