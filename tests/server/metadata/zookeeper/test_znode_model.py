"""The model of ZooKeeper behaves as a real server does, and its faults are those of a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from real_kafka.zookeeper_cluster import ZooKeeperServer
from server.metadata.zookeeper.session_harness import HANG_S, RecordedSession
from server.metadata.zookeeper.znode_model import ModelSession, ModelZooKeeper
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.operations import (
    ANY_VERSION,
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

CREATED, DELETED, CHANGED = EventKind
PATHS = ("/a", "/b", "/a/x", "/a/y", "/b/x", "/a/x/z")


class Recorded:
    """A session of the model with its events and states."""

    def __init__(self, zookeeper: ModelZooKeeper) -> None:
        self.events: list[ZnodeEvent] = []
        self.states: list[SessionState] = []
        self.session = ModelSession(zookeeper, on_event=self.events.append, on_state=self.states.append)

    async def __aenter__(self) -> ModelSession:
        await self.session.open()
        return self.session

    async def __aexit__(self, *_error: object) -> None:
        await self.session.close()


def random_operation(random: Random) -> Operation:
    path, version = random.choice(PATHS), random.choice([ANY_VERSION, 0, 0, 1, 2])
    match random.randrange(8):
        case 0 | 1 | 2:
            return Create(path, random.randbytes(3))
        case 3:
            return Create(f"{path}/sequence_", is_sequential=True)
        case 4 | 5:
            return SetData(path, random.randbytes(3), version)
        case 6:
            return Check(path, version)
    return Delete(path, version)


async def outcome(session: ModelSession | ZooKeeperSession, operations: Sequence[Operation]) -> object:
    try:
        return await session.commit(operations)
    except ZnodeConflictError as error:
        return error.operation, error.reason


async def whole_tree(session: ModelSession | ZooKeeperSession) -> dict[str, ReadZnode]:
    found: dict[str, ReadZnode] = {}
    level = ["/a", "/b"]
    while level:
        read = dict(zip(level, await session.read(level), strict=True))
        found |= {path: one for path, one in read.items() if one is not None}
        names = zip(level, await session.list_children(level), strict=True)
        level = [f"{path}/{name}" for path, children in names for name in children or ()]
    return found


def ranked(tree: dict[str, ReadZnode]) -> dict[str, ReadZnode]:
    """Replace the ids of transactions by their ranks. The model has no clock."""
    ranks = {one: rank for rank, one in enumerate(sorted({found.czxid for found in tree.values()}))}
    return {path: found._replace(czxid=ranks[found.czxid], created_ms=0) for path, found in tree.items()}


@pytest.mark.kafka
def test_the_model_and_a_real_server_agree(tmp_path: Path) -> None:
    """Random commits have the same results, conflicts, events and znodes."""

    async def run(address: str) -> None:
        for seed in range(40):
            random = Random(seed)
            modelled = Recorded(ModelZooKeeper())
            settings = ZooKeeperSettings(
                address=ZooKeeperAddress.parse(f"{address}/{seed}"), session_timeout_ms=30_000, timeout_ms=60_000
            )
            async with RecordedSession(settings) as real, modelled as session:
                await real.session.watch_all()
                await session.watch_all()
                for _ in range(40):
                    operations = [random_operation(random) for _ in range(random.choice([1, 1, 2, 4]))]
                    assert await outcome(session, operations) == await outcome(real.session, operations)
                assert ranked(await whole_tree(session)) == ranked(await whole_tree(real.session))
                assert modelled.events == real.events

    with ZooKeeperServer(tmp_path) as server:
        asyncio.run(asyncio.wait_for(run(server.address), HANG_S))


class TestConnections:
    def test_two_sessions_see_the_same_events(self) -> None:
        async def run() -> None:
            zookeeper = ModelZooKeeper({"/a/b": b"old"})
            writing, watching = Recorded(zookeeper), Recorded(zookeeper)
            async with writing as writer, watching as watcher:
                await watcher.watch_all()
                await writer.commit([SetData("/a/b", b"new", 0), Create("/a/c")])
                await writer.commit([Delete("/a/c")])
                await watcher.sync()
                assert watching.events == [
                    ZnodeEvent(CHANGED, "/a/b"),
                    ZnodeEvent(CREATED, "/a/c"),
                    ZnodeEvent(DELETED, "/a/c"),
                ]
                assert writing.events == []

        asyncio.run(run())

    def test_a_server_that_lags_has_old_znodes_until_a_sync(self) -> None:
        async def run() -> None:
            zookeeper = ModelZooKeeper({"/a": b"old"})
            watching = Recorded(zookeeper)
            async with watching as watcher:
                await watcher.watch_all()
                watcher.is_lagging = True
                zookeeper.commit([SetData("/a", b"new", 0)])
                zookeeper.commit([SetData("/a", b"newer", 1)])
                assert [one and one.data for one in await watcher.read(["/a"])] == [b"old"]
                watcher.catch_up(1)
                assert [one and one.data for one in await watcher.read(["/a"])] == [b"new"]
                await watcher.sync()
                assert [one and one.data for one in await watcher.read(["/a"])] == [b"newer"]
                assert watching.events == [ZnodeEvent(CHANGED, "/a")] * 2

        asyncio.run(run())

    def test_the_outcome_of_a_commit_is_unknown_after_a_lost_connection(self) -> None:
        async def run() -> None:
            zookeeper = ModelZooKeeper()
            recorded = Recorded(zookeeper)
            async with recorded as session:
                await session.watch_all()
                commits = [asyncio.ensure_future(session.commit([Create(path)])) for path in ("/a", "/b")]
                await asyncio.sleep(0)
                session.cut(executed=1)
                results = await asyncio.gather(*commits, return_exceptions=True)
                assert list(map(type, results)) == [ConnectionLostError] * 2
                assert [zookeeper.read(path) is not None for path in ("/a", "/b")] == [True, False]
                with pytest.raises(ConnectionLostError):
                    await session.read(["/a"])
                session.reconnect()
                await session.commit([Create("/c", is_ephemeral=True)])
                assert (await session.read(["/c"]))[0] == zookeeper.read("/c")
                assert recorded.events == []  # the watch went with the connection
                assert recorded.states == [SessionState.CONNECTED, SessionState.DISCONNECTED, SessionState.CONNECTED]

        asyncio.run(run())

    def test_a_session_that_ends_takes_its_znodes_along(self) -> None:
        async def run() -> None:
            zookeeper = ModelZooKeeper({"/a": b""})
            ending, watching = Recorded(zookeeper), Recorded(zookeeper)
            async with ending as session, watching as watcher:
                await watcher.watch_all()
                await session.commit([Create("/a/live", is_ephemeral=True), Create("/a/stays")])
                first = session.session_id
                session.end()
                assert session.state is SessionState.DISCONNECTED
                session.reconnect()
                assert ending.states[-3:] == [SessionState.EXPIRED, SessionState.CONNECTING, SessionState.CONNECTED]
                assert session.session_id != first
                assert await session.list_children(["/a", "/b"]) == [("stays",), None]
                assert watching.events[-1] == ZnodeEvent(DELETED, "/a/live")

        asyncio.run(run())

    def test_a_closed_session(self) -> None:
        async def run() -> None:
            zookeeper = ModelZooKeeper()
            async with Recorded(zookeeper) as session:
                await session.commit([Create("/live", is_ephemeral=True)])
            assert zookeeper.read("/live") is None
            with pytest.raises(ConnectionLostError):
                await session.sync()

        asyncio.run(run())

    def test_an_ended_session_refuses_requests_while_it_reports_its_end(self) -> None:
        async def run() -> None:
            zookeeper = ModelZooKeeper()
            errors: list[BaseException] = []

            def report(state: SessionState) -> None:
                if state is SessionState.EXPIRED:
                    asking = session.sync()
                    try:
                        asking.send(None)
                    except SessionExpiredError as error:
                        errors.append(error)

            session = ModelSession(zookeeper, on_event=lambda _event: None, on_state=report)
            await session.open()
            session.end()
            session.reconnect()
            assert len(errors) == 1

        asyncio.run(run())
