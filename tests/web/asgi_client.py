"""A client that calls the inspector's application in this process, with any bytes as target and headers."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

from starlette.types import ASGIApp

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.web.app import create_app
from tidelog.web.jobs import Jobs
from tidelog.web.request import PageRequest
from tidelog.web.security import AccessControl
from tidelog.web.sources import Sources

T = TypeVar("T")
PATIENCE_S = 300
Headers = Iterable[tuple[bytes, bytes]]


@dataclass(slots=True)
class AsgiResponse:
    """``error`` is an exception that the application raised. uvicorn would log it."""

    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: bytes = b""
    error: Exception | None = None

    def header(self, name: str) -> str | None:
        """Return the only value of a header, or None. Fail if the header occurs twice."""
        values = [value for other, value in self.headers if other == name.lower()]
        assert len(values) < 2, (name, values)
        return values[0] if values else None

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class AsgiClient:
    """A client with an event loop in a background thread, so it works next to other loops."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="asgi-client", daemon=True)
        self._thread.start()

    def get(self, target: str, **headers: str) -> AsgiResponse:
        """Send a GET request. Underscores of header names stand for hyphens."""
        given = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
        return self.request(target.encode(), headers=given)

    def ready(self, target: str, **headers: str) -> AsgiResponse:
        """Send GET requests until the report is ready."""
        deadline = time.monotonic() + PATIENCE_S
        while (response := self.get(target, **headers)).status == 202:
            assert time.monotonic() < deadline, f"the report of {target} is never ready"
        return response

    def request(
        self,
        target: bytes,
        *,
        method: str = "GET",
        headers: Headers = (),
        body: bytes = b"",
        host: bytes = b"localhost",
    ) -> AsgiResponse:
        """Send a request as uvicorn passes it on. ``host`` b"" sends no ``Host`` header."""
        return self._run(self._request(target, method, [*headers], body, host))

    def at_once(self, targets: Iterable[str]) -> list[AsgiResponse]:
        """Send GET requests at the same time."""

        async def run() -> list[AsgiResponse]:
            requests = (self._request(target.encode(), "GET", [], b"", b"localhost") for target in targets)
            return await asyncio.gather(*requests)

        return self._run(run())

    def close(self) -> None:
        self._run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE_S)

    async def _request(
        self, target: bytes, method: str, headers: list[tuple[bytes, bytes]], body: bytes, host: bytes
    ) -> AsgiResponse:
        raw_path, _, query = target.partition(b"?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(raw_path.decode("ascii", "replace")),
            "raw_path": raw_path,
            "root_path": "",
            "query_string": query,
            "headers": [*([(b"host", host)] if host else []), *headers],
            "client": ("127.0.0.1", 50_000),
            "server": ("127.0.0.1", 80),
        }
        response = AsgiResponse()
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> MutableMapping[str, Any]:
            if not messages:
                await asyncio.get_running_loop().create_future()  # the client stays connected
            return messages.pop()

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                response.status = message["status"]
                response.headers = [(name.decode(), value.decode("latin-1")) for name, value in message["headers"]]
            else:
                response.body += message.get("body", b"")

        try:
            await self._app(scope, receive, send)
        except Exception as error:  # uvicorn would log it
            response.error = error
        return response


@contextmanager
def asgi_client(
    paths: Path | Iterable[Path],
    *,
    token: str | None = None,
    loopback_only: bool = True,
    wait_seconds: float = 20,
    clock: Clock = SYSTEM_CLOCK,
) -> Iterator[AsgiClient]:
    """Create the application for log directories, and yield a client."""
    given = [paths] if isinstance(paths, Path) else list(paths)
    jobs = Jobs(wait_seconds=wait_seconds, clock=clock)
    request = PageRequest(sources=Sources.of(given), jobs=jobs, clock=clock)
    client = AsgiClient(create_app(request, AccessControl(token=token, loopback_only=loopback_only)))
    try:
        yield client
    finally:
        client.close()
        jobs.close()
