"""The link of the pages to their broker, with a broker that a test plays."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tidelog.web.broker_link import BrokerLink, BrokerLinkError


class PlayedBroker:
    """The other end of a link."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(60)
        self.closed = threading.Event()
        self.link = BrokerLink(theirs, on_closed=self.closed.set, timeout_s=0.3)
        self._lines = self.socket.makefile("rb")
        self._threads = ThreadPoolExecutor(8)

    def later(self, *names: str) -> Any:
        """Ask for reports in another thread, and return the future."""
        return self._threads.submit(self.link.reports, names)

    def receive(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._lines.readline())
        return found

    def send(self, line: bytes) -> None:
        self.socket.sendall(line + b"\n")

    def close(self) -> None:
        self._lines.close()
        self.socket.close()
        assert self.closed.wait(60)
        self._threads.shutdown()


@pytest.fixture
def broker() -> Iterator[PlayedBroker]:
    made = PlayedBroker()
    yield made
    made.close()


def test_a_request_and_its_response(broker: PlayedBroker) -> None:
    future = broker.later("node", "tasks")
    asked = broker.receive()
    assert (asked["reports"], asked["name"], asked["most"]) == (["node", "tasks"], "", 200)
    broker.send(json.dumps({"id": asked["id"], "reports": {"node": {}}}).encode())
    assert future.result(60) == {"node": {}}


def test_responses_may_come_in_another_sequence(broker: PlayedBroker) -> None:
    futures = [broker.later(str(number)) for number in range(8)]
    asked = [broker.receive() for _ in futures]
    for one in reversed(asked):
        broker.send(json.dumps({"id": one["id"], "reports": {one["reports"][0]: {}}}).encode())
    assert [list(future.result(60)) for future in futures] == [[str(number)] for number in range(8)]


def test_no_response_is_an_error_and_a_late_one_is_ignored(broker: PlayedBroker) -> None:
    with pytest.raises(BrokerLinkError, match="did not respond within 0 s"):
        broker.link.reports(["node"])
    late = broker.receive()["id"]
    broker.send(json.dumps({"id": late, "reports": {"late": {}}}).encode())
    future = broker.later("node")
    broker.send(json.dumps({"id": broker.receive()["id"], "reports": {"right": {}}}).encode())
    assert future.result(60) == {"right": {}}


def test_an_error_of_the_broker(broker: PlayedBroker) -> None:
    future = broker.later("node")
    broker.send(json.dumps({"id": broker.receive()["id"], "error": "no such report"}).encode())
    with pytest.raises(BrokerLinkError, match="no such report"):
        future.result(60)


def test_requests_fail_when_the_broker_ends(broker: PlayedBroker) -> None:
    broker.link._timeout_s = 60
    future = broker.later("node")
    broker.receive()
    broker.socket.shutdown(socket.SHUT_RDWR)
    with pytest.raises(BrokerLinkError, match="the broker has ended"):
        future.result(60)
    assert broker.closed.wait(60)
    with pytest.raises(BrokerLinkError, match="the broker has ended"):
        broker.link.reports(["node"])


def test_a_line_that_is_no_json_ends_the_link(broker: PlayedBroker) -> None:
    broker.send(b"nonsense")
    assert broker.closed.wait(60)


def test_the_check_of_a_visitor(broker: PlayedBroker) -> None:
    future = broker._threads.submit(broker.link.allows, "ann", "secret", "10.0.0.1")
    asked = broker.receive()
    assert (asked["user"], asked["password"], asked["address"]) == ("ann", "secret", "10.0.0.1")
    broker.send(json.dumps({"id": asked["id"], "is_allowed": True}).encode())
    assert future.result(60) is True
