"""The application: headers, methods, statuses, and the pages of errors. The tests make its pages."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidelog.model import (
    CheckpointError,
    ConfigError,
    CorruptRecordError,
    DirectoryError,
    FileMissingError,
    OffsetOutOfRangeError,
    StorageError,
)
from tidelog.web import app
from tidelog.web.jobs import BusyError, JobProgress
from tidelog.web.page import Column, Fact, Page, Section, Table
from tidelog.web.request import PageRequest
from tidelog.web.routes import PageFunction
from tidelog.web.security import HEADERS
from tidelog.web.sources import NotFoundError
from web.asgi_client import AsgiClient, asgi_client

PLAIN = Page(
    title="Plain",
    facts=[Fact(name="size", value=7)],
    sections=[Section(name="things", title="Things", table=Table(columns=[Column(name="a")], rows=[{"a": "x<y"}]))],
)
ServePage = Callable[[PageFunction], AsgiClient]


@pytest.fixture
def served(small_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServePage]:
    """Return a function that serves a page function at every URL."""
    with asgi_client(small_dir, wait_seconds=0.01) as client:

        def serve(function: PageFunction) -> AsgiClient:
            monkeypatch.setattr(app, "find_page", lambda path: (function, {"path": path}))
            return client

        yield serve


def raising(error: Exception) -> PageFunction:
    def page(_request: PageRequest) -> Page:
        raise error

    return page


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", b"/", 200),
        ("GET", b"/index.json", 200),
        ("HEAD", b"/", 200),
        ("GET", b"/static/style.css", 200),
        ("GET", b"/static/nothing.css", 404),
        ("GET", b"/static/%00", 404),
        ("GET", b"/static/../app.py", 404),
        ("GET", b"/static/%2e%2e/app.py", 404),
        ("GET", b"/static", 404),
        ("GET", b"/nothing", 404),
        ("GET", b"/nothing.json", 404),
        ("GET", b"/?topics.page=x", 400),
        ("POST", b"/", 405),
        ("POST", b"/static/style.css", 405),
        ("GET", b"/login", 404),
        ("POST", b"/login", 401),
        ("GET", b"*", 404),
        ("GET", b"http://localhost/", 404),
    ],
)
def test_every_response_has_the_security_headers_once(small_dir: Path, method: str, target: bytes, status: int) -> None:
    with asgi_client(small_dir) as client:
        response = client.request(target, method=method)
    assert response.status == status
    assert {name: response.header(name) for name in HEADERS} == HEADERS
    assert response.error is None


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_other_methods_are_refused(small_dir: Path, method: str) -> None:
    with asgi_client(small_dir) as client:
        response = client.request(b"/groups", method=method, body=b"x" * 10_000)
    assert response.status == 405
    assert response.header("Allow") == "GET, HEAD"


def test_head_has_the_headers_of_get(served: ServePage) -> None:
    client = served(lambda _request: PLAIN)
    get, head = client.request(b"/"), client.request(b"/", method="HEAD")
    assert head.status == get.status == 200
    assert head.headers == get.headers


@pytest.mark.parametrize(
    ("target", "accept", "kind"),
    [
        ("/a", "", "text/html"),
        ("/a", "*/*", "text/html"),
        ("/a", "text/html,application/json;q=0.9", "text/html"),
        ("/a", "application/json", "application/json"),
        ("/a.json", "text/html", "application/json"),
        ("/index.json", "", "application/json"),
        ("/orders%2Ejson", "", "text/html"),
    ],
)
def test_json_by_suffix_or_header(served: ServePage, target: str, accept: str, kind: str) -> None:
    response = served(lambda _request: PLAIN).get(target, accept=accept)
    assert (response.header("Content-Type") or "").partition(";")[0] == kind
    if kind == "application/json":
        assert response.json["facts"] == {"size": 7}
        assert response.json["sections"]["things"]["rows"] == [{"a": "x<y"}]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (NotFoundError("there is no such thing"), 404),
        (ConfigError("the parameter x must be y"), 400),
        (OffsetOutOfRangeError("offset 7 is not there"), 400),
        (FileMissingError("a broker removed it", path=Path("/data/t-0")), 409),
        (BusyError("too much"), 503),
        (DirectoryError("no log directory"), 422),
        (CheckpointError("line 3 is wrong"), 422),
        (StorageError("the disk reports an error"), 422),
        (CorruptRecordError("the batch is damaged", path=Path("/data/t-0/0.log"), position=12, offset=3), 422),
    ],
)
def test_an_error_is_a_page_with_its_place(served: ServePage, error: Exception, status: int) -> None:
    client = served(raising(error))
    html, found = client.get("/a"), client.get("/a.json")
    assert html.status == found.status == status
    message = found.json["error"]
    assert message in html.text
    if isinstance(error, CorruptRecordError):
        assert found.json == {"error": message, "file": "/data/t-0/0.log", "position": 12, "offset": 3}
        assert "/data/t-0/0.log" in html.text


@pytest.mark.parametrize("error", [KeyError("secret"), RecursionError("secret"), MemoryError("secret")])
def test_a_defect_is_logged_and_not_shown(
    served: ServePage, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    client = served(raising(error))
    with caplog.at_level(logging.ERROR):
        html, found = client.get("/a"), client.get("/a.json")
    assert html.status == found.status == 500
    assert "This is a defect of tidelog" in html.text
    for response in (html, found):
        assert "secret" not in response.text
        assert "Traceback" not in response.text
        assert response.error is None
    assert "secret" in caplog.text


def test_a_value_that_is_no_json_is_a_defect_and_no_broken_response(served: ServePage) -> None:
    hostile = {(1, 2): "a key that is no text"}
    client = served(lambda _request: Page(title="x", facts=[Fact(name="a", value=hostile)]))
    assert client.get("/a.json").status == 500


def test_json_is_ascii(served: ServePage) -> None:
    text = "ü\u202e\udcff\x00</script>\u2028"
    found = served(lambda _request: Page(title=text)).get("/a.json")
    assert found.text.isascii()
    assert found.json["title"] == text


def test_work_that_takes_longer_is_awaited(served: ServePage) -> None:
    ready = threading.Event()

    def page(request: PageRequest) -> Page:
        def work(progress: JobProgress) -> str:
            progress.expect(400)
            progress.advance(100)
            assert ready.wait(60)
            return "done"

        return Page(title=request.job("key", work, title="reading <everything>").value)

    client = served(page)
    try:
        while (found := client.get("/a.json?x=1")).json["done"] == 0:
            pass
        assert found.status == 202
        assert found.header("Retry-After") == "1"
        assert found.json == {"state": "running", "title": "reading <everything>", "done": 100, "total": 400}
        html = client.get("/a")
        assert html.status == 202
        assert html.header("Retry-After") == "1"
        assert "reading &lt;everything&gt;" in html.text
        assert 'http-equiv="refresh"' in html.text
        assert 'value="0.2500"' in html.text
    finally:
        ready.set()
    assert client.ready("/a.json").json["title"] == "done"


def test_a_newer_report_than_any_is_a_mistake(served: ServePage) -> None:
    def page(request: PageRequest) -> Page:
        finished = request.job("key", lambda _progress: 1, title="t", is_repeatable=True)
        return Page(title="x", facts=[Fact(name="made_at", value=finished.made_at_ms)])

    client = served(page)
    first = client.ready("/a.json").json["facts"]["made_at"]
    second = client.ready(f"/a.json?newer={first}").json["facts"]["made_at"]
    assert second >= first
    assert client.get(f"/a.json?newer={second + 3_600_000}").status == 400


def test_four_pages_are_made_at_once(served: ServePage) -> None:
    lock = threading.Lock()
    running, most = 0, 0
    four = threading.Barrier(4)

    def page(_request: PageRequest) -> Page:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        four.wait(60)
        with lock:
            running -= 1
        return PLAIN

    responses = served(page).at_once(f"/{number}" for number in range(16))
    assert {response.status for response in responses} == {200}
    assert most == 4


@pytest.mark.parametrize("query", [b"a=%ff", b"a=\xff", b"%00=%00", b"&&&=&", b"=", b"a" * 5000, b"\xed\xa0\x80"])
def test_any_bytes_are_a_query(served: ServePage, query: bytes) -> None:
    client = served(lambda request: Page(title=request.query.text("a", "nothing")))
    response = client.request(b"/a?" + query)
    assert response.status == 200
    assert response.error is None


def test_too_many_parameters_are_a_mistake(served: ServePage) -> None:
    client = served(lambda _request: PLAIN)
    assert client.get("/a?" + "&".join(f"p{number}=1" for number in range(51))).status == 400
    assert client.get("/a?" + "&".join(f"p{number}=1" for number in range(50))).status == 200


def test_unknown_parameters_are_named(served: ServePage) -> None:
    html = served(lambda _request: PLAIN).get("/a?wrong<b>=1").text
    assert "This page has no parameter" in html
    assert "wrong&lt;b&gt;" in html


def test_static_files_have_their_types(small_dir: Path) -> None:
    with asgi_client(small_dir) as client:
        for path in sorted((Path(app.__file__).parent / "static").iterdir()):
            response = client.get(f"/static/{path.name}")
            assert response.status == 200
            assert response.body == path.read_bytes()
            kinds = {".css": "text/css", ".svg": "image/svg+xml", ".js": "text/javascript"}
            assert (response.header("Content-Type") or "").partition(";")[0] == kinds[path.suffix]


def test_a_real_page(small_dir: Path) -> None:
    with asgi_client(small_dir) as client:
        found = client.ready("/index.json").json
        html = client.ready("/").text
    assert [row["topic"] for row in found["sections"]["topics"]["rows"]] == ["orders"]
    assert '<a href="/topics/orders">' in html
