"""The resources of a row's cases: the data, Kafka's warm JVM, and our workers, which end with the run."""

from __future__ import annotations

import sys
import tempfile
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from benchmarks.datasets import CACHE, Data
from benchmarks.server.pair import Pair
from benchmarks.server.tls_pair import tls_pair
from benchmarks.worker import Worker
from real_kafka.java import NEWEST, TOOLS, java_command

_Process = TypeVar("_Process", bound=AbstractContextManager[object])


class Bench:
    """Starter of each requested resource, once. Leaving the context ends all of them."""

    def __init__(self, *, scale: float = 1.0) -> None:
        self._stack = ExitStack()
        self.scale = scale
        self._java: Worker | None = None
        self._java_tools: Worker | None = None
        self._data: Data | None = None
        self._ours: Worker | None = None
        self._brokers: Pair | None = None
        self._tls_brokers: Pair | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def java(self) -> Worker:
        """Kafka's side: a JVM with its usual compilers and collector."""
        if self._java is None:
            self._java = self._peer(NEWEST)
        return self._java

    @property
    def java_tools(self) -> Worker:
        """A JVM for Kafka's command line tools, which are of another release."""
        if self._java_tools is None:
            self._java_tools = self._peer(TOOLS)
        return self._java_tools

    def _peer(self, release: str) -> Worker:
        return self._stack.enter_context(Worker(java_command("Peer", heap_mib=1024, switches=(), release=release)))

    @property
    def ours(self) -> Worker:
        """The worker of our side."""
        if self._ours is None:
            self._ours = self._stack.enter_context(Worker([sys.executable, "-m", "benchmarks.worker"]))
        return self._ours

    @property
    def data(self) -> Data:
        if self._data is None:
            self._data = Data(self.java, scale=self.scale)
        return self._data

    @property
    def brokers(self) -> Pair:
        """Kafka's broker and ours, which serve until the end."""
        if self._brokers is None:
            self._brokers = Pair.start(self.directory(), self.enter, self.scale)
        return self._brokers

    @property
    def tls_brokers(self) -> Pair:
        """Another broker of each, with clients that use TLS."""
        if self._tls_brokers is None:
            self._tls_brokers = tls_pair(self.directory(), self.enter, self.scale)
        return self._tls_brokers

    def enter(self, process: _Process) -> _Process:
        """Keep a worker or a broker until the end."""
        return self._stack.enter_context(process)

    def directory(self) -> Path:
        """Make a directory for a row's files, next to the data. It is deleted with the run."""
        CACHE.mkdir(parents=True, exist_ok=True)
        return Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="run-", dir=CACHE)))
