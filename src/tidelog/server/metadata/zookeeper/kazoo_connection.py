"""The parts of kazoo that all clients share: options, TLS, and a handler without threads of its own.

This module imports kazoo, so it is imported with the first client, after ``require_kazoo``.
"""

from __future__ import annotations

import logging
import select
from typing import Any, Final

from kazoo.handlers.threading import SequentialThreadingHandler

from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings

KAZOO_LOG: Final = logging.Logger("kazoo", logging.CRITICAL)
"""A log without handlers: each failure becomes an error or a state."""


class Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """The handler of a client without callbacks. It opens connections, with TLS if the settings have it."""

    def __init__(self, settings: ZooKeeperSettings, timeout_ms: int) -> None:
        super().__init__()
        self._tls = settings.tls
        self._timeout_s = timeout_ms / 1000 / len(settings.address.servers)

    def start(self) -> None:
        """Start no thread: nothing dispatches a callback."""

    def stop(self) -> None:
        """Return at once: this handler has no threads."""

    def select(self, readers: Any, writers: Any, _others: Any, timeout: float | None = None) -> Any:
        """Wait for sockets. kazoo would make a new selector each time, which takes longer than a request."""
        waiting = select.poll()
        for one in readers:
            waiting.register(one, select.POLLIN)
        for one in writers:
            waiting.register(one, select.POLLOUT)
        ready = {number for number, _ in waiting.poll(None if timeout is None else timeout * 1000)}
        return [one for one in readers if one.fileno() in ready], [one for one in writers if one.fileno() in ready], []

    def create_connection(self, *, address: Any, hostname: str, **_options: Any) -> Any:
        connection = super().create_connection(address, timeout=self._timeout_s)
        return connection if self._tls is None else self._tls.wrap_socket(connection, server_hostname=hostname)


def client_options(settings: ZooKeeperSettings, session_timeout_ms: int) -> dict[str, Any]:
    """Return the arguments of a KazooClient."""
    return {
        "hosts": ",".join(settings.address.servers),
        "timeout": session_timeout_ms / 1000,
        "handler": Handler(settings, session_timeout_ms),
        "read_only": False,  # a server without a quorum may have old data
        "logger": KAZOO_LOG,
    }
