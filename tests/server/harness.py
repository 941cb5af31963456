"""A broker in this process for tests of its parts, and a client that speaks the wire protocol itself."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Self

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.headers import response_header, write_request_header
from tidelog.protocol.messages import read_response, write_request
from tidelog.protocol.schemas import Struct
from tidelog.server.broker import Broker as Server
from tidelog.testing import Broker
from tidelog.testing.broker.loop_thread import PATIENCE_S

KEEPING = {"log.retention.ms": "-1"}
"""Keeps records whose timestamps are years old. The default retention deletes them after 30 s, with the first check."""


WITHOUT_DEFAULT = (ApiKey.DELETE_TOPICS, ApiKey.CREATE_PARTITIONS)
"""APIs whose default timeout is 0 ms, which expires immediately."""


class BrokerHome(Broker):
    """A broker with Kafka's own defaults. Settings are keyword arguments: Kafka's keys with ``_`` for ``.``."""

    base_configs: ClassVar[Mapping[str, str]] = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "controller.listener.names": "CONTROLLER",
    }

    def __init__(self, directory: Path, *, manual_time: bool = False, **settings: str) -> None:
        configs = {key.replace("_", "."): value for key, value in settings.items()}
        super().__init__(directory, configs=configs, manual_time=manual_time)

    @property
    def broker(self) -> Server:
        return self.server

    @property
    def port(self) -> int:
        """The port of the first listener."""
        return self.server.listeners[0].port

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def client(self, **options: Any) -> WireClient:
        """Open a connection, which the caller closes."""
        return WireClient(self.port, **options)


@contextmanager
def running_broker(directory: Path, **settings: str) -> Iterator[BrokerHome]:
    with BrokerHome(directory, manual_time=False, **settings) as home:
        yield home


class WireClient:
    """A connection. ``call`` sends a request and waits for its response. ``send`` and ``receive`` are its halves."""

    def __init__(self, port: int, *, client_id: str | None = "test", host: str = "127.0.0.1") -> None:
        self.port = port
        self.socket = socket.create_connection((host, port), timeout=PATIENCE_S)
        self._client_id = client_id
        self._next_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def call(self, api: ApiKey, version: int | None = None, /, **values: Any) -> Struct:
        """Send a request, by default in the latest version. ``values`` are the arguments of ``write_request``."""
        version = VERSIONS[api].latest if version is None else version
        return self.receive(api, version, self.send(api, version, **values))

    def send(self, api: ApiKey, version: int, /, **values: Any) -> int:
        """Return the request's correlation id."""
        values = {"timeout": 60_000} | values if api in WITHOUT_DEFAULT else values
        self._next_id += 1
        header = write_request_header(api, version, self._next_id, self._client_id)
        body = write_request(api, version, values)
        self.socket.sendall(length_prefix([header, body]) + header + body)
        return self._next_id

    def receive(self, api: ApiKey, version: int, correlation_id: int) -> Struct:
        """Return the next response, which must belong to this request."""
        frame = self.receive_frame()
        header = response_header(api, version, correlation_id)
        assert frame.startswith(header), (api, version, correlation_id, frame[:20])
        return read_response(api, version, frame[len(header) :])

    def receive_frame(self) -> bytes:
        """Raise ConnectionError if the broker closes the connection instead."""
        (length,) = struct.unpack(">i", self._receive(4))
        return self._receive(length)

    def is_closed_by_broker(self) -> bool:
        """Read until the broker closes the connection. Raise TimeoutError if nothing arrives."""
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
