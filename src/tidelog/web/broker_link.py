"""The link of the pages to the broker that has started their process: live reports, and the check of visitors.

A request is a line of JSON on an inherited Unix socket, and so is its response; ``server.live_reports.link_server`` is
the other end and lists both. One thread reads the responses. If the broker ends, the socket is closed: ``on_closed`` is
called then, and requests under way fail. Thread rule: any thread.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from tidelog.model import TidelogError

_TIMEOUT_S = 3.0
_CHECK_TIMEOUT_S = 20.0
"""The response to a wrong password is delayed."""

Reports = Mapping[str, Any]
"""Reports by name, as ``server.live_reports`` describes them."""


class BrokerLinkError(TidelogError):
    """The broker did not respond, or reported an error."""


class Broker(Protocol):
    """A running broker, as pages see it."""

    def reports(self, names: Sequence[str], *, name: str = "", most: int = 200) -> Reports:
        """Return reports by name. ``name`` is a part of the names of the wanted rows. Raise BrokerLinkError."""
        ...


class BrokerLink:
    def __init__(
        self, sock: socket.socket, *, on_closed: Callable[[], None] = lambda: None, timeout_s: float = _TIMEOUT_S
    ) -> None:
        """Take over the connected socket, and start the thread that reads from it."""
        self._socket = sock
        self._on_closed = on_closed
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._number = 0
        self._waiting: dict[int, Future[Mapping[str, Any]]] = {}
        self._is_closed = False
        threading.Thread(target=self._read, name="broker-link", daemon=True).start()

    def reports(self, names: Sequence[str], *, name: str = "", most: int = 200) -> Reports:
        """Return reports by name; see ``Broker``."""
        response = self._ask({"reports": list(names), "name": name, "most": most}, self._timeout_s)
        reports: Reports = response["reports"]
        return reports

    def allows(self, user: str, password: str, address: str) -> bool:
        """Return True if a visitor at an IP address may see the pages. A refusal takes a while. Raise
        BrokerLinkError."""
        response = self._ask({"user": user, "password": password, "address": address}, _CHECK_TIMEOUT_S)
        return bool(response["is_allowed"])

    def close(self) -> None:
        """End the link; idempotent."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    # --- inside ---

    def _ask(self, request: Mapping[str, object], timeout_s: float) -> Mapping[str, Any]:
        future: Future[Mapping[str, Any]] = Future()
        with self._lock:
            if self._is_closed:
                raise BrokerLinkError("the broker has ended")
            self._number += 1
            number = self._number
            self._waiting[number] = future
            try:
                self._socket.sendall(json.dumps({"id": number, **request}).encode() + b"\n")
            except OSError as error:
                del self._waiting[number]
                raise BrokerLinkError(f"the broker cannot be asked: {error.strerror}") from None
        try:
            response = future.result(timeout_s)
        except TimeoutError:
            raise BrokerLinkError(f"the broker did not respond within {timeout_s:.0f} s") from None
        finally:
            with self._lock:
                self._waiting.pop(number, None)
        if "error" in response:
            raise BrokerLinkError(str(response["error"]))
        return response

    def _read(self) -> None:
        try:
            with self._socket.makefile("rb") as lines:
                for line in lines:
                    response = json.loads(line)
                    with self._lock:
                        future = self._waiting.pop(response["id"], None)
                    if future is not None:
                        future.set_result(response)
        except (OSError, ValueError):
            pass  # the same as a closed socket
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            future.set_exception(BrokerLinkError("the broker has ended"))
        self._on_closed()
