"""A broker in this process, on a loop in a thread of its own, and a client that speaks the wire protocol itself."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import uvloop

from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.headers import response_header, write_request_header
from tidelog.protocol.messages import read_response, write_request
from tidelog.protocol.schemas import Struct
from tidelog.server.broker import Broker

PATIENCE_S = 60
"""For what takes milliseconds, on a machine that has other things to do."""

Result = TypeVar("Result")


class LoopThread:
    """An event loop that runs in a thread."""

    def __init__(self) -> None:
        self.loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="loop", daemon=True)
        self._thread.start()

    def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """The result of a coroutine function, run on the loop."""

        async def awaited() -> Result:
            return await work()

        return asyncio.run_coroutine_threadsafe(awaited(), self.loop).result(PATIENCE_S)

    def call(self, function: Callable[[], Result]) -> Result:
        """The result of a function, called on the loop: the one way for a test to look at a broker's state."""

        async def called() -> Result:
            return function()

        return self.run(called)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Until ``is_so``, asked on the loop, is true."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.call(is_so):
            assert time.monotonic() < deadline, "it never came to be"
            time.sleep(0.005)

    def stop(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(PATIENCE_S)
        self.loop.close()


class BrokerHome:
    """A broker that can be started again on its directory."""

    def __init__(self, directory: Path, **settings: str) -> None:
        """``settings``: Kafka's keys with ``_`` for ``.``."""
        self.directory = directory
        self.settings = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:0",
            "log.dirs": str(directory),
        } | {key.replace("_", "."): value for key, value in settings.items()}
        self._thread = LoopThread()
        self.broker = self._made()

    @property
    def port(self) -> int:
        return self.broker.listeners[0].port

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.run(self.broker.start)

    def stop(self) -> None:
        self._thread.run(self.broker.stop)

    def restart(self, **settings: str) -> None:
        """An orderly stop, and a new broker on the same directory."""
        self.stop()
        self.settings |= {key.replace("_", "."): value for key, value in settings.items()}
        self.broker = self._made()
        self.start()

    def close(self) -> None:
        self.stop()
        self._thread.stop()

    def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        return self._thread.run(work)

    def call(self, function: Callable[[], Result]) -> Result:
        """As ``LoopThread.call``."""
        return self._thread.call(function)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """As ``LoopThread.wait_for``."""
        self._thread.wait_for(is_so)

    def client(self, **options: Any) -> WireClient:
        """A new connection; the caller closes it."""
        return WireClient(self.port, **options)

    def _made(self) -> Broker:
        return Broker(BrokerConfig.load(overrides=self.settings))


@contextmanager
def running_broker(directory: Path, **settings: str) -> Iterator[BrokerHome]:
    home = BrokerHome(directory, **settings)
    try:
        home.start()
        yield home
    finally:
        home.close()


class WireClient:
    """One connection. ``call`` sends a request and waits for its answer; ``send`` and ``receive`` are its halves."""

    def __init__(self, port: int, *, client_id: str | None = "test", host: str = "127.0.0.1") -> None:
        self.port = port
        self.socket = socket.create_connection((host, port), timeout=PATIENCE_S)
        self._client_id = client_id
        self._next_id = 0

    def __enter__(self) -> WireClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, api: ApiKey, version: int | None = None, **values: Any) -> Struct:
        """``version`` None: the latest. ``values``: as ``write_request`` takes them."""
        version = VERSIONS[api].latest if version is None else version
        return self.receive(api, version, self.send(api, version, **values))

    def send(self, api: ApiKey, version: int, **values: Any) -> int:
        """The request's correlation id."""
        self._next_id += 1
        header = write_request_header(api, version, self._next_id, self._client_id)
        body = write_request(api, version, values)
        self.socket.sendall(length_prefix([header, body]) + header + body)
        return self._next_id

    def receive(self, api: ApiKey, version: int, correlation_id: int) -> Struct:
        """The next answer, which has to be the one to this request."""
        frame = self.receive_frame()
        header = response_header(api, version, correlation_id)
        assert frame.startswith(header), (api, version, correlation_id, frame[:20])
        return read_response(api, version, frame[len(header) :])

    def receive_frame(self) -> bytes:
        """ConnectionError where the broker closes the connection instead."""
        (length,) = struct.unpack(">i", self._receive(4))
        return self._receive(length)

    def is_closed_by_broker(self) -> bool:
        """Waits for it: TimeoutError where nothing comes; whatever else comes is read."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionError:
            pass
        return True

    def _receive(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.socket.recv(count - len(data))
            if not piece:
                raise ConnectionError("the broker has closed the connection")
            data += piece
        return bytes(data)
