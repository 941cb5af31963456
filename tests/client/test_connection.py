"""A connection against servers that behave, and against servers that do not."""

from __future__ import annotations

import asyncio
import gc
import struct
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from client.peer import LOOPS, Peer, PeerConnection, run, versions_of
from tidelog.client import (
    Address,
    BrokenResponseError,
    ClientClosedError,
    Connection,
    DisconnectedError,
    IdleConnectionError,
    RequestTimedOutError,
    UnsupportedVersionError,
    open_connection,
)
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.testing import Broker

LIST_GROUPS = ApiKey.LIST_GROUPS
EMPTY: dict[str, Any] = {"groups": []}
Use = Callable[[Connection, Peer], Awaitable[None]]


def after_versions(script: Callable[[PeerConnection], Awaitable[None]]) -> Callable[[PeerConnection], Awaitable[None]]:
    async def whole(connection: PeerConnection) -> None:
        await connection.tell_versions()
        await script(connection)

    return whole


def with_peer(script: Callable[[PeerConnection], Awaitable[None]], use: Use, **settings: Any) -> None:
    """Connect to a server that runs ``script`` after ApiVersions, and use the connection."""

    async def work() -> None:
        async with Peer(after_versions(script)) as peer:
            connection = await open_connection(peer.address, peer.settings(**settings))
            try:
                await use(connection, peer)
            finally:
                connection.close()

    run(work)


async def echo(connection: PeerConnection) -> None:
    await connection.serve({LIST_GROUPS: EMPTY, ApiKey.METADATA: {"brokers": [], "topics": []}})


@pytest.mark.parametrize("loop", LOOPS)
def test_requests_of_a_broker(loop: str) -> None:
    with Broker() as broker:
        broker.create_topic("flights", 3)
        host, port = broker.bootstrap_servers.split(":")

        async def work() -> None:
            address = Address(host, int(port))
            peer_settings = Peer(echo).settings(bootstrap=(address,))
            connection = await open_connection(address, peer_settings)
            responses = await asyncio.gather(*(connection.send(ApiKey.METADATA, {"topics": None}) for _ in range(20)))
            assert [[topic.name for topic in one.topics] for one in responses] == [["flights"]] * 20
            assert connection.versions.finalized_features["kraft.version"] == 1
            connection.close()

        run(work, loop)


def test_several_requests_are_in_flight_and_each_gets_its_response() -> None:
    async def script(peer: PeerConnection) -> None:
        requests = [await peer.request() for _ in range(5)]  # no response comes before the last request
        for number, request in enumerate(requests):
            await peer.respond(request, {"groups": [{"group_id": str(number)}]})

    async def use(connection: Connection, peer: Peer) -> None:
        responses = await asyncio.gather(*(connection.send(LIST_GROUPS, {}) for _ in range(5)))
        assert [one.groups[0].group_id for one in responses] == ["0", "1", "2", "3", "4"]
        assert connection.in_flight == 0

    with_peer(script, use)


def test_requests_keep_their_order_while_the_peer_does_not_read() -> None:
    """Requests fill the socket's buffers, later ones wait, and one comes just as the buffers have space again. It may
    not overtake the waiting ones."""
    reads, order = asyncio.Event(), list[str]()

    async def script(peer: PeerConnection) -> None:
        await reads.wait()
        while True:
            request = await peer.request()
            name = request.values.states_filter[0]
            order.append(name)
            await peer.respond(request, {"groups": [{"group_id": name}]})

    async def use(connection: Connection, peer: Peer) -> None:
        tasks: list[asyncio.Task[Any]] = []
        stream = connection._stream
        resume_writing = stream.resume_writing

        def send(size: int = 0) -> None:
            values = {"states_filter": [str(len(tasks)), "x" * size]}
            tasks.append(asyncio.get_running_loop().create_task(connection.send(LIST_GROUPS, values)))

        def send_at_once() -> None:
            resume_writing()
            send()

        stream.resume_writing = send_at_once  # type: ignore[method-assign]
        while stream.is_writable:
            send(size=30_000)
            await asyncio.sleep(0)
        written = len(tasks)
        for _ in range(5):
            send()
        await asyncio.sleep(0)
        assert connection.in_flight == written, "the others wait"
        reads.set()
        while len(tasks) == written + 5 or not all(task.done() for task in tasks):
            await asyncio.sleep(0.001)
        names = [str(number) for number in range(len(tasks))]
        assert order == names
        assert [(await task).groups[0].group_id for task in tasks] == names

    with_peer(script, use)


