"""The access to the pages, and the limits for browsers that show them.

==================  ===============================================================================================
rule                reason
==================  ===============================================================================================
response headers    no script, style, picture or connection from elsewhere; no frame around a page; nothing is kept
Host                on a loopback address only its names are accepted, so that a foreign page cannot rebind a name;
                    ``allowed_hosts`` are further ones, for a proxy in front of it
token               everywhere else each request carries the token, or the cookie of a login with it,
users               or the name and the password of a user of the broker (``visitors``)
failures            a wrong token is logged, and its response is delayed; the broker does so for passwords
methods             GET and HEAD; POST only for the login
==================  ===============================================================================================

Thread rule: the event loop's thread.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import logging
import re
import secrets
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import parse_qs

from tidelog.web.visitors import Visitors

_log = logging.getLogger(__name__)

COOKIE: Final = "tidelog-session"
MAX_LOGIN_BYTES: Final = 4096
_MOST_SESSIONS = 1000
_FAILURE_DELAY_S = 1.0
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\[\]:@/\s]+)(?::[0-9]*)?", re.ASCII)
HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def is_loopback(host: str) -> bool:
    """Return True for localhost and for addresses that only this machine reaches."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


class AccessControl:
    """The access to one server. If there is neither a token nor ``visitors``, it lets everybody in, which is for
    loopback addresses only. An empty token lets no one in."""

    def __init__(
        self,
        *,
        token: str | None,
        loopback_only: bool,
        allowed_hosts: Iterable[str] = (),
        visitors: Visitors | None = None,
    ) -> None:
        self.visitors = visitors
        self._token = None if token is None else token.encode("utf-8", "surrogateescape")
        self._loopback_only = loopback_only
        self._allowed_hosts = frozenset(host.lower().rstrip(".") for host in allowed_hosts)
        self._sessions: dict[str, None] = {}

    def accepts_host(self, header: str) -> bool:
        """Return True if a request with this ``Host`` was meant for this server."""
        name = _host_name(header)
        return not self._loopback_only or is_loopback(name) or name.lower().rstrip(".") in self._allowed_hosts

    @property
    def has_token(self) -> bool:
        """True if a visitor may sign in with a token."""
        return self._token is not None

    async def admits(self, *, authorization: str, cookie: str, address: str) -> bool:
        """Return True if a request may see the pages. ``address`` is the visitor's IP address.

        Headers are decoded as Latin-1, so any bytes are accepted. Raise BusyError and BrokerLinkError if a name and
        password cannot be checked now.
        """
        if (self._token is None and self.visitors is None) or cookie in self._sessions:
            return True
        scheme, _, value = authorization.partition(" ")
        if scheme.lower() == "bearer":
            if self._is_token(value.strip().encode("latin-1", "replace")):
                return True
            await slow_down(address)
            return False
        return self.visitors is not None and await self.visitors.admits(authorization, address)

    def log_in(self, body: bytes) -> tuple[str, str] | None:
        """Return a new session and the target for the form of the login page, or None for a wrong token."""
        try:
            form = parse_qs(body.decode("utf-8", "replace"), max_num_fields=10)
        except ValueError:  # more fields than the form has
            return None
        if not self._is_token(form.get("token", [""])[0].encode()):
            return None
        session = secrets.token_urlsafe(32)
        self._sessions[session] = None
        while len(self._sessions) > _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session, local_target(form.get("target", ["/"])[0])

    def _is_token(self, given: bytes) -> bool:
        return bool(given) and hmac.compare_digest(given, self._token or b"")


async def slow_down(address: str) -> None:
    """Log a wrong token, and wait before the response, so that guesses are slow."""
    _log.warning("A visitor at %s has given a wrong token", address)
    await asyncio.sleep(_FAILURE_DELAY_S)


def local_target(target: str) -> str:
    """Return a path of this server, and ``/`` for any text that a browser could take for another host."""
    is_local = target.startswith("/") and not target.startswith(("//", "/\\")) and target.isprintable()
    return target if is_local and "\\" not in target else "/"


def _host_name(header: str) -> str:
    """Return the name or the address of a ``Host`` header, or "" if the header is malformed."""
    found = _HOST.fullmatch(header)
    return found[1] if found else ""
