"""The process of the inspector's pages, which a node starts for its own log directories (``tidelog serve --web``).

The pages run in a process of their own with a low priority. So a page costs the broker neither its interpreter lock nor
memory, and a defect of a page cannot end the broker. Both share a Unix socket: the process asks for reports
(``link_server``). The node binds the address of the pages itself, before its start, and keeps that socket open. So a
mistake in the address ends the start, and visitors wait while the process starts again.

======================================  ==============================================================================
event                                   effect
======================================  ==============================================================================
the log directories exist               the process starts, also while the logs are being recovered
the process ends                        a line in the log, and a new process after a pause, which doubles each time
the node stops                          SIGTERM for the process, and SIGKILL after ``_PATIENCE_S``
the node is killed                      its end of the socket is closed, and the process ends by itself
======================================  ==============================================================================

Lines that the process writes to stderr go to the node's log. Thread rule: the event loop, and one thread of this module
that starts the process and waits for its end. Both use ``_process`` and ``_is_stopping`` alone.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from tidelog.model import TidelogError
from tidelog.replication.broker_state import BrokerState
from tidelog.server.cluster_node import ClusterNode
from tidelog.server.live_reports.link_server import serve_link
from tidelog.server.live_reports.reported_node import ReportedNode
from tidelog.server.live_reports.request_times import TICK_S, RequestTimes
from tidelog.server.metadata.kraft.formatting import metadata_directory_of
from tidelog.server.network.endpoint import is_broker
from tidelog.storage.fs import LOCAL, ReadOnlyFileSystem
from tidelog.storage.log.view.partitions import require_log_directory

TOKEN_VARIABLE: Final = "TIDELOG_WEB_TOKEN"
_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_LOOK_EVERY_S: Final = 0.2
_PATIENCE_S: Final = 4.0
_LINES_A_MINUTE: Final = 60
_LONGEST_LINE: Final = 2000

_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesSetup:
    """``listener`` is the bound socket of the pages."""

    listener: socket.socket
    token: str | None = field(default=None, repr=False)
    with_users: bool = False
    """True if visitors sign in with a name and password of the broker."""
    allowed_hosts: Sequence[str] = ()
    """Further names of this server in a request's ``Host``."""


class PagesProcess:
    """The process of one node, from ``start`` to ``stop``; also as an asynchronous context manager."""

    def __init__(self, node: ClusterNode, setup: PagesSetup) -> None:
        """Measure the requests of a node that is not started yet."""
        self._reported = ReportedNode(node=node, started_ms=node.clock.now_ms(), times=RequestTimes())
        times = self._reported.times
        node.service = None if node.service is None else times.measured(node.service)
        service = node.controller_service
        node.controller_service = None if service is None else times.measured(service)
        self._setup = setup
        self._is_stopping = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="tidelog-pages", daemon=True)
        self._links: set[asyncio.Task[None]] = set()
        self._ticks: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def start(self) -> None:
        """Start the process as soon as the log directories exist. Call it before the node's start."""
        self._loop = asyncio.get_running_loop()
        self._tick()
        self._thread.start()

    def begin_stop(self) -> None:
        """Ask the process to end; idempotent."""
        self._is_stopping.set()
        if self._ticks is not None:
            self._ticks.cancel()
        if self._process is not None:
            self._process.terminate()

    async def stop(self) -> None:
        """Return when the process has ended."""
        self.begin_stop()
        deadline_s = time.monotonic() + _PATIENCE_S
        while self._thread.is_alive():
            if time.monotonic() > deadline_s and self._process is not None:
                self._process.kill()
            await asyncio.sleep(0.02)
        for link in self._links:
            link.cancel()
        self._setup.listener.close()

    # --- the event loop ---

    def _tick(self) -> None:
        self._reported.times.tick()
        self._ticks = self._loop.call_later(TICK_S, self._tick)

    def _serve(self, sock: socket.socket) -> None:
        task = self._loop.create_task(serve_link(sock, self._reported))
        self._links.add(task)
        task.add_done_callback(self._links.discard)

    # --- the thread ---

    def _run(self) -> None:
        importlib.import_module("tidelog.server.live_reports.reports")  # here, because it takes a tenth of a second
        pause_s = _PAUSE_S
        while not self._is_stopping.is_set():
            directories = self._directories()
            if not directories:
                self._is_stopping.wait(_LOOK_EVERY_S)
                continue
            begun_s = time.monotonic()
            reason = self._run_once(directories)
            if self._is_stopping.is_set():
                return
            pause_s = _PAUSE_S if time.monotonic() - begun_s > _LONGEST_PAUSE_S else pause_s
            _log.error("The process of the pages has ended: %s. It starts again in %.0f s", reason, pause_s)
            self._is_stopping.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _run_once(self, directories: Sequence[Path]) -> str:
        """Start a process, wait for its end, and return a clause with the reason."""
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                process = self._started(directories, theirs)
        except OSError as error:
            ours.close()
            return f"it cannot be started: {error}"
        self._process = process
        if self._is_stopping.is_set():  # ``begin_stop`` may have missed it
            process.terminate()
        try:
            self._loop.call_soon_threadsafe(self._serve, ours)
        except RuntimeError:  # the loop is closed
            ours.close()
        self._forward_lines(process)
        code = process.wait()
        self._process = None
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def _started(self, directories: Sequence[Path], link: socket.socket) -> subprocess.Popen[bytes]:
        setup = self._setup
        inherited = (setup.listener.fileno(), link.fileno())
        environment = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
        if setup.token is not None:
            environment[TOKEN_VARIABLE] = setup.token  # arguments can be seen by others
        options = ["--from-broker", ",".join(map(str, inherited))]
        options += ["--broker-users"] if setup.with_users else []
        options += [word for host in setup.allowed_hosts for word in ("--allow-host", host)]
        return subprocess.Popen(
            [sys.executable, "-m", "tidelog", "web", *options, "--", *map(str, directories)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            pass_fds=inherited,
            start_new_session=True,  # Ctrl-C is for the node, which stops the process
        )

    def _forward_lines(self, process: subprocess.Popen[bytes]) -> None:
        """Log the lines of the process until it ends. Lines beyond ``_LINES_A_MINUTE`` are left out."""
        assert process.stderr is not None
        minute, lines = 0.0, 0
        with process.stderr as stderr:
            while line := stderr.readline(_LONGEST_LINE):
                if time.monotonic() - minute >= 60:
                    minute, lines = time.monotonic(), 0
                lines += 1
                if lines <= _LINES_A_MINUTE:
                    _log.warning("The pages: %s", line.decode("utf-8", "replace").rstrip())

    def _directories(self) -> list[Path]:
        """Return the node's log directories, or nothing while one of them is missing that the start may create."""
        config = self._reported.node.config
        paths = [Path(path) for path in config.log_dirs] if is_broker(config) else []
        if self._reported.node.zookeeper is None:
            paths.append(metadata_directory_of(config))
        wanted = list(dict.fromkeys(paths))
        found = [path for path in wanted if _is_log_directory(path)]
        is_running = self._reported.node.state is BrokerState.RUNNING
        return found if is_running or len(found) == len(wanted) else []


def _is_log_directory(path: Path) -> bool:
    try:
        require_log_directory(ReadOnlyFileSystem(LOCAL), path)
    except TidelogError:
        return False
    return True
