"""Access to the pages: the names of the server, the token, sessions, and the target of a login."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from urllib.parse import urlencode, urljoin, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from log_maker import batch, write_segment
from tidelog.web import security
from tidelog.web.security import COOKIE, HEADERS, AccessControl, is_loopback, local_target
from web.asgi_client import AsgiClient, AsgiResponse, asgi_client

TOKEN = "a secret, with ü"


@pytest.fixture(autouse=True)
def _without_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse wrong tokens at once. ``test_access.py`` has the delay."""
    monkeypatch.setattr(security, "_FAILURE_DELAY_S", 0)


def log_in(client: AsgiClient, token: str, target: str = "/") -> AsgiResponse:
    body = urlencode({"token": token, "target": target}).encode()
    return client.request(b"/login", method="POST", body=body)


def session_of(response: AsgiResponse) -> str:
    cookie = response.header("set-cookie") or ""
    return cookie.partition(";")[0]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:8088", "127.0.0.1", "127.0.0.1:80", "127.8.9.1", "[::1]:8088"]
)
def test_names_of_this_machine_are_accepted(small_dir: Path, host: str) -> None:
    with asgi_client(small_dir) as client:
        assert client.request(b"/static/style.css", host=host.encode()).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "evil.example:8088",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:127.0.0.1",
        "localhost:80@evil.example",
        "127.0.0.1:80:90",
        "[::1",
        "[::1]evil.example",
        "[::1]:80x",
        "::1",
        "0.0.0.0",
        "192.168.1.7",
        "localhost/",
        "localhost evil",
        "ü",
    ],
)
def test_a_foreign_page_cannot_rebind_its_name(small_dir: Path, host: str) -> None:
    with asgi_client(small_dir) as client:
        response = client.request(b"/", host=host.encode("latin-1"))
    assert response.status == 421
    assert {name: response.header(name) for name in HEADERS} == HEADERS


def test_the_policy_allows_only_files_of_this_server() -> None:
    """Each part is 'self' or 'none': no inline code, no other host, no ``data:``."""
    policy = dict(part.split(maxsplit=1) for part in HEADERS["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == policy["base-uri"] == policy["frame-ancestors"] == "'none'"
    assert set(policy.values()) == {"'self'", "'none'"}


@pytest.mark.parametrize(
    "name", ["..%2Fother-0", "%2E%2E/other-0", "~..%2Fother-0", "x%2F..%2F..%2Fother-0", "other-0"]
)
@pytest.mark.parametrize("part", ["", "/records", "/segments/0", "/segments/0/batches/0", "/count"])
def test_no_name_of_a_log_leads_to_another_directory(small_dir: Path, name: str, part: str) -> None:
    write_segment(small_dir.parent / "other-0", 0, [batch(0, [b"a secret value"])])
    (small_dir / "x").mkdir()
    with asgi_client(small_dir) as client:
        response = client.get(f"/logs/0/{name}{part}")
        assert response.status == 404
        assert "a secret value" not in response.text


def test_any_name_is_accepted_where_a_token_is_needed(small_dir: Path) -> None:
    with asgi_client(small_dir, token=TOKEN, loopback_only=False) as client:
        for host in (b"broker7.example:8088", b"", b"[::1", b"\xff", b"a b", b"x" * 9000):
            response = client.request(b"/groups?a=\xff", host=host)
            assert response.status == 401
            assert response.error is None


def test_without_the_token_nothing_is_shown(small_dir: Path) -> None:
    with asgi_client(small_dir, token=TOKEN) as client:
        html, found = client.get("/groups?x=1"), client.get("/index.json")
        assert (html.status, found.status) == (401, 401)
        assert 'name="target" value="/groups?x=1"' in html.text
        assert found.json == {"error": "a token is needed: send it as Authorization: Bearer TOKEN"}
        assert str(small_dir) not in html.text
        assert client.get("/nothing").status == 401  # no hint at the pages that exist
        assert client.get("/static/style.css").status == 200


@pytest.mark.parametrize(
    ("given", "status"),
    [
        (f"Bearer {TOKEN}", 200),
        (f"bearer   {TOKEN} ", 200),
        ("Bearer wrong", 401),
        (f"Bearer {TOKEN}x", 401),
        (f"Bearer {TOKEN[:-1]}", 401),
        ("Bearer ", 401),
        ("Bearer", 401),
        (TOKEN, 401),
        (f"Basic {TOKEN}", 401),
    ],
)
def test_the_token_as_a_header(small_dir: Path, given: str, status: int) -> None:
    with asgi_client(small_dir, token=TOKEN) as client:
        response = client.request(b"/", headers=[(b"authorization", given.encode())])
    assert response.status == status


def test_a_login_makes_a_session(small_dir: Path) -> None:
    with asgi_client(small_dir, token=TOKEN) as client:
        response = log_in(client, TOKEN, "/groups?x=1")
        assert (response.status, response.header("location")) == (303, "/groups?x=1")
        assert {name: response.header(name) for name in HEADERS} == HEADERS
        attributes = {part.strip().lower() for part in (response.header("set-cookie") or "").split(";")[1:]}
        assert {"httponly", "samesite=strict", "path=/"} <= attributes
        assert client.get("/", cookie=session_of(response)).status == 200
        assert client.get("/", cookie=f"other=1; {session_of(response)}").status == 200
        assert client.get("/", cookie=f"{COOKIE}=guessed").status == 401
        assert client.get("/", cookie=f"{COOKIE}=").status == 401
        assert TOKEN not in str(response.headers)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"token=",
        b"token=wrong",
        b"token=wrong&token=" + TOKEN.encode(),
        b"target=/groups",
        b"&".join(b"f%d=1" % number for number in range(50)),
        b"\xff\xfe%ff%zz",
        b'{"token": "x"}',
    ],
)
def test_a_wrong_login_gets_nothing(small_dir: Path, body: bytes) -> None:
    with asgi_client(small_dir, token=TOKEN) as client:
        response = client.request(b"/login", method="POST", body=body)
    assert response.status == 401
    assert "This token is wrong." in response.text
    assert response.header("set-cookie") is None
    assert response.error is None