def test_the_version_is_the_highest_common_one_within_the_bounds() -> None:
    seen = []

    async def script(peer: PeerConnection) -> None:
        while True:
            request = await peer.request()
            seen.append(request.header.version)
            await peer.respond(request, EMPTY)

    async def work() -> None:
        async def old_broker(peer: PeerConnection) -> None:
            await peer.tell_versions({LIST_GROUPS: (1, 3)})
            await script(peer)

        async with Peer(old_broker) as peer:
            connection = await open_connection(peer.address, peer.settings())
            await connection.send(LIST_GROUPS, {})
            await connection.send(LIST_GROUPS, {}, at_most=2)
            await connection.send(LIST_GROUPS, {}, at_most=1, at_least=1)
            refused: list[tuple[dict[str, Any], str]] = [
                ({"at_least": 4}, "supports ListGroups in versions 1 to 3, but this client needs versions 4 to 5"),
                ({"at_most": 0}, "supports ListGroups in versions 1 to 3, but this client needs version 0"),
            ]
            for bounds, text in refused:
                with pytest.raises(UnsupportedVersionError, match=text):
                    await connection.send(LIST_GROUPS, {}, **bounds)
            with pytest.raises(UnsupportedVersionError, match="does not support Metadata; this client needs"):
                await connection.send(ApiKey.METADATA, {})
            assert connection.is_open
            connection.close()

    run(work)
    assert seen == [3, 2, 1]


@pytest.mark.parametrize("told", [{ApiKey.API_VERSIONS: (0, 3)}, {ApiKey.API_VERSIONS: (0, 2)}, {}], ids=repr)
def test_a_broker_that_does_not_know_the_version_of_api_versions(told: dict[ApiKey, tuple[int, int]]) -> None:
    versions = []

    async def old_broker(peer: PeerConnection) -> None:
        request = await peer.request()
        versions.append(request.header.version)
        body = struct.pack(">hi", 35, len(told)) + b"".join(struct.pack(">hhh", api, *one) for api, one in told.items())
        head = struct.pack(">i", request.header.correlation_id)
        await peer.send(struct.pack(">i", len(head + body)) + head + body)
        request = await peer.request()
        versions.append(request.header.version)
        await peer.respond(request, versions_of())
        await peer.until_closed()

    async def work() -> None:
        async with Peer(old_broker) as peer:
            connection = await open_connection(peer.address, peer.settings())
            assert connection.versions.supports(ApiKey.METADATA)
            connection.close()

    run(work)
    assert versions == [VERSIONS[ApiKey.API_VERSIONS].latest, told.get(ApiKey.API_VERSIONS, (0, 0))[1]]


# --- timeouts, cancellation, close ---


def test_a_request_without_a_response_times_out_and_ends_the_connection() -> None:
    async def script(peer: PeerConnection) -> None:
        await peer.until_closed()

    async def use(connection: Connection, peer: Peer) -> None:
        slow = asyncio.ensure_future(connection.send(LIST_GROUPS, {}, timeout_ms=50))
        other = asyncio.ensure_future(connection.send(ApiKey.METADATA, {}))
        with pytest.raises(
            RequestTimedOutError, match=r"server 127.0.0.1:\d+ has not responded to ListGroups within 50"
        ):
            await slow
        with pytest.raises(DisconnectedError, match=r"Metadata has no response: .* ListGroups within 50 ms"):
            await other
        assert not connection.is_open
        with pytest.raises(DisconnectedError, match="ListGroups within 50 ms"):
            await connection.send(LIST_GROUPS, {})

    with_peer(script, use)


