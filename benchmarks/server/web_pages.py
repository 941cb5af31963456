"""The pages that row web visits: a process of ``tidelog web``, and a tour over its links to every kind of page."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cache
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from benchmarks.server.brokers import installed_environment
from tidelog.web.routes import ROUTES, Route

_PATIENCE_S: Final = 300
_LINKS: Final = re.compile(r'<a\b[^>]*\bhref="([^"#]+)')
_MOST_VISITS: Final = 400
_SERVING: Final = re.compile(r"^(?:serving|pages) +(http://\S+)/$", re.MULTILINE)


class WebProcess:
    """``tidelog web`` on directories. Leaving the context ends it."""

    def __init__(self, *directories: Path) -> None:
        self._directories = directories
        self._process: subprocess.Popen[bytes] | None = None
        self._lines = tempfile.NamedTemporaryFile("r", prefix="tidelog-web-")  # noqa: SIM115 # closed at the end
        self.base = ""

    def __enter__(self) -> Self:
        command = [str(Path(sys.executable).with_name("tidelog")), "web", *map(str, self._directories)]
        with open(self._lines.name, "wb") as file:
            self._process = subprocess.Popen(
                [*command, "--bind", "127.0.0.1:0"], stderr=file, env=installed_environment()
            )
        while (found := _SERVING.search(Path(self._lines.name).read_text())) is None:
            if self._process.poll() is not None:
                raise RuntimeError(f"the inspector did not start: {Path(self._lines.name).read_text()}")
            time.sleep(0.005)
        self.base = found[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_PATIENCE_S)
        self._lines.close()

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid


def get(base: str, url: str) -> tuple[int, str]:
    """Return the status and the text of a page."""
    try:
        with urllib.request.urlopen(base + url, timeout=_PATIENCE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def ready(base: str, url: str) -> tuple[int, str]:
    """Return a page whose report is ready."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while True:
        status, text = get(base, url)
        is_partial = status == 202 or '<meta http-equiv="refresh" content="1">' in text
        if not is_partial or time.monotonic() > deadline_s:
            return status, text
        time.sleep(0.1)


def tour(base: str, starts: Sequence[str]) -> Iterator[tuple[Route, str]]:
    """Yield a page of each route: the first page by links from ``starts`` that responds with 200.

    Routes without a page here, such as the page of a running broker, are left out.
    """
    missing = {route.pattern: route for route in ROUTES}
    waiting, seen = deque(starts), set(starts)
    for _ in range(_MOST_VISITS):
        if not waiting or not missing:
            return
        url = waiting.popleft()
        route = route_of(url)
        if route is None or not _exists(route) or (route.pattern not in missing and url not in starts):
            continue
        status, text = ready(base, url)
        if status != 200:
            continue
        if missing.pop(route.pattern, None) is not None or url in starts:
            yield route, url
        links = [unescape(link) for link in _LINKS.findall(text)]
        new = [link for link in dict.fromkeys(links) if link.startswith("/") and link not in seen]
        seen.update(new)
        waiting.extend(sorted(new, key=lambda link: "?" in link))


@cache
def _exists(route: Route) -> bool:
    """Return True if the page's module exists."""
    try:
        route.load()
    except ImportError:
        return False
    return True


def route_of(url: str) -> Route | None:
    parts = url.partition("?")[0].split("/")[1:]
    return next((route for route in ROUTES if route.match(parts) is not None), None)


class Viewer:
    """A person who looks at pages that load themselves again: each page in turn, a number of times a second.

    As in a browser, one connection stays open.
    """

    def __init__(self, base: str, urls: Sequence[str], *, a_second: float) -> None:
        self.visits = 0
        self._base = base
        self._urls = urls
        self._pause_s = 1 / a_second
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        with closing(HTTPConnection(urlsplit(self._base).netloc, timeout=_PATIENCE_S)) as connection:
            self._visit(connection)

    def _visit(self, connection: HTTPConnection) -> None:
        next_s = time.monotonic()
        while not self._is_over.wait(max(0.0, next_s - time.monotonic())):
            next_s = max(next_s + self._pause_s, time.monotonic())
            connection.request("GET", self._urls[self.visits % len(self._urls)])
            response = connection.getresponse()
            text = response.read().decode()
            if response.status not in (200, 202):
                raise RuntimeError(f"a page failed with status {response.status}: {text[:500]}")
            self.visits += 1
