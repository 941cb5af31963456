"""A node in the test's own process: a broker or a controller, with its life and the faults of its requests.

It runs on an event loop in a background thread. It keeps one port for its life. States::

    new -> start -> serving -> stop, or kill -> start again, on its old data -> ...

=========  ==========================================================================================================
end        state on disk
=========  ==========================================================================================================
stop       a clean shutdown: logs are flushed and closed, and the marker is written; the next start loads them as they
           are
kill       the state after ``kill -9``: written data is there, but nothing is flushed, closed, trimmed or marked. The
           next start recovers it. Connections end without a response
failure    that of ``stop``, as far as the failure lets it. A node ends itself as its process would, for example after
           its last log directory has failed. ``failure`` has the reason
=========  ==========================================================================================================

Thread rule: any one thread except the loop's. ``call`` and ``run`` reach the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from tidelog.model import TidelogError
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.broker_state import BrokerState
from tidelog.server.cluster_node import ClusterNode
from tidelog.testing.broker.faults import Fault, Faults
from tidelog.testing.broker.kept_port import HOST, keep_port
from tidelog.testing.broker.killable_files import KillableFiles
from tidelog.testing.broker.loop_thread import LoopThread

Result = TypeVar("Result")


class InProcessNode(ABC):
    server: ClusterNode
    """The running node. Only its loop may look at its state."""
    failure: str | None = None
    """The reason why the node has ended by itself since its last start, as ``tidelog serve`` reports it."""
    _faults: Faults
    _ending: asyncio.Task[None] | None = None
    """The end after a failure."""

    def __init__(self, directory: Path, configs: Mapping[str, str], thread: LoopThread) -> None:
        """Reserve the port. ``configs`` are the node's own settings by Kafka's keys."""
        self.directory = directory
        self.configs = dict(configs)
        self._thread = thread
        self._place = keep_port()
        self._files = KillableFiles()

    @property
    def own_port(self) -> int:
        """The port of the node's own listener, the same after every start."""
        port: int = self._place.getsockname()[1]
        return port

    @property
    def address(self) -> str:
        """The host and the port of the node's own listener."""
        return f"{HOST}:{self.own_port}"

    @property
    def is_running(self) -> bool:
        """True from a start to the end of the node."""
        return hasattr(self, "server") and self.server.state is not BrokerState.NOT_RUNNING

    # --- its life ---

    def start(self) -> None:
        """Return when requests are served, or once the node has failed. Raise ConfigError, or an error from loading the
        data."""
        self.run(self.begin)

    async def begin(self) -> None:
        """Start like ``start``. Thread rule: the loop's."""
        self.server = self._renewed()
        await self.server.start()
        if self.failure is not None:
            await self.end()

    def stop(self) -> None:
        """Shut down cleanly. Idempotent."""
        if self.is_running:
            self.run(self.end)

    async def end(self) -> None:
        """Shut down like ``stop``. Thread rule: the loop's."""
        await (self._ending or self.server.stop())

    def kill(self) -> None:
        """End the node like ``kill -9`` ends a process; see the module."""
        self.run(self._die)

    def restart(self, configs: Mapping[str, str] | None = None) -> None:
        """Shut down cleanly and start, with ``configs`` added to the earlier ones."""
        self.stop()
        self.configs |= configs or {}
        self.start()

    def close(self) -> None:
        """Stop for good, and release the port."""
        try:
            self.stop()
        finally:
            self.release()

    def release(self) -> None:
        """Release the port of a stopped node."""
        self._place.close()

    # --- faults of requests ---

    def fail_next(self, api: ApiKey, *, error: ErrorCode, times: int = 1, topic: str | None = None) -> None:
        """Fail the next requests of an API, or of an API on a topic, with an error. They are not carried out."""
        self._plan(Fault(api=api, topic=topic, times=times, error=error))

    def delay_next(self, api: ApiKey, *, ms: int, times: int = 1, topic: str | None = None) -> None:
        """Delay the next requests by ``ms`` of the node's time."""
        self._plan(Fault(api=api, topic=topic, times=times, delay_ms=ms))

    def lose_response(self, api: ApiKey, *, times: int = 1, topic: str | None = None) -> None:
        """Carry out the next requests, and close the connection instead of a response."""
        self._plan(Fault(api=api, topic=topic, times=times, loses_response=True))

    def forget_faults(self) -> None:
        """Drop the faults that no request has met yet."""
        self.call(self._faults.forget)

    @property
    def has_faults(self) -> bool:
        """True if some faults were not met yet."""
        return self._faults.are_planned

    def drop_connections(self, client_id: str | None = None) -> int:
        """Close a client's connections, or all, and return their number."""
        return self.call(lambda: self._faults.drop_connections(client_id))

    # --- its loop ---

    def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """See ``LoopThread.run``."""
        return self._thread.run(work)

    def call(self, function: Callable[[], Result]) -> Result:
        """See ``LoopThread.call``."""
        return self._thread.call(function)

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """See ``LoopThread.wait_for``."""
        self._thread.wait_for(is_so)

    # --- inside ---

    @abstractmethod
    def _made(self) -> ClusterNode:
        """Return a new node that has opened nothing. Its dispatcher has ``self._faults``. Thread rule: the loop's."""

    def _renewed(self) -> ClusterNode:
        self._files = KillableFiles()
        self.failure = self._ending = None
        server = self._made()
        server.on_failure = partial(self._on_failure, server)
        return server

    async def _die(self) -> None:
        self._files.kill()
        for listener in self.server.listeners:
            listener.close()
        with contextlib.suppress(TidelogError):
            await (self._ending or self.server.stop(hands_over=False))

    def _on_failure(self, server: ClusterNode, reason: str) -> None:
        """End the node as its process does (``server.process``). A node that ends already, or has ended, goes on."""
        if server.state is BrokerState.RUNNING and self._ending is None:
            self._ending = server.loop.create_task(self._end_failed(server))
        elif server.state is not BrokerState.STARTING:
            return
        self.failure = self.failure or reason

    async def _end_failed(self, server: ClusterNode) -> None:
        with contextlib.suppress(TidelogError):
            await server.stop()

    def _plan(self, fault: Fault) -> None:
        self.call(lambda: self._faults.plan(fault))
