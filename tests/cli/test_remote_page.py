"""``tidelog inspect http://HOST:PORT``: a page of a running inspector."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from cli.runner import run
from conftest import GoldenFactory
from golden_sets import SCENARIOS
from tidelog.cli.remote_page import fetch_page
from tidelog.model import TidelogError
from web.harness import serving


def test_the_page_is_that_of_the_directory(golden: GoldenFactory) -> None:
    path = golden(SCENARIOS)
    with serving(path) as served:
        words = ("--page", "/?topics.sort=topic", "--json")
        assert json.loads(run("inspect", served.base, *words).stdout) == json.loads(
            run("inspect", str(path), *words).stdout
        )
        lines = run("inspect", served.base + "/", "--page", "/?topic=plain", "--jsonl").stdout.splitlines()
        assert [json.loads(line).get("topic") for line in lines] == [None, "plain"]
        table = run("inspect", served.base, "--page", "/?topics.size=1").stdout
        assert "the parameter topics.page selects another one" in table


def test_mistakes_have_the_words_of_the_inspector(golden: GoldenFactory) -> None:
    with serving(golden(SCENARIOS)) as served:
        assert "there is no page /nope" in run("inspect", served.base, "--page", "/nope", code=2).stderr
        assert "topics.sort" in run("inspect", served.base, "--page", "/?topics.sort=x", code=2).stderr
        assert "named alone" in run("inspect", served.base, "data", code=2).stderr
    assert "no inspector responds at" in run("inspect", served.base, code=3).stderr


class _Handler(http.server.BaseHTTPRequestHandler):
    seen: list[str]
    respond: tuple[int, dict[str, str], bytes]

    def do_GET(self) -> None:
        self.seen.append(self.headers.get("Authorization", ""))
        status, headers, body = self.respond
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Write nothing."""


@contextmanager
def responding(status: int, body: bytes, **headers: str) -> Iterator[tuple[str, list[str]]]:
    """Run a server with one response. Yield its address, and the list of the tokens that it receives."""
    seen: list[str] = []
    handler = type("Handler", (_Handler,), {"seen": seen, "respond": (status, headers, body)})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", seen
        server.shutdown()


def test_a_token_does_not_follow_a_redirect() -> None:
    with responding(200, b"{}") as (other, stolen), responding(302, b"", Location=other + "/index.json") as (base, _):
        with pytest.raises(TidelogError, match="status 302"):
            fetch_page(base, "/", token="secret")
        assert stolen == []


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [(200, b"no json", "no inspector responds"), (500, b"no json", "status 500"), (503, b'{"error": "busy"}', "busy")],
)
def test_other_servers(status: int, body: bytes, words: str) -> None:
    with responding(status, body) as (base, _), pytest.raises(TidelogError, match=words):
        fetch_page(base, "/broker?name=x")


def test_a_proxy_of_the_environment_is_not_asked_for_a_loopback_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with responding(200, b'{"title": "t"}') as (base, seen):
        assert fetch_page(base, "/", user="ann:secret") == {"title": "t"}
    assert seen == ["Basic YW5uOnNlY3JldA=="]