def test_a_caller_that_is_cancelled_leaves_the_others_their_responses() -> None:
    release = asyncio.Event()

    async def script(peer: PeerConnection) -> None:
        requests = [await peer.request() for _ in range(2)]
        await release.wait()
        for number, request in enumerate(requests):
            await peer.respond(request, {"groups": [{"group_id": str(number)}]})
        await echo(peer)

    async def use(connection: Connection, peer: Peer) -> None:
        first, second = (asyncio.ensure_future(connection.send(LIST_GROUPS, {})) for _ in range(2))
        await until(lambda: connection.in_flight == 2)
        first.cancel()
        await asyncio.wait([first])
        release.set()
        assert (await second).groups[0].group_id == "1"
        assert first.cancelled()
        await connection.send(LIST_GROUPS, {})

    with_peer(script, use)


def test_close_fails_the_pending_requests_with_a_clear_error() -> None:
    async def use(connection: Connection, peer: Peer) -> None:
        pending = [asyncio.ensure_future(connection.send(LIST_GROUPS, {})) for _ in range(3)]
        await until(lambda: connection.in_flight == 3)
        connection.close()
        for one in await asyncio.gather(*pending, return_exceptions=True):
            assert isinstance(one, ClientClosedError)
            assert "ListGroups has no response: the connection to server 127.0.0.1" in str(one)
        connection.close()
        with pytest.raises(ClientClosedError):
            await connection.send(LIST_GROUPS, {})

    with_peer(PeerConnection.until_closed, use)


def test_an_idle_connection_is_closed_but_not_one_with_a_pending_request() -> None:
    release = asyncio.Event()

    async def script(peer: PeerConnection) -> None:
        request = await peer.request()
        await release.wait()
        await peer.respond(request, EMPTY)
        await peer.until_closed()

    async def use(connection: Connection, peer: Peer) -> None:
        loop = asyncio.get_running_loop()
        slow = asyncio.ensure_future(connection.send(LIST_GROUPS, {}))
        loop.call_later(0.2, release.set)
        await slow
        begin = loop.time()
        await until(lambda: not connection.is_open)
        assert loop.time() - begin >= 0.04
        with pytest.raises(IdleConnectionError, match="was closed, because it was idle"):
            await connection.send(LIST_GROUPS, {})

    with_peer(script, use, connections_max_idle_ms=50)


# --- throttling (KIP-219) ---


def test_a_throttled_client_waits_before_its_next_request() -> None:
    times = []

    async def script(peer: PeerConnection) -> None:
        while True:
            request = await peer.request()
            times.append(asyncio.get_running_loop().time())
            await peer.respond(request, {**EMPTY, "throttle_time": 100 if len(times) == 1 else 0})

    async def use(connection: Connection, peer: Peer) -> None:
        response = await connection.send(LIST_GROUPS, {})
        assert response.throttle_time == 100
        assert 0 < connection.throttled_ms <= 100
        await asyncio.gather(*(connection.send(LIST_GROUPS, {}) for _ in range(3)))
        assert times[1] - times[0] >= 0.099
        assert connection.throttled_ms == 0

    with_peer(script, use)


def test_an_endless_throttle_is_a_timeout_and_no_hang() -> None:
    async def script(peer: PeerConnection) -> None:
        request = await peer.request()
        await peer.respond(request, {**EMPTY, "throttle_time": 2**31 - 1})
        await peer.until_closed()

    async def use(connection: Connection, peer: Peer) -> None:
        await connection.send(LIST_GROUPS, {})
        with pytest.raises(
            RequestTimedOutError, match=r"could not be sent .* because the broker throttles this client"
        ):
            await connection.send(LIST_GROUPS, {}, timeout_ms=30)
        waiting = asyncio.ensure_future(connection.send(LIST_GROUPS, {}))
        await asyncio.sleep(0)
        connection.close()
        with pytest.raises(ClientClosedError):
            await waiting

    with_peer(script, use)


