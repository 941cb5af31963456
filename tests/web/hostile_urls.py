"""Hostile requests: changed URLs of real pages, with any bytes, parameters, headers and methods.

``hostile_request(seed, ...)`` depends on its arguments only, so a failure can be repeated by its seed.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import quote

from tidelog.web.routes import ROUTES

TRAVERSALS = (
    *("..", ".", "../", "..%2f", "%2e%2e", "%2e%2e%2f", "%2E%2E/", "..%5c", "..\\", "%252e%252e%252f", "....//"),
    *("..;/", "%c0%ae%c0%ae%c0%af", "%e0%80%ae", "%uff0e%uff0e", "..%00/", "/%65tc/passwd", "%2fetc%2fpasswd", "~"),
    *("~..", "~%2e.", "secret-0", "..%2fsecret-0", "%2e%2e%2fsecret-0", "~..%2fsecret-0", "../../secret.txt"),
    "file:///%65tc/passwd",
)
NUMBERS = (
    *("0", "-1", "1", "00", "-0", "+1", "1.5", "1e3", "NaN", "Infinity", "-Infinity", "0x10", "1_000", " 1", "1 "),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775808", "18446744073709551616", "9" * 30),
    *("9" * 5000, "4294967296", "2147483648", "-2147483649", "%EF%BC%91", "%D9%A3", "", "null", "true", "[]", "{}"),
)
TEXTS = (
    *("", "%00", "%0a", "%0d%0aSet-Cookie:%20a=b", "%1b[2J", "%ff", "%c3%28", "%ed%a0%80", "%f0%9f%98%80"),
    *("%e2%80%ae", "%", "%%", "%z", "<script>alert(1)</script>", "%3Cscript%3E", "'\"><img src=x>", "{{7*7}}"),
    *("${7*7}", "%24%7B7%7D", "' OR 1=1 --", "a" * 300, "a" * 2000, "%41" * 400, "*", ".*", "(a+)+$", "[", "\\", "|"),
    *("None", "-", "--", "json", "2030-01-01", "-10", "earliest", "latest", "1970-01-01T00:00:00Z", "9999-12-31"),
    *("0000-00-00", "orders", "txn-0"),
)
PATHS = ("/login", "/static/style.css", "/static/", "/static/../", "/favicon.ico", "/.json", "*", "http://localhost/")
RAW = (b"\x00 \xff \xc3\xa9 \xed\xa0\x80 \r\n \t # \\ \x7f // /./ ? & ; %").split(b" ")
METHODS = ("GET",) * 16 + ("HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "CONNECT", "get", "X" * 50)
HOSTS = (
    *(b"localhost",) * 12,
    *(b"", b"evil.example", b"127.0.0.1:99999", b"[::1", b"[::1]:1", b"\xff", b"a b", b"x" * 9000),
)
HEADERS: Sequence[tuple[bytes, Sequence[bytes]]] = (
    (b"accept", (b"application/json", b"text/html", b"*/*;q=0", b"\xff", b"a" * 5000, b"application/json,text/html")),
    (b"x-forwarded-for", (b"127.0.0.1", b"evil", b"1.2.3.4, 5.6.7.8")),
    (b"x-forwarded-proto", (b"https", b"javascript")),
    (b"x-forwarded-host", (b"evil.example",)),
    (b"x-original-url", (b"/../../etc/passwd",)),
    (b"x-http-method-override", (b"DELETE",)),
    (b"cookie", (b"tidelog-session=x", b"=;;=", b"\xff=\xff", b"a=" + b"b" * 4000, b"tidelog-session")),
    (b"authorization", (b"Bearer x", b"Bearer", b"Basic x", b"Basic " + b"=" * 100, b"\xff", b"Bearer \xff\xfe")),
    (b"range", (b"bytes=0-1", b"bytes=5-1", b"bytes=-99999", b"x=0-1", b"bytes=0-0,1-1,2-2")),
    (b"if-none-match", (b"*", b'"x"')),
    (b"if-modified-since", (b"yesterday", b"Sat, 01 Jan 2033 00:00:00 GMT")),
    (b"content-type", (b"application/x-www-form-urlencoded", b"multipart/form-data; boundary=x", b"\xff")),
    (b"origin", (b"https://evil.example", b"null")),
    (b"accept-encoding", (b"gzip", b"identity;q=0")),
)
BODIES = (b"", b"token=x", b"token=" + b"x" * 4096, b"\xff" * 100, b"a=1&" * 1000, b"--x\r\n\r\n")


@dataclass(frozen=True, slots=True)
class HostileRequest:
    """``host`` b"" stands for no header ``Host``."""

    target: bytes
    method: str
    host: bytes
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


def hostile_request(seed: int, urls: Sequence[str], names: Sequence[str]) -> HostileRequest:
    """Return the request of a seed. ``urls`` are URLs of real pages, and ``names`` the parameters of pages."""
    chance = random.Random(seed)
    path, query = _base(chance, urls)
    for _ in range(chance.choice((0, 1, 1, 1, 2, 3))):
        path = _changed_path(chance, path)
    pairs = [query] if query else []
    pairs += [_parameter(chance, names) for _ in range(chance.choice((0, 0, 1, 1, 2, 4, 60)))]
    chance.shuffle(pairs)
    target = path.encode() + (b"?" + "&".join(pairs).encode() if pairs or chance.random() < 0.05 else b"")
    if chance.random() < 0.1:
        at = chance.randrange(len(target) + 1)
        target = target[:at] + chance.choice(RAW) + target[at:]
    headers = []
    for _ in range(chance.choice((0, 0, 0, 1, 1, 3))):
        name, values = chance.choice(HEADERS)
        headers.append((name, chance.choice(values)))
    method = chance.choice(METHODS)
    body = chance.choice(BODIES) if method not in ("GET", "HEAD") else b""
    return HostileRequest(target, method, chance.choice(HOSTS), headers, body)


def _base(chance: random.Random, urls: Sequence[str]) -> tuple[str, str]:
    """Return the path and the query of a real page, or of a route whose parts are hostile."""
    match chance.randrange(8):
        case 0:
            parts = [_part(chance) if one.startswith("{") else one for one in chance.choice(ROUTES).pattern.split("/")]
            return "/".join(parts), ""
        case 1:
            return chance.choice(
                ("/login", "/static/style.css", "/static/", "/static/../", "/favicon.ico", "/.json", "")
            ), ""
        case _:
            path, _, query = chance.choice(urls).partition("?")
            return path, query if chance.random() < 0.5 else ""


def _part(chance: random.Random) -> str:
    return chance.choice(chance.choice((TRAVERSALS, NUMBERS, TEXTS)))


def _changed_path(chance: random.Random, path: str) -> str:
    parts = path.split("/")
    number = chance.randrange(len(parts))
    match chance.randrange(10):
        case 0:
            parts[number] = _part(chance)
        case 1:
            parts.insert(number, _part(chance))
        case 2:
            del parts[number]
        case 3:
            parts[number] = parts[number].swapcase()
        case 4:
            parts[number] = quote(parts[number]).replace("-", "%2D").replace("0", "%30")
        case 5:
            parts[number] += _part(chance)
        case 6:
            parts.append(chance.choice(("", "..", "segments", "records", "batches", "0", "findings")))
        case 7:
            return path + chance.choice((".json", ".json.json", ".JSON", "%2ejson", ".html", "/", "//", "/."))
        case 8:
            at = chance.randrange(len(path) + 1)
            return path[:at] + path[at + 1 :]
        case _:
            parts[number] = chance.choice(NUMBERS)
    return "/".join(parts)


def _parameter(chance: random.Random, names: Sequence[str]) -> str:
    name = chance.choice(names) if chance.random() < 0.9 else chance.choice(TEXTS)
    return f"{name}={chance.choice(chance.choice((NUMBERS, TEXTS, TRAVERSALS)))}"
