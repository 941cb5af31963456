"""The inspector as a process: uvicorn with the application, until a signal ends it, or the broker that has started it.

A process that a broker has started ends with the broker: its end of the link is closed then.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

import uvicorn

from tidelog.model import ConfigError
from tidelog.web.app import create_app
from tidelog.web.broker_link import BrokerLink
from tidelog.web.jobs import Jobs
from tidelog.web.request import PageRequest
from tidelog.web.security import AccessControl, is_loopback
from tidelog.web.sources import Sources
from tidelog.web.visitors import Visitors

_STOP_SECONDS = 2
_LONGEST_STOP_SECONDS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Serving:
    """``listener`` is a listening socket, and ``link`` a connected one to the broker."""

    listener: socket.socket
    token: str | None = field(default=None, repr=False)
    allowed_hosts: Sequence[str] = ()
    link: socket.socket | None = None
    with_users: bool = False
    """True if visitors may sign in as users of the broker. It needs the link."""


def run(sources: Sources, serving: Serving, *, on_ready: Callable[[], None]) -> None:
    """Serve until SIGTERM or SIGINT, or until the broker has ended. This is the main thread.

    Raise ConfigError for users without a link.
    """
    if serving.with_users and serving.link is None:
        raise ConfigError("the users of a broker can only be checked by a process that the broker has started")
    jobs = Jobs()
    stopped = threading.Event()
    link = None if serving.link is None else BrokerLink(serving.link, on_closed=stopped.set)
    is_open = serving.token is None and not serving.with_users
    access = AccessControl(
        token=serving.token,
        loopback_only=is_loopback(str(serving.listener.getsockname()[0])) and is_open,
        allowed_hosts=serving.allowed_hosts,
        visitors=Visitors(link.allows) if serving.with_users and link is not None else None,
    )
    config = uvicorn.Config(
        create_app(PageRequest(sources=sources, jobs=jobs, broker=link), access),
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        lifespan="off",
        timeout_graceful_shutdown=_STOP_SECONDS,
        limit_concurrency=200,
    )
    server = _Server(config)
    if link is not None:
        threading.Thread(target=_end_with, args=(stopped, server), name="broker-watch", daemon=True).start()
    try:
        with _ended_by_signals(server):
            on_ready()
            server.run(sockets=[serving.listener])
    finally:
        if link is not None:
            link.close()
        jobs.close()


class _Server(uvicorn.Server):
    """uvicorn's server, which sleeps until a request comes. The original wakes up ten times a second, and each time
    takes the processor from a broker under load."""

    _loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._is_over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        if not self.should_exit:
            await self._is_over.wait()
        self._loop = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.end()

    def end(self) -> None:
        """End the server; from any thread."""
        self.should_exit = True
        loop = self._loop  # ``main_loop`` removes it, because a closed loop refuses calls
        if loop is not None:
            loop.call_soon_threadsafe(self._is_over.set)


@contextmanager
def _ended_by_signals(server: uvicorn.Server) -> Iterator[None]:
    """Make SIGTERM and SIGINT a normal end, unless a signal is ignored, as a broker's child ignores SIGINT.

    uvicorn raises a signal again after its shutdown, for the handler from before. The default handlers would then end
    the process with an error.
    """
    heeded = [number for number in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, server.handle_exit) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with(stopped: threading.Event, server: _Server) -> None:
    """Stop the server once the broker has ended. A page that takes long is not waited for."""
    stopped.wait()
    server.end()
    threading.Event().wait(_LONGEST_STOP_SECONDS)
    os._exit(0)
