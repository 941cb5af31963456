"""A line between clients and a broker that tests can break, freeze, delay and throttle, each direction by itself.

A link is a TCP proxy on a port of 127.0.0.1. The broker advertises that port, so every client goes through the link.
All links of a cluster run on the event loop of one ``Network`` thread; the methods may be called from any thread.
"""

from __future__ import annotations

import asyncio
import enum
import socket
import struct
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import TypeVar

_HOST = "127.0.0.1"
_CHUNK = 1 << 16
_MOST_CHUNKS = 64
"""The chunks on their way in one direction of a connection. More stay with the sender."""
_PATIENCE_S = 30
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
"""The value of SO_LINGER with which a close sends a reset instead of an end."""
_Result = TypeVar("_Result")


class Way(enum.Enum):
    """A direction of a link."""

    REQUESTS = "from the client to the broker"
    RESPONSES = "from the broker to the client"


class _Weather:
    """The state of one direction: frozen or not, the delay, and the throttle. It belongs to the event loop."""

    def __init__(self) -> None:
        self.delay_s = 0.0
        self.bytes_per_s: float | None = None
        self.flows = asyncio.Event()
        self.flows.set()

    def clear(self) -> None:
        self.delay_s, self.bytes_per_s = 0.0, None
        self.flows.set()


class Link:
    """The proxy on ``port`` for the broker on ``target``. Made by `Network.link`."""

    def __init__(self, network: Network, port: int, target: int) -> None:
        self.port = port
        self.target = target
        self.passed = dict.fromkeys(Way, 0)
        """The bytes that passed in each direction."""
        self.accepted = 0
        """The number of connections that reached the broker."""
        self._network = network
        self._weather = {way: _Weather() for way in Way}
        self._is_disconnected = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._connections: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return f"{_HOST}:{self.port}"

    def disconnect(self) -> None:
        """Reset every connection, and refuse new ones until `heal`."""
        self._network.run(self._disconnect())

    def reset(self) -> None:
        """Reset every connection once. New ones are accepted."""
        self._network.run(self._reset())

    def freeze(self, *ways: Way) -> None:
        """Keep connections open and pass no byte in ``ways`` (both if none is named) until `heal`."""
        self._network.run(self._change(ways, frozen=True))

    def delay(self, seconds: float, *ways: Way) -> None:
        """Deliver each byte ``seconds`` later. The sequence stays."""
        self._network.run(self._change(ways, delay_s=seconds))

    def throttle(self, bytes_per_s: float, *ways: Way) -> None:
        """Pass at most that many bytes a second on each connection."""
        self._network.run(self._change(ways, bytes_per_s=bytes_per_s))

    def heal(self) -> None:
        """End every fault."""
        self._network.run(self._heal())

    def accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Proxy a new connection in a task of its own."""
        task = asyncio.create_task(self._proxy(client, to_client))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _proxy(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Pass bytes until an end closes the connection or the link breaks."""
        if self._is_disconnected:
            _reset(to_client)
            return
        try:
            broker, to_broker = await asyncio.open_connection(_HOST, self.target)
        except OSError:
            _reset(to_client)  # the broker does not run
            return
        self.accepted += 1
        writers = {to_client, to_broker}
        self._writers |= writers
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._pump(client, to_broker, Way.REQUESTS))
                both.create_task(self._pump(broker, to_client, Way.RESPONSES))
        except* (OSError, _ClosedError):
            pass
        finally:
            self._writers -= writers
            for writer in writers:
                _reset(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: Way) -> None:
        on_their_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(_MOST_CHUNKS)
        async with asyncio.TaskGroup() as both:
            both.create_task(self._receive(reader, on_their_way, self._weather[way]))
            both.create_task(self._deliver(writer, on_their_way, way))

    async def _receive(
        self, reader: asyncio.StreamReader, on_their_way: asyncio.Queue[tuple[float, bytes]], weather: _Weather
    ) -> None:
        now = asyncio.get_running_loop().time
        while chunk := await reader.read(_CHUNK):
            await on_their_way.put((now() + weather.delay_s, chunk))
        await on_their_way.put((now() + weather.delay_s, b""))

    async def _deliver(
        self, writer: asyncio.StreamWriter, on_their_way: asyncio.Queue[tuple[float, bytes]], way: Way
    ) -> None:
        weather, now = self._weather[way], asyncio.get_running_loop().time
        while True:
            due, chunk = await on_their_way.get()
            await asyncio.sleep(max(0.0, due - now()))
            await weather.flows.wait()
            if not chunk:
                raise _ClosedError
            if weather.bytes_per_s is not None:
                await asyncio.sleep(len(chunk) / weather.bytes_per_s)
            self.passed[way] += len(chunk)
            writer.write(chunk)
            await writer.drain()

    async def _disconnect(self) -> None:
        self._is_disconnected = True
        await self._reset()

    async def _reset(self) -> None:
        for writer in self._writers:
            _reset(writer)

    async def _change(
        self, ways: tuple[Way, ...], *, frozen: bool = False, delay_s: float = 0.0, bytes_per_s: float | None = None
    ) -> None:
        for way in ways or tuple(Way):
            weather = self._weather[way]
            weather.delay_s, weather.bytes_per_s = delay_s, bytes_per_s
            if frozen:
                weather.flows.clear()
            else:
                weather.flows.set()

    async def _heal(self) -> None:
        self._is_disconnected = False
        for weather in self._weather.values():
            weather.clear()


def _reset(writer: asyncio.StreamWriter) -> None:
    if not writer.transport.is_closing():
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        writer.transport.abort()


class _ClosedError(Exception):
    """An end closed the connection. The error ends the tasks of both directions."""


class Network:
    """The thread of the links. Leaving the context closes every link."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="network", daemon=True)
        self._thread.start()

    def __enter__(self) -> Network:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._end_tasks())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE_S)
        self._loop.close()

    def link(self, target: int, *, port: int = 0) -> Link:
        """Start a link to the broker on port ``target``. Port 0 takes a free port."""
        return self.run(self._link(target, port))

    def run(self, work: Coroutine[object, object, _Result]) -> _Result:
        """Run ``work`` on the event loop and return its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE_S)

    async def _link(self, target: int, port: int) -> Link:
        link = Link(self, port, target)
        server = await asyncio.start_server(link.accept, _HOST, port)
        link.port = server.sockets[0].getsockname()[1]
        return link

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
