"""The connection to a broker is opened again after its back-off, and the wait grows with each failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from client.peer import Peer, PeerConnection, run
from tidelog.client import Backoff, ClientClosedError, DisconnectedError
from tidelog.client.cluster.node_link import NodeLink
from tidelog.protocol.api_key import ApiKey


def test_the_wait_doubles_up_to_its_maximum() -> None:
    exact = Backoff(initial_ms=50, max_ms=1000, uniform=lambda low, high: 1.0)
    assert [exact.delay_ms(failures) for failures in range(8)] == [0, 50, 100, 200, 400, 800, 1000, 1000]
    assert exact.delay_ms(10**9) == 1000
    assert Backoff(initial_ms=50, max_ms=1000, uniform=lambda low, high: low).delay_ms(2) == 80
    assert Backoff(initial_ms=50, max_ms=1000, uniform=lambda low, high: high).delay_ms(2) == 120
    assert Backoff(initial_ms=50, max_ms=1000, uniform=lambda low, high: high).delay_ms(6) == 1000


def with_link(
    script: Callable[[PeerConnection], Awaitable[None]], use: Callable[[NodeLink, Peer], Awaitable[None]], **times: Any
) -> None:
    async def work() -> None:
        async with Peer(script) as peer:
            link = NodeLink(peer.address, peer.settings(**times), 1)
            try:
                await use(link, peer)
            finally:
                link.close()

    run(work)


async def serve(peer: PeerConnection) -> None:
    await peer.tell_versions()
    await peer.serve({ApiKey.LIST_GROUPS: {"groups": []}})


def test_callers_share_a_connection_and_an_attempt() -> None:
    async def use(link: NodeLink, peer: Peer) -> None:
        first = asyncio.ensure_future(link.connection())
        others = [asyncio.ensure_future(link.connection()) for _ in range(5)]
        await asyncio.sleep(0)
        first.cancel()
        connections = await asyncio.gather(*others)
        assert len(set(map(id, connections))) == 1
        assert await link.connection() is connections[0]
        assert peer.accepted == 1
        assert link.is_ready

    with_link(serve, use)


def test_each_failed_attempt_lengthens_the_wait() -> None:
    async def refuse(peer: PeerConnection) -> None:
        peer.close()

    async def use(link: NodeLink, peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        begin = loop.time()
        for failures in range(1, 4):
            with pytest.raises(DisconnectedError):
                await link.connection()
            assert link.failures == failures
        # Two waits lie between three attempts: 40 ms and its double, each shortened by at most a fifth.
        assert loop.time() - begin >= 0.8 * (0.04 + 0.08)
        peer.script = serve
        await link.connection()
        assert link.failures == 0

    with_link(refuse, use, reconnect_backoff_ms=40, reconnect_backoff_max_ms=1000)


def test_a_lost_connection_waits_but_an_idle_one_does_not() -> None:
    async def use(link: NodeLink, peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        for is_idle in (True, False):
            connection = await link.connection()
            begin = loop.time()
            if not is_idle:
                peer.drop()
            while connection.is_open:
                await asyncio.sleep(0.001)
            assert link.failures == (0 if is_idle else 1)
            await link.connection()
            assert (loop.time() - begin >= 0.8) is not is_idle

    with_link(serve, use, connections_max_idle_ms=30, reconnect_backoff_ms=1000)


def test_close_ends_an_attempt_that_waits() -> None:
    async def use(link: NodeLink, peer: Peer) -> None:
        waiting = asyncio.ensure_future(link.connection())
        while not peer.accepted:
            await asyncio.sleep(0.001)
        link.close()
        with pytest.raises(ClientClosedError):
            await waiting
        with pytest.raises(ClientClosedError):
            await link.connection()

    with_link(PeerConnection.until_closed, use)


def test_the_setup_timeout_grows() -> None:
    async def use(link: NodeLink, peer: Peer) -> None:
        limits = []
        for _ in range(4):
            with pytest.raises(DisconnectedError, match="was not ready within") as caught:
                await link.connection()
            limits.append(int(caught.value.message.split("within ")[1].split()[0]))
        for limit, expected in zip(limits, [20, 40, 60, 60], strict=True):
            assert 0.8 * expected <= limit <= min(1.2 * expected, 60)

    times = {"connection_setup_timeout_ms": 20, "connection_setup_timeout_max_ms": 60}
    with_link(PeerConnection.until_closed, use, **times, reconnect_backoff_ms=1, reconnect_backoff_max_ms=1)