# --- servers that break the protocol ---


def broken_by(reply: Callable[[Any], bytes], *, valid: int = 0) -> str:
    """Return the message of the error when a server sends this instead of a response. ``valid`` responses precede the
    error."""
    texts = []

    async def script(peer: PeerConnection) -> None:
        request = await peer.request()
        await peer.send(reply(request))
        await peer.until_closed()

    async def use(connection: Connection, peer: Peer) -> None:
        pending = [asyncio.ensure_future(connection.send(LIST_GROUPS, {})) for _ in range(2)]
        for number, one in enumerate(await asyncio.gather(*pending, return_exceptions=True)):
            assert isinstance(one, BrokenResponseError) == (number >= valid), one
            texts.append(str(one))
        assert not connection.is_open

    with_peer(script, use)
    return texts[-1]


def test_a_response_with_an_unknown_correlation_id() -> None:
    text = broken_by(lambda request: request.response(EMPTY, correlation_id=77))
    assert "has the correlation id 77, but the oldest pending request, ListGroups version 5, has 2" in text
    assert "breaks Kafka's protocol" in text


def test_a_response_to_the_second_request_before_the_first() -> None:
    assert "correlation id 3" in broken_by(lambda request: request.response(EMPTY, correlation_id=3))


def test_a_response_that_comes_twice() -> None:
    assert "correlation id 2" in broken_by(lambda request: request.response(EMPTY) * 2, valid=1)


def test_bytes_that_are_no_response() -> None:
    def damaged(request: Any) -> bytes:
        whole = request.response({"groups": [{"group_id": "g"}]})
        return bytes(struct.pack(">i", len(whole) - 8) + whole[4:-4])

    assert "not a valid response of LIST_GROUPS version 5" in broken_by(damaged)


def test_an_array_that_cannot_fit_into_the_response() -> None:
    """kio would allocate memory for all items before it reads the first."""

    def damaged(request: Any) -> bytes:
        body = bytes(6) + b"\xfe\xff\xff\xff\x0f" + bytes(20)
        head = struct.pack(">i", request.header.correlation_id) + b"\0"
        return struct.pack(">i", len(head + body)) + head + body

    assert "an array announces 4294967293 items, but only 20 bytes are left" in broken_by(damaged)


@pytest.mark.parametrize(
    ("sent", "text"),
    [
        (struct.pack(">i", -1), "announces -1 bytes"),
        (struct.pack(">i", 3), "announces 3 bytes"),
        (struct.pack(">i", 2**31 - 1), "announces 2147483647 bytes, but receive.message.max.bytes is 100000000"),
        (b"HTTP/1.1 400 Bad Request\r\n", "announces 1213486160 bytes"),
        (bytes.fromhex("15030300020246"), r"a TLS alert: the port needs TLS (security.protocol)"),
    ],
    ids=["negative", "small", "huge", "http", "tls"],
)
def test_lengths_that_no_response_has(sent: bytes, text: str) -> None:
    assert text in broken_by(lambda _: sent)


def test_a_response_without_a_request() -> None:
    async def script(peer: PeerConnection) -> None:
        await peer.send(struct.pack(">ii", 4, 0))
        await peer.until_closed()

    async def use(connection: Connection, peer: Peer) -> None:
        await until(lambda: not connection.is_open)
        with pytest.raises(BrokenResponseError, match="although no request is pending"):
            await connection.send(LIST_GROUPS, {})

    with_peer(script, use)


