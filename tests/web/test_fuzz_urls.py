"""Hostile requests never make a page fail, and no response has a byte from outside the given directories."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest

import tidelog
from conftest import GoldenFactory
from golden_sets import EVERYTHING, footprint
from log_maker import batch, write_segment
from tidelog.web.security import HEADERS
from web.asgi_client import AsgiClient, AsgiResponse, asgi_client
from web.harness import serving
from web.hostile_urls import HostileRequest, hostile_request
from web.inspected import CLOCK
from web.walk import walk

CANARY = b"canary-of-a-foreign-file"
EXPECTED = {200, 202, 206, 303, 304, 400, 401, 404, 405, 409, 413, 416, 421, 422, 503}
QUICK, SLOW, BY_SOCKET = 300, 20_000, 200
MOST_GROWTH_BYTES = 400_000_000


@dataclass(frozen=True)
class Target:
    """The directory that the inspector shows, and the URLs and parameters that its pages have."""

    path: Path
    urls: Sequence[str]
    names: Sequence[str]

    def requests(self, seeds: Iterable[int]) -> Iterator[tuple[int, HostileRequest]]:
        return ((seed, hostile_request(seed, self.urls, self.names)) for seed in seeds)


@pytest.fixture(scope="module")
def target(golden: GoldenFactory, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """Link a golden directory next to foreign files, which have a canary."""
    root = tmp_path_factory.mktemp("fuzz")
    path = root / "disk"
    path.symlink_to(golden(EVERYTHING["4.4"], "unclean"))
    (root / "secret.txt").write_bytes(CANARY)
    write_segment(root / "secret-0", 0, [batch(0, [CANARY], key=CANARY)])
    with asgi_client(path, clock=CLOCK) as client:
        urls = [visit.url for visit in walk(client, per_kind=1, total=60).visits]
    names = sorted({name for url in urls for name, _ in parse_qsl(urlsplit(url).query, keep_blank_values=True)})
    names += [
        f"{name}.{kind}" for name in ("logs", "topics", "batches", "records") for kind in ("sort", "page", "size")
    ]
    return Target(path, urls, names)


def problem_of(response: AsgiResponse) -> str | None:
    """Return a sentence about a response that no request may get."""
    if response.error is not None:
        return f"the application raised {response.error!r}"
    if response.status not in EXPECTED:
        return f"status {response.status}: {response.body[:300]!r}"
    if any(response.header(name) != value for name, value in HEADERS.items()):
        return "a security header is missing"
    for hidden in (CANARY, CANARY.hex().encode(), b"Traceback", os.fsencode(Path(tidelog.__file__).parent)):
        if hidden in response.body:
            return f"{hidden!r} is in the response"
    return None


def send(client: AsgiClient, request: HostileRequest) -> AsgiResponse:
    return client.request(
        request.target, method=request.method, headers=request.headers, body=request.body, host=request.host
    )


def check(target: Target, seeds: Iterable[int]) -> list[str]:
    """Send requests to the application in this process, and return the problems with their seeds."""
    problems = []
    with asgi_client(target.path, clock=CLOCK, wait_seconds=0.2) as client:
        for seed, request in target.requests(seeds):
            problem = problem_of(send(client, request))
            if problem is not None:
                problems.append(f"seed {seed}: {request}: {problem}")
        if send(client, HostileRequest(b"/index.json", "GET", b"localhost", (), b"")).status != 200:
            problems.append("the first page is not served any longer")
    return problems


def test_hostile_requests(target: Target) -> None:
    before = footprint(target.path)
    assert check(target, range(QUICK)) == []
    assert footprint(target.path) == before


@pytest.mark.slow
def test_many_hostile_requests(target: Target) -> None:
    assert check(target, range(1000, 1100)) == []  # imports and first reports take memory
    before = resident_bytes()
    assert check(target, range(10_000, 10_000 + SLOW)) == []
    assert resident_bytes() - before < MOST_GROWTH_BYTES


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_hostile_requests_by_socket(target: Target) -> None:
    with serving(target.path, clock=CLOCK) as served:
        address = urlsplit(served.base)
        for seed, request in target.requests(range(50_000, 50_000 + BY_SOCKET)):
            received = exchange((address.hostname or "", address.port or 0), raw_bytes(request))
            assert received == b"" or received.startswith(b"HTTP/1.1 "), (seed, request, received[:100])
            assert not received.startswith(b"HTTP/1.1 500"), (seed, request, received[:500])
            assert CANARY not in received, (seed, request)
        assert served.ready("/").status == 200


def raw_bytes(request: HostileRequest) -> bytes:
    """Return a request as bytes of HTTP/1.1, valid or not."""
    lines = [request.method.encode() + b" " + request.target + b" HTTP/1.1"]
    lines += [b"host: " + request.host] if request.host else []
    lines += [name + b": " + value for name, value in request.headers]
    lines += [b"connection: close", b"content-length: %d" % len(request.body)]
    return b"\r\n".join(lines) + b"\r\n\r\n" + request.body


def exchange(address: tuple[str, int], data: bytes) -> bytes:
    """Send bytes over a new connection, and return all bytes until its end."""
    with socket.create_connection(address, timeout=120) as connection:
        connection.sendall(data)
        parts = []
        try:
            while part := connection.recv(1 << 16):
                parts.append(part)
        except ConnectionResetError:  # the server has closed it with bytes that it did not read
            pass
        return b"".join(parts)


BYTES_THAT_ARE_NO_REQUEST = (
    b"",
    b"\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n",
    b"GET /\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\nhost: evil\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcde",
    b"POST /login HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
    b"GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n",
    b"GET " + b"/a" * 100_000 + b" HTTP/1.1\r\nhost: localhost\r\n\r\n",
    b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 50_000 + b"\r\n",
)


def test_bytes_that_are_no_request(target: Target) -> None:
    with serving(target.path, clock=CLOCK) as served:
        address = urlsplit(served.base)
        for data in BYTES_THAT_ARE_NO_REQUEST:
            with socket.create_connection((address.hostname or "", address.port or 0), timeout=120) as connection:
                try:
                    connection.sendall(data)
                    connection.shutdown(socket.SHUT_WR)
                    received = connection.recv(1 << 16)
                except OSError as error:  # the server may have closed the connection already
                    if error.errno not in (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN):
                        raise
                    received = b""
            assert not received.startswith(b"HTTP/1.1 500"), data[:100]
        assert served.ready("/").status == 200
