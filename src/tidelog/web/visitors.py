"""Visitors who sign in with a name and password of the broker, by HTTP Basic.

Each request carries both, so a successful check counts for ``KEPT_MS``: a change of the password or of the permissions
takes effect after that time at the latest. Only a keyed hash of the header is kept. The broker logs and delays
failures; a visitor's address may have few checks at the same time, so that guesses are slow. Thread rule: the event
loop's thread.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
from collections import Counter, OrderedDict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.web.jobs import BusyError

CHALLENGE: Final = 'Basic realm="tidelog", charset="UTF-8"'
KEPT_MS: Final = 60_000
_MOST_KEPT: Final = 1000
_MOST_CHECKS: Final = 8
_MOST_CHECKS_OF_ADDRESS: Final = 2

Check = Callable[[str, str, str], bool]
"""Returns True for a valid name and password from an IP address; in any thread. A refusal takes a while."""


class Visitors:
    def __init__(self, check: Check, clock: Clock = SYSTEM_CLOCK) -> None:
        self._check = check
        self._clock = clock
        self._key = secrets.token_bytes(32)
        self._kept: OrderedDict[bytes, int] = OrderedDict()
        """The times of successful checks by the hash of the header."""
        self._running: dict[bytes, asyncio.Future[bool]] = {}
        """The checks under way by the hash of the header: the tabs of a browser share one."""
        self._checks: Counter[str] = Counter()
        """The checks under way by address."""
        self._threads = ThreadPoolExecutor(_MOST_CHECKS, thread_name_prefix="sign-in")

    async def admits(self, authorization: str, address: str) -> bool:
        """Return True if a header ``Authorization`` has a valid name and password.

        Raise BusyError if too many checks are under way, and the errors of the check.
        """
        found = parse_basic(authorization)
        if found is None:
            return False
        now_ms, digest = self._clock.monotonic_ms(), hmac.digest(self._key, authorization.encode(), "sha256")
        if now_ms - self._kept.get(digest, now_ms - KEPT_MS) < KEPT_MS:
            return True
        running = self._running.get(digest)
        if running is None:
            running = self._begin(digest, found, address)
        is_valid = await asyncio.shield(running)
        if is_valid:
            self._keep(digest, now_ms)
        return is_valid

    def _begin(self, digest: bytes, visitor: tuple[str, str], address: str) -> asyncio.Future[bool]:
        if self._checks.total() >= _MOST_CHECKS or self._checks[address] >= _MOST_CHECKS_OF_ADDRESS:
            raise BusyError("too many visitors sign in at this moment; try again")

        def done(_future: asyncio.Future[bool]) -> None:
            del self._running[digest]
            self._checks[address] -= 1
            self._checks += Counter()  # drops zero counts

        self._checks[address] += 1
        running = asyncio.get_running_loop().run_in_executor(self._threads, self._check, *visitor, address)
        self._running[digest] = running
        running.add_done_callback(done)
        return running

    def _keep(self, digest: bytes, now_ms: int) -> None:
        self._kept[digest] = now_ms
        self._kept.move_to_end(digest)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)


def parse_basic(authorization: str) -> tuple[str, str] | None:
    """Return the name and the password of HTTP Basic (RFC 7617), or None."""
    scheme, _, value = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        name, colon, password = base64.b64decode(value.strip(), validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return (name, password) if colon else None
