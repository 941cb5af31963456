"""A route: the connections of one client to one server through a `Link`, and the faults of each direction.

==============  ====================================================================================================
fault           effect until `heal`
==============  ====================================================================================================
disconnected    Connections are reset, and new ones are refused.
frozen          Connections stay open, and no byte passes. New connections hang. All bytes pass after the fault.
delayed         Each byte arrives later.
throttled       Few bytes a second pass on each connection.
lossy           Bytes are lost and sent again, as TCP does it: they arrive late, or the connection is reset.
half-open       The connections of now never pass a byte again, and neither end learns that the other one closed.
                New connections pass. `heal` does not help the old ones.
==============  ====================================================================================================

A direction has one fault at a time: a new one replaces it. Thread rule: the methods may be called from any thread; the
event loop of the `Network` does the work.
"""

from __future__ import annotations

import asyncio
import enum
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

_CHUNK = 1 << 16
_MOST_CHUNKS = 64
"""The chunks on their way in one direction of a connection. More stay with the sender."""
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""The value of SO_LINGER with which a close sends a reset instead of an end."""
_MOST_LOSSES = 5
"""A connection is reset after so many losses of the same bytes: they would arrive 6.2 seconds late."""

Connect = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class Way(enum.Enum):
    """A direction of a route."""

    REQUESTS = "from the client to the broker"
    RESPONSES = "from the broker to the client"


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """The fault of one direction. The default is none."""

    is_frozen: bool = False
    delay_s: float = 0.0
    bytes_per_s: float | None = None
    loss: float = 0.0
    """The probability that bytes are lost each time they are sent."""


_FINE = Weather()


class Route:
    """The connections and their faults."""

    def __init__(self, call: Callable[[Callable[[], None]], None]) -> None:
        """Create a route without connections. ``call`` runs a function on the event loop, and returns after it."""
        self.passed = dict.fromkeys(Way, 0)
        """The bytes that passed in each direction."""
        self.accepted = 0
        """The number of connections that reached the server."""
        self.losses = 0
        """The number of chunks that were lost, each as often as it was sent in vain."""
        self.retransmission_s = 0.2
        """The time until lost bytes are sent again. It doubles with each loss, as in Linux."""
        self._call = call
        self._weather = dict.fromkeys(Way, _FINE)
        self._flows = {way: asyncio.Event() for way in Way}
        self._is_disconnected = False
        self._connections: set[_Connection] = set()
        self._random = random.Random("losses")
        for flows in self._flows.values():
            flows.set()

    def disconnect(self) -> None:
        """Reset every connection, and refuse new ones until `heal`."""
        self._call(self._disconnect)

    def reset(self) -> None:
        """Reset every connection once. New ones are accepted."""
        self._call(self._reset)

    def forget(self) -> None:
        """Make every connection half-open, for ever. New ones are accepted."""
        self._call(self._forget)

    def freeze(self, *ways: Way) -> None:
        """Keep connections open and pass no byte in ``ways`` (both if none is named) until `heal`."""
        self._change(Weather(is_frozen=True), ways)

    def delay(self, seconds: float, *ways: Way) -> None:
        """Deliver each byte ``seconds`` later. The sequence stays."""
        self._change(Weather(delay_s=seconds), ways)

    def throttle(self, bytes_per_s: float, *ways: Way) -> None:
        """Pass at most that many bytes a second on each connection."""
        self._change(Weather(bytes_per_s=bytes_per_s), ways)

    def lose(self, probability: float, *ways: Way) -> None:
        """Lose bytes with that probability. They are sent again after 0.2 s, 0.4 s, and so on."""
        self._change(Weather(loss=probability), ways)

    def heal(self) -> None:
        """End every fault but that of half-open connections. A link heals its routes too."""
        self._call(self._heal)

    async def proxy(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter, connect: Connect) -> None:
        """Pass bytes between a client and the server until an end closes the connection, or the route breaks."""
        if self._is_disconnected:
            _reset(to_client)
            return
        connection = _Connection(to_client)
        self._connections.add(connection)  # before the handshake: a fault during it counts
        try:
            for flows in self._flows.values():
                await flows.wait()  # a handshake needs both directions
            try:
                server, to_server = await connect()
            except OSError:
                return  # the server does not run
            connection.add(to_server)
            self.accepted += 1
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(connection, client, to_server, Way.REQUESTS))
                both.create_task(self._pump(connection, server, to_client, Way.RESPONSES))
        except* _ClosedError:
            pass
        finally:
            self._connections.discard(connection)
            connection.reset()

    async def _pump(
        self, connection: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way
    ) -> None:
        on_their_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_CHUNKS)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._receive(reader, on_their_way, way))
            both.create_task(self._deliver(connection, writer, on_their_way, way))

    async def _receive(
        self, reader: asyncio.StreamReader, on_their_way: asyncio.Queue[tuple[float, bytes]], way: Way
    ) -> None:
        """Queue the chunks with the times when they are due. An empty one stands for the end and for a reset."""
        now, chunk = asyncio.get_running_loop().time, b"-"
        while chunk:
            try:
                chunk = await reader.read(_CHUNK)
            except OSError:
                chunk = b""
            await on_their_way.put((now() + self._weather[way].delay_s, chunk))

    async def _deliver(
        self,
        connection: _Connection,
        writer: asyncio.StreamWriter,
        on_their_way: asyncio.Queue[tuple[float, bytes]],
        way: Way,
    ) -> None:
        """Write the chunks when they are due, and while the direction is not frozen."""
        now, chunk = asyncio.get_running_loop().time, b"-"
        while chunk:
            due, chunk = await on_their_way.get()
            await asyncio.sleep(max(0.0, due - now()))
            await self._retransmit(way)
            await self._flows[way].wait()
            if connection.is_forgotten:
                continue
            if not chunk or writer.transport.is_closing():
                raise _ClosedError
            throttle = self._weather[way].bytes_per_s
            if throttle is not None:
                await asyncio.sleep(len(chunk) / throttle)
            self.passed[way] += len(chunk)
            try:
                writer.write(chunk)
                await writer.drain()
            except OSError:
                return  # the reader of the other direction sees the end too

    async def _retransmit(self, way: Way) -> None:
        """Wait as long as losses need. Raise _ClosedError after too many."""
        for losses in range(_MOST_LOSSES):
            if self._random.random() >= self._weather[way].loss:
                return
            self.losses += 1
            await asyncio.sleep(self.retransmission_s * 2**losses)
        raise _ClosedError

    def _disconnect(self) -> None:
        self._is_disconnected = True
        self._reset()

    def _reset(self) -> None:
        for connection in self._connections:
            connection.reset()

    def _forget(self) -> None:
        for connection in self._connections:
            connection.is_forgotten = True

    def _change(self, weather: Weather, ways: tuple[Way, ...]) -> None:
        self._call(lambda: self._set(dict.fromkeys(ways or Way, weather)))

    def _heal(self) -> None:
        self._is_disconnected = False
        self._set(dict.fromkeys(Way, _FINE))

    def _set(self, weather: dict[Way, Weather]) -> None:
        self._weather |= weather
        for way, flows in self._flows.items():
            if self._weather[way].is_frozen:
                flows.clear()
            else:
                flows.set()


class _Connection:
    """The client's end of a connection, and after ``add`` the server's end too."""

    def __init__(self, to_client: asyncio.StreamWriter) -> None:
        self.is_forgotten = False
        """True if it is half-open: the bytes and the close of an end do not reach the other one."""
        self._writers = [to_client]
        self._is_reset = False

    def add(self, to_server: asyncio.StreamWriter) -> None:
        """Add the server's end. It is reset at once if the client's end was reset before."""
        self._writers.append(to_server)
        if self._is_reset:
            self.reset()

    def reset(self) -> None:
        """Close the ends with a reset."""
        self._is_reset = True
        for writer in self._writers:
            _reset(writer)


def _reset(writer: asyncio.StreamWriter) -> None:
    if not writer.transport.is_closing():
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        writer.transport.abort()


class _ClosedError(Exception):
    """An end closed the connection, or the network reset it. The error ends the tasks of both directions."""
