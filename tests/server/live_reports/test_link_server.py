"""The broker's end of the link: lines of JSON, hostile ones too."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from server.live_reports.reported_home import ReportedHome
from tidelog.server.live_reports import link_server
from tidelog.server.live_reports.link_server import LONGEST_LINE, serve_link
from tidelog.testing.broker.loop_thread import PATIENCE_S


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportedHome]:
    with ReportedHome(tmp_path_factory.mktemp("linked")) as running:
        yield running


class Link:
    """A link to the broker."""

    def __init__(self, home: ReportedHome) -> None:
        ours, theirs = socket.socketpair()
        self.served = asyncio.run_coroutine_threadsafe(serve_link(theirs, home.reported), home._thread.loop)
        self.socket = ours
        ours.settimeout(PATIENCE_S)
        self.lines = ours.makefile("rb")

    def send(self, line: bytes | dict[str, Any]) -> None:
        self.socket.sendall((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")

    def receive(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.lines.readline())
        return found

    def close(self) -> None:
        self.lines.close()
        self.socket.close()
        self.served.result(PATIENCE_S)


@pytest.fixture
def link(home: ReportedHome) -> Iterator[Link]:
    made = Link(home)
    yield made
    made.close()


def test_reports_by_name_in_one_line(link: Link) -> None:
    link.send({"id": 7, "reports": ["node", "tasks"]})
    found = link.receive()
    assert found["id"] == 7
    assert list(found["reports"]) == ["node", "tasks"]
    assert found["reports"]["node"]["node_id"] == 1


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"nonsense",
        b"[]",
        b"17",
        b'{"id": 3}',
        b'{"id": 3, "reports": ["secrets"]}',
        b'{"id": 3, "reports": 17}',
        b'{"id": 3, "reports": ["node"], "most": "many"}',
        b"\xff\xfe",
        b'{"id": 3, "reports": ["connections"], "most": -5, "name": {"a": 1}}',
    ],
)
def test_a_line_that_is_no_request_has_an_error_and_the_link_goes_on(
    link: Link, line: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    link.send(line)
    first = link.receive()
    assert "error" in first or first["reports"]["connections"]["rows"] == []
    link.send({"id": 4, "reports": ["node"]})
    assert link.receive()["id"] == 4
    del caplog


def test_a_line_without_end_closes_the_link(home: ReportedHome, caplog: pytest.LogCaptureFixture) -> None:
    link = Link(home)
    try:
        link.socket.sendall(b"x" * (2 * LONGEST_LINE))
        assert link.lines.readline() == b""
    except ConnectionError:
        pass
    link.close()
    assert "The link to the process of the pages is closed" in caplog.text


def test_a_delayed_refusal_does_not_hold_up_reports(link: Link) -> None:
    link.send({"id": 1, "user": "nobody", "password": "wrong", "address": "127.0.0.1"})
    link.send({"id": 2, "reports": ["node"]})
    assert link.receive()["id"] == 2
    assert link.receive() == {"id": 1, "is_allowed": False}


def test_many_requests_at_once_all_get_responses(link: Link, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_server, "MOST_REQUESTS", 2)
    for number in range(50):
        link.send({"id": number, "reports": ["node"]})
    assert {link.receive()["id"] for _ in range(50)} == set(range(50))


def test_a_bug_in_a_report_is_an_error_and_a_line_in_the_log(
    link: Link, home: ReportedHome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(home.server, "scheduler", None)
    monkeypatch.setattr(type(home.reported), "logs", property(lambda _self: 1 / 0))
    link.send({"id": 9, "reports": ["log_dirs"]})
    assert link.receive() == {"id": 9, "error": "the broker failed to make the report: ZeroDivisionError"}
    assert "A report about the broker failed" in caplog.text
