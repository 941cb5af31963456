"""A server whose behaviour the test scripts: it may lie, hang, stop in the middle, or send garbage."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import uvloop

from tidelog.client import Address, ClientSettings
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.headers import RequestHeader, read_request_header, response_header
from tidelog.protocol.messages import read_request, write_response

T = TypeVar("T")
LOOPS: Final = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
PATIENCE_S = 60
"""The time after which a test hangs."""


def run(work: Callable[[], Coroutine[Any, Any, T]], loop: str = "asyncio") -> T:
    """Run a test's coroutine. No task and no exception may be left."""
    problems: list[str] = []

    async def guarded() -> T:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(repr(context)))
        return await asyncio.wait_for(work(), PATIENCE_S)

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        result = runner.run(guarded())
    assert not problems, problems
    return result


class Request:
    def __init__(self, frame: bytes) -> None:
        self.header: RequestHeader = read_request_header(frame)
        self.body = frame[self.header.size :]

    @property
    def api(self) -> ApiKey:
        return self.header.api

    @property
    def values(self) -> Any:
        return read_request(self.api, self.header.version, self.body)

    def response(self, values: Mapping[str, Any], *, correlation_id: int | None = None) -> bytes:
        """Return the frame of a response."""
        number = self.header.correlation_id if correlation_id is None else correlation_id
        parts = [
            response_header(self.api, self.header.version, number),
            write_response(self.api, self.header.version, values),
        ]
        return length_prefix(parts) + b"".join(parts)


class PeerConnection:
    """The server's side of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def request(self) -> Request:
        """Return the next request. Raise IncompleteReadError after the client's last one."""
        (length,) = struct.unpack(">i", await self._reader.readexactly(4))
        return Request(await self._reader.readexactly(length))

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def respond(self, request: Request, values: Mapping[str, Any]) -> None:
        await self.send(request.response(values))

    async def tell_versions(self, versions: Mapping[ApiKey, tuple[int, int]] | None = None) -> None:
        """Serve the first request of every client, ApiVersions."""
        request = await self.request()
        assert request.api is ApiKey.API_VERSIONS
        await self.respond(request, versions_of(versions))

    async def serve(self, responses: Mapping[ApiKey, Mapping[str, Any]]) -> None:
        """Respond to requests until the client leaves."""
        while True:
            request = await self.request()
            await self.respond(request, responses[request.api])

    async def until_closed(self) -> None:
        """Return when the client has closed the connection."""
        while await self._reader.read(65536):
            pass

    def close(self) -> None:
        self._writer.close()


Script = Callable[[PeerConnection], Awaitable[None]]


class Peer:
    """A listening server. Each connection runs the script, and is closed after it."""

    def __init__(self, script: Script, *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.script = script
        self.accepted = 0
        self.port = 0
        self._host = host
        self.errors: list[BaseException] = []
        """Mistakes of the script, which the test must not overlook."""
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._connections: set[PeerConnection] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, self._host, 0, ssl=self._tls)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if error is None and self.errors:
            raise self.errors[0]

    @property
    def address(self) -> Address:
        return Address(self._host, self.port)

    def settings(self, **changes: Any) -> ClientSettings:
        return ClientSettings(**{"bootstrap": (self.address,), **changes})

    def drop(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.accepted += 1
        self._tasks.add(task)
        connection = PeerConnection(reader, writer)
        self._connections.add(connection)
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
                await self.script(connection)
        except Exception as error:
            self.errors.append(error)
        finally:
            self._connections.discard(connection)
            writer.close()
            self._tasks.discard(task)


def versions_of(versions: Mapping[ApiKey, tuple[int, int]] | None = None, **values: Any) -> dict[str, Any]:
    """Return an ApiVersions response; by default with all that this client knows."""
    ranges = {api: (row.oldest, row.latest) for api, row in VERSIONS.items()} if versions is None else versions
    rows = [{"api_key": api, "min_version": low, "max_version": high} for api, (low, high) in ranges.items()]
    return {"error_code": 0, "api_keys": rows, **values}


def metadata_of(
    peers: Mapping[int, Address], topics: Mapping[str, int] | None = None, /, **values: Any
) -> dict[str, Any]:
    """Return a Metadata response: brokers, and topics of one partition with their leaders."""
    return {
        "brokers": [{"node_id": node, "host": at.host, "port": at.port} for node, at in peers.items()],
        "cluster_id": "cluster",
        "controller_id": min(peers, default=-1),
        "topics": [
            {
                "name": name,
                "error_code": 0,
                "partitions": [{"partition_index": 0, "leader_id": leader, "leader_epoch": 1, "error_code": 0}],
            }
            for name, leader in (topics or {}).items()
        ],
        **values,
    }
