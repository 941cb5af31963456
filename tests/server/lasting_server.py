"""``tidelog serve`` in one directory and at one port through stops and kills, each start a process of its own."""

from __future__ import annotations

import signal
from pathlib import Path
from types import TracebackType
from typing import Self

from server.harness import KEEPING
from server.server_process import ServerProcess
from tidelog.testing.broker.in_process import keep_port


class LastingServer:
    """Serving from ``with`` on, but between ``stop`` or ``kill`` and ``start``; gone after it."""

    def __init__(self, directory: Path, **settings: str) -> None:
        """``settings``: Kafka's keys with ``_`` for ``.``."""
        self._directory = directory
        self._place = keep_port()
        self.bootstrap = f"127.0.0.1:{self._place.getsockname()[1]}"
        given = {key.replace("_", "."): value for key, value in settings.items()}
        given = {"listeners": f"PLAINTEXT://{self.bootstrap}"} | KEEPING | given
        overrides = [f"{key}={value}" for key, value in given.items()]
        self._arguments = [word for override in overrides for word in ("--override", override)]
        self._process: ServerProcess | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    @property
    def logs(self) -> Path:
        """Its log directory."""
        return self._directory / "tidelog-data"

    def start(self) -> None:
        """Return when it serves."""
        assert self._process is None, "one process owns the directory"
        self._process = ServerProcess(self._directory, *self._arguments)
        self._process.line_with("serving")

    def stop(self) -> None:
        """In order, as SIGTERM asks."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code, words = self._process.ended()
        self._process = None
        assert code == 0, words

    def kill(self) -> None:
        """As ``kill -9``; idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _close(self) -> None:
        self.kill()
        self._place.close()