def test_a_login_is_small(small_dir: Path) -> None:
    with asgi_client(small_dir, token=TOKEN) as client:
        response = client.request(b"/login", method="POST", body=b"token=" + b"x" * security.MAX_LOGIN_BYTES)
    assert response.status == 413


def test_without_a_token_there_is_no_login(small_dir: Path) -> None:
    with asgi_client(small_dir) as client:
        assert client.request(b"/login", method="POST", body=b"token=").status == 401


def test_an_empty_token_lets_no_one_in() -> None:
    access = AccessControl(token="", loopback_only=False)
    assert not asyncio.run(access.admits(authorization="Basic Og==", cookie="", address=""))
    assert not asyncio.run(access.admits(authorization="Bearer ", cookie="", address=""))
    assert access.log_in(b"token=") is None


def test_the_number_of_sessions_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "_MOST_SESSIONS", 3)
    access = AccessControl(token=TOKEN, loopback_only=False)
    body = urlencode({"token": TOKEN}).encode()
    sessions = [found[0] for _ in range(4) if (found := access.log_in(body))]
    allowed = [asyncio.run(access.admits(authorization="", cookie=session, address="")) for session in sessions]
    assert allowed == [False, True, True, True]
    assert len(set(sessions)) == 4
    assert min(map(len, sessions)) >= 32


HOSTILE_TARGETS = (
    "//evil.example",
    "/\\evil.example",
    "\\\\evil.example",
    "/\t/evil.example",
    "/\n/evil.example",
    "https://evil.example",
    "javascript:alert(1)",
    "evil.example",
    "",
    "/a\\b",
    "/\r\nSet-Cookie: x=1",
    "/\u202e",
)


@pytest.mark.parametrize("target", HOSTILE_TARGETS)
def test_a_login_leads_to_no_other_server(small_dir: Path, target: str) -> None:
    with asgi_client(small_dir, token=TOKEN) as client:
        assert log_in(client, TOKEN, target).header("location") == "/"


@given(st.text() | st.text(alphabet="/\\.:@?#%\t\n abc", max_size=10))
@example("/groups?x=1#y")
@example("/.//evil.example")
def test_a_target_is_always_on_this_server(target: str) -> None:
    found = local_target(target)
    assert found in (target, "/")
    stripped = re.sub(r"[\t\r\n]", "", found)  # as browsers do
    assert urlsplit(urljoin("http://localhost/login", stripped)).netloc == "localhost"


@given(st.integers(min_value=0, max_value=2**32 - 1))
@example(0x7EFFFFFF)
@example(0x7F000000)
@example(0x7FFFFFFF)
@example(0x80000000)
def test_loopback_addresses(number: int) -> None:
    address = ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))
    assert is_loopback(address) == (number >> 24 == 127)


@pytest.mark.parametrize(("host", "expected"), [("::1", True), ("[::1]", True), ("::", False), ("2001:db8::1", False)])
def test_loopback_addresses_of_ipv6(host: str, expected: bool) -> None:
    assert is_loopback(host) == expected
