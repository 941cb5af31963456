"""Links between the nodes and clients of a cluster that tests can break, freeze, delay and throttle.

A link is a TCP proxy on a port of 127.0.0.1. A node advertises that port, so its clients go through the link. A link
has a `Route` for each client that it can tell from the others, and is itself the route of all others. All links of a
``Network`` run on one event loop. Thread rule: any thread except the loop's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Self

from tidelog.testing.broker.kept_port import HOST
from tidelog.testing.broker.loop_thread import LoopThread
from tidelog.testing.cluster.route import Route

FindClient = Callable[[int, int], int | None]
"""The number of the client whose connection has these two ports, its own and the link's, if it is known."""


class Link(Route):
    """The proxy on ``port`` for the server on ``target``. Made by `Network.link`."""

    def __init__(self, thread: LoopThread, target: int, find_client: FindClient | None) -> None:
        super().__init__(thread.call)
        self.port = 0
        """The proxy's own port, once it is open."""
        self.target = target
        self._thread = thread
        self._find_client = find_client
        self._routes: dict[int, Route] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def route(self, client: int) -> Route:
        """Return the route of a client that ``find_client`` knows."""
        return self._routes.setdefault(client, Route(self._thread.call))

    async def open(self, port: int) -> None:
        """Accept connections. Port 0 takes a free port. Thread rule: the loop's."""
        self._server = await asyncio.start_server(self._accept, HOST, port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Close the port and every connection. Thread rule: the loop's."""
        if self._server is not None:
            self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Serve a new connection in a task of its own."""
        task = asyncio.create_task(self._route_of(to_client).proxy(client, to_client, self._connect))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _heal(self) -> None:
        super()._heal()
        for route in self._routes.values():
            route._heal()

    def _route_of(self, to_client: asyncio.StreamWriter) -> Route:
        if self._find_client is None:
            return self
        number = self._find_client(to_client.get_extra_info("peername")[1], self.port)
        return self if number is None else self.route(number)

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(HOST, self.target)


class Network:
    """The links on one event loop: that of ``thread``, or one of their own. Leaving the context closes every link."""

    def __init__(self, thread: LoopThread | None = None) -> None:
        self._thread = thread or LoopThread()
        self._has_own_thread = thread is None
        self._links: list[Link] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every link. Call this once."""
        self._thread.run(self._close_links)
        if self._has_own_thread:
            self._thread.stop()

    def link(self, target: int, *, port: int = 0, find_client: FindClient | None = None) -> Link:
        """Open a link to the server on port ``target``. Port 0 takes a free port."""
        link = Link(self._thread, target, find_client)
        self._links.append(link)
        self._thread.run(lambda: link.open(port))
        return link

    async def _close_links(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links))
