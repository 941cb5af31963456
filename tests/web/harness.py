"""Pages of the inspector for tests: as values, over a socket, and in Chromium."""

from __future__ import annotations

import json
import shutil
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import uvicorn

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.web.app import create_app
from tidelog.web.jobs import Jobs
from tidelog.web.page import Page, Picture, Row, Section
from tidelog.web.page_json import page_json
from tidelog.web.query import Query
from tidelog.web.request import PageRequest
from tidelog.web.routes import find_page
from tidelog.web.security import AccessControl
from tidelog.web.sources import Sources

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def read_page(paths: Path | Iterable[Path], url: str, *, schemas: Path | None = None) -> Page:
    """Return a page, and wait until its reports are ready. Raise the page's error."""
    given = [paths] if isinstance(paths, Path) else list(paths)
    path, _, query = url.partition("?")
    jobs = Jobs(wait_seconds=None)
    try:
        function, parts = find_page(path)
        sources = Sources.of(given, schemas=schemas)
        return function(PageRequest(sources=sources, jobs=jobs, path=parts, query=Query.parse(query)))
    finally:
        jobs.close()


def section_of(page: Page, name: str) -> Section:
    """Return a section by its name."""
    return next(section for section in page.sections if section.name == name)


def rows_of(page: Page, name: str) -> list[dict[str, Any]]:
    """Return the rows of a section's table."""
    table = section_of(page, name).table
    assert table is not None
    return [dict(row) for row in table.rows]


def facts_of(page: Page) -> dict[str, Any]:
    return page_json(page)["facts"]  # type: ignore[no-any-return]


def items_drawn(picture: Picture) -> list[dict[str, Any]]:
    """Return the items whose numbers the SVG of a picture has. Fail if the SVG is not well-formed."""
    root = ElementTree.fromstring(picture.draw())
    return [json.loads(mark.attrib["data-item"]) for mark in root.iter() if "data-item" in mark.attrib]


def check_picture(section: Section) -> None:
    """Compare the numbers of a section's picture with those of its JSON."""
    assert section.picture is not None
    expected: list[Row] = [json.loads(json.dumps(dict(item))) for item in section.picture.items]
    assert items_drawn(section.picture) == expected


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    headers: Mapping[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Served:
    """A running inspector. ``base`` is its address without a slash at the end."""

    base: str
    headers: dict[str, str] = field(default_factory=dict)

    def get(self, url: str, *, method: str = "GET", body: bytes | None = None, **headers: str) -> Response:
        """Send a request. Redirects are not followed. Underscores of header names stand for hyphens."""
        given = self.headers | {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.base + url, headers=given, method=method, data=body)
        opener = urllib.request.build_opener(_NoRedirect)
        try:
            with opener.open(request, timeout=120) as response:
                return Response(response.status, dict(response.headers), response.read().decode())
        except urllib.error.HTTPError as error:
            return Response(error.code, dict(error.headers), error.read().decode())

    def ready(self, url: str, *, accept: str = "text/html") -> Response:
        """Send GET requests until the report is ready."""
        while (response := self.get(url, Accept=accept)).status == 202:
            pass
        return response


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_arguments: object, **_named: object) -> None:
        return None


@contextmanager
def serving(
    paths: Path | Iterable[Path],
    *,
    token: str | None = None,
    loopback_only: bool = True,
    clock: Clock = SYSTEM_CLOCK,
    wait_seconds: float = 0.2,
    schemas: Path | None = None,
) -> Iterator[Served]:
    """Serve the pages on a free port of this machine, in a background thread."""
    given = [paths] if isinstance(paths, Path) else list(paths)
    jobs = Jobs(wait_seconds=wait_seconds, clock=clock)
    request = PageRequest(sources=Sources.of(given, schemas=schemas), jobs=jobs, clock=clock)
    with serving_request(request, AccessControl(token=token, loopback_only=loopback_only)) as served:
        yield served


@contextmanager
def serving_request(request: PageRequest, access: AccessControl) -> Iterator[Served]:
    """Serve the pages of a request, and close its jobs at the end."""
    listener = socket.create_server(("127.0.0.1", 0))
    app = create_app(request, access)
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="inspector")
    thread.start()
    try:
        yield Served(f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        server.should_exit = True
        thread.join()
        request.jobs.close()
