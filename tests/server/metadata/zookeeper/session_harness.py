"""A session that records its reports, and a proxy before ZooKeeper that breaks connections."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

from tidelog.server.metadata.zookeeper.session import SessionState, ZnodeEvent, ZooKeeperSession
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings

HANG_S: Final = 120.0
"""The timeout of a wait that ends much earlier, unless something hangs."""


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for a condition."""
    async with asyncio.timeout(HANG_S):
        while not is_so():
            await asyncio.sleep(0.005)


class RecordedSession:
    """A session with its states and events in one list."""

    def __init__(self, settings: ZooKeeperSettings) -> None:
        self.reports: list[SessionState | ZnodeEvent] = []
        self.session = ZooKeeperSession(settings, on_event=self.reports.append, on_state=self.reports.append)

    async def __aenter__(self) -> Self:
        await self.session.open()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.session.close()

    @property
    def states(self) -> list[SessionState]:
        return [one for one in self.reports if isinstance(one, SessionState)]

    @property
    def events(self) -> list[ZnodeEvent]:
        return [one for one in self.reports if isinstance(one, ZnodeEvent)]

    async def until_state(self, *states: SessionState) -> None:
        """Wait until these are the newest states."""
        await until(lambda: tuple(self.states[-len(states) :]) == states)


class Proxy:
    """Forwards connections to a server, request by request, or breaks them."""

    def __init__(self, server: str) -> None:
        self._host, port = server.split(":")
        self._port = int(port)
        self._writers: list[asyncio.StreamWriter] = []
        self._to_clients: list[asyncio.StreamWriter] = []
        self._forwards = asyncio.Event()
        self._forwards.set()
        self.refuses = False
        self.request_types: dict[int, int] = {}
        """Types of requests and the types that the server sees instead."""
        self.cut_types: set[int] = set()
        """Types of requests at which all connections end."""
        self._cut_requests = 0
        self.address = ""

    @classmethod
    @asynccontextmanager
    async def open(cls, server: str) -> AsyncIterator[Self]:
        proxy = cls(server)
        listening = await asyncio.start_server(proxy._accept, "127.0.0.1", 0)
        proxy.address = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        try:
            yield proxy
        finally:
            proxy.restore()
            proxy.cut()
            listening.close()

    def cut(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()
        self._to_clients.clear()

    def send_to_clients(self, junk: bytes) -> None:
        """Send bytes to every client as if they came from the server."""
        for writer in self._to_clients:
            writer.write(junk)

    async def until_cut(self, requests: int) -> None:
        """Wait until this many requests have ended their connections."""
        await until(lambda: self._cut_requests >= requests)

    def silence(self) -> None:
        """Forward nothing from now on, not even the end of a connection."""
        self._forwards.clear()

    def restore(self) -> None:
        self.refuses = False
        self._forwards.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        self._to_clients.append(writer)
        if self.refuses:
            self.cut()
            return
        server_reader, server_writer = await asyncio.open_connection(self._host, self._port)
        self._writers.append(server_writer)
        await asyncio.gather(self._forward(reader, server_writer, True), self._forward(server_reader, writer, False))

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, are_requests: bool) -> None:
        is_first = True
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                length = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(length, "big"))
                await self._forwards.wait()
                if are_requests and not is_first:
                    xid, kind = struct.unpack_from(">ii", frame)
                    if kind in self.cut_types:
                        self._cut_requests += 1
                        self.cut()
                        return
                    frame = struct.pack(">ii", xid, self.request_types.get(kind, kind)) + frame[8:]
                writer.write(length + frame)
                await writer.drain()
                is_first = False
        await self._forwards.wait()
        writer.close()
