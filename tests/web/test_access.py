"""The access of visitors: hosts, tokens, and users of the broker."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import SCENARIOS
from tidelog.testing import ManualClock
from tidelog.web import security
from tidelog.web.broker_link import BrokerLinkError
from tidelog.web.jobs import Jobs
from tidelog.web.request import PageRequest
from tidelog.web.security import AccessControl
from tidelog.web.sources import Sources
from tidelog.web.visitors import KEPT_MS, Check, Visitors, parse_basic
from web.harness import Served, serving_request


def basic(name: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@contextmanager
def guarded(path: Path, access: AccessControl) -> Iterator[Served]:
    request = PageRequest(sources=Sources.of([path]), jobs=Jobs())
    with serving_request(request, access) as served:
        yield served


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "_FAILURE_DELAY_S", 0.1)


class Checks:
    """A check that knows one user, and its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, str]] = []
        self.go_on = threading.Event()
        self.go_on.set()

    def __call__(self, name: str, password: str, address: str) -> bool:
        self.calls.append((name, password, address))
        assert self.go_on.wait(60)
        return (name, password) == ("ann", "pass:word ü")


def access_of(check: Check, *, token: str | None = None, clock: ManualClock | None = None) -> AccessControl:
    visitors = Visitors(check) if clock is None else Visitors(check, clock)
    return AccessControl(token=token, loopback_only=False, visitors=visitors)


def test_a_user_of_the_broker_signs_in_by_http_basic(golden: GoldenFactory) -> None:
    checks = Checks()
    with guarded(golden(SCENARIOS), access_of(checks)) as served:
        refused = served.get("/")
        assert refused.status == 401
        assert refused.headers["www-authenticate"] == 'Basic realm="tidelog", charset="UTF-8"'
        assert "plain" not in refused.text
        assert served.get("/", Authorization=basic("ann", "wrong")).status == 401
        right = basic("ann", "pass:word ü")
        assert served.get("/", Authorization=right).status == 200
        assert served.get("/index.json", Authorization=right).json["title"] == "Log directory"
    assert checks.calls == [("ann", "wrong", "127.0.0.1"), ("ann", "pass:word ü", "127.0.0.1")]


def test_the_json_of_a_refusal_names_the_ways_to_sign_in(golden: GoldenFactory) -> None:
    with guarded(golden(SCENARIOS), access_of(Checks(), token="secret")) as served:
        error = served.get("/index.json").json["error"]
        assert "Bearer TOKEN" in error
        assert "HTTP Basic" in error
        assert 'name="token"' in served.get("/").text
        assert served.get("/", Authorization="Bearer secret").status == 200
        assert served.get("/", Authorization=basic("ann", "pass:word ü")).status == 200


def test_a_check_counts_for_a_minute(golden: GoldenFactory) -> None:
    checks, clock = Checks(), ManualClock(1_000_000)
    with guarded(golden(SCENARIOS), access_of(checks, clock=clock)) as served:
        for _ in range(3):
            assert served.get("/", Authorization=basic("ann", "pass:word ü")).status == 200
        assert len(checks.calls) == 1
        clock.now += KEPT_MS
        assert served.get("/", Authorization=basic("ann", "pass:word ü")).status == 200
        assert len(checks.calls) == 2


def test_the_tabs_of_a_browser_share_a_check_and_guesses_wait(golden: GoldenFactory) -> None:
    checks = Checks()
    checks.go_on.clear()
    with guarded(golden(SCENARIOS), access_of(checks)) as served, ThreadPoolExecutor(8) as threads:
        tabs = [threads.submit(served.get, "/", Authorization=basic("ann", "pass:word ü")) for _ in range(3)]
        other = threads.submit(served.get, "/", Authorization=basic("ann", "guess 1"))
        while len(checks.calls) < 2:
            time.sleep(0.005)
        assert served.get("/", Authorization=basic("ann", "guess 2")).status == 503
        checks.go_on.set()
        assert [tab.result(60).status for tab in tabs] == [200, 200, 200]
        assert other.result(60).status == 401
    assert len(checks.calls) == 2


def test_a_broker_that_does_not_respond_is_no_admission(golden: GoldenFactory) -> None:
    def fail(_name: str, _password: str, _address: str) -> bool:
        raise BrokerLinkError("the broker did not respond within 20 s")

    with guarded(golden(SCENARIOS), access_of(fail)) as served:
        response = served.get("/", Authorization=basic("ann", "pass:word ü"))
        assert response.status == 503
        assert "did not respond" in response.text


@pytest.mark.parametrize(
    "header",
    [
        "",
        "Basic",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic /////w==",
        "Digest a",
        "bearer",
    ],
)
def test_other_headers_are_no_name_and_password(header: str) -> None:
    assert parse_basic(header) is None


def test_a_colon_belongs_to_the_password() -> None:
    assert parse_basic(basic("ann", "a:b")) == ("ann", "a:b")
    assert parse_basic(basic("", "")) == ("", "")


def test_a_wrong_token_is_logged_and_takes_a_while(golden: GoldenFactory, caplog: pytest.LogCaptureFixture) -> None:
    with guarded(golden(SCENARIOS), AccessControl(token="secret", loopback_only=False)) as served:
        begun_s = time.monotonic()
        assert served.get("/", Authorization="Bearer guess").status == 401
        assert served.get("/login", method="POST", body=b"token=guess").status == 401
        assert time.monotonic() - begun_s >= 0.2
        assert served.get("/").status == 401
    lines = [record.getMessage() for record in caplog.records if record.name == "tidelog.web.security"]
    assert lines == ["A visitor at 127.0.0.1 has given a wrong token"] * 2


@pytest.mark.parametrize(
    ("host", "is_accepted"),
    [
        ("localhost:8088", True),
        ("127.0.0.1", True),
        ("[::1]:8088", True),
        ("kafka.example.org", True),
        ("KAFKA.example.org.:443", True),
        ("example.org", False),
        ("evil.kafka.example.org", False),
        ("", False),
    ],
)
def test_further_hosts_on_a_loopback_address(host: str, *, is_accepted: bool) -> None:
    access = AccessControl(token=None, loopback_only=True, allowed_hosts=["kafka.Example.org"])
    assert access.accepts_host(host) is is_accepted