def test_an_announced_size_takes_no_memory() -> None:
    """100 MB are announced by each of twenty servers, and one byte of it is sent."""

    async def script(peer: PeerConnection) -> None:
        await peer.request()
        await peer.send(struct.pack(">i", 100_000_000) + b"\0")
        await peer.until_closed()

    async def work() -> None:
        async with Peer(after_versions(script)) as peer:
            connections = [await open_connection(peer.address, peer.settings()) for _ in range(20)]
            before = resident_bytes()
            pending = [asyncio.ensure_future(one.send(LIST_GROUPS, {})) for one in connections]
            await until(lambda: all(not one._stream.frames.is_between_frames for one in connections))
            assert resident_bytes() - before < 100_000_000
            for one in connections:
                one.close()
            await asyncio.gather(*pending, return_exceptions=True)

    gc.collect()
    run(work)


def test_a_server_that_closes_in_the_midst_of_a_response() -> None:
    async def script(peer: PeerConnection) -> None:
        request = await peer.request()
        await peer.send(request.response(EMPTY)[:-3])

    async def use(connection: Connection, peer: Peer) -> None:
        with pytest.raises(
            DisconnectedError, match=r"ListGroups has no response: .* has closed the connection"
        ) as caught:
            await connection.send(LIST_GROUPS, {})
        assert not isinstance(caught.value, BrokenResponseError)

    with_peer(script, use)


def test_a_response_byte_by_byte_and_large_ones_in_pieces() -> None:
    groups = [{"group_id": "g" * 1000} for _ in range(300)]  # 300 KB: more than the scratch buffer

    async def script(peer: PeerConnection) -> None:
        request = await peer.request()
        for byte in request.response({"groups": [{"group_id": "small"}]}):
            await peer.send(bytes([byte]))
            await asyncio.sleep(0)
        first, second, third = [await peer.request() for _ in range(3)]
        data = first.response({"groups": groups}) + second.response(EMPTY) + third.response({"groups": groups})
        for at in range(0, len(data), 70_001):
            await peer.send(data[at : at + 70_001])
            await asyncio.sleep(0)

    async def use(connection: Connection, peer: Peer) -> None:
        assert (await connection.send(LIST_GROUPS, {})).groups[0].group_id == "small"
        one, two, three = await asyncio.gather(*(connection.send(LIST_GROUPS, {}) for _ in range(3)))
        assert len(one.groups) == len(three.groups) == 300
        assert two.groups == ()

    with_peer(script, use)


# --- the set-up ---


def failed_setup(script: Callable[[PeerConnection], Awaitable[None]], **settings: Any) -> Exception:
    caught: list[Exception] = []

    async def work() -> None:
        async with Peer(script) as peer:
            try:
                await open_connection(peer.address, peer.settings(**settings))
            except Exception as error:
                caught.append(error)

    run(work)
    return caught[0]


def test_a_server_that_accepts_and_never_responds() -> None:
    error = failed_setup(PeerConnection.until_closed, connection_setup_timeout_ms=50)
    assert isinstance(error, DisconnectedError)
    assert "127.0.0.1 was not ready within 50 ms" in str(error)


def test_a_server_that_closes_at_once() -> None:
    async def script(peer: PeerConnection) -> None:
        peer.close()

    error = failed_setup(script)
    assert isinstance(error, DisconnectedError)
    assert "cannot connect to server 127.0.0.1" in str(error)


def test_a_server_that_is_no_broker() -> None:
    async def script(peer: PeerConnection) -> None:
        await peer.send(b"SSH-2.0-OpenSSH_9.2\r\n")
        await peer.until_closed()

    error = failed_setup(script)
    assert "breaks Kafka's protocol" in str(error)


def test_nobody_listens() -> None:
    async def work() -> None:
        async with Peer(echo) as peer:
            address, settings = peer.address, peer.settings()
        with pytest.raises(DisconnectedError, match=r"cannot connect to broker 3 at 127.0.0.1:\d+: 127.0.0.1: "):
            await open_connection(address, settings, node_id=3)

    run(work)


def test_a_name_that_does_not_exist() -> None:
    async def work() -> None:
        with pytest.raises(DisconnectedError, match=r"cannot connect to server no.such.name.invalid:9092: the name is"):
            await open_connection(Address("no.such.name.invalid", 9092), Peer(echo).settings())

    run(work)


async def until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.001)


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
