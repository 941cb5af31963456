"""A ``tidelog serve`` process that can be stopped, killed and started again with the same directory and port."""

from __future__ import annotations

import signal
from pathlib import Path
from types import TracebackType
from typing import Self

from server.harness import KEEPING
from server.server_process import ServerProcess
from tidelog.testing.broker.kept_port import keep_port


class LastingServer:
    """The server runs inside ``with``, except between ``stop`` or ``kill`` and ``start``."""

    def __init__(self, directory: Path, **settings: str) -> None:
        """Take settings as Kafka's keys with ``_`` for ``.``."""
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
        """The log directory."""
        return self._directory / "tidelog-data"

    def start(self) -> None:
        """Return when the server is ready."""
        assert self._process is None, "one process owns the directory"
        self._process = ServerProcess(self._directory, *self._arguments)
        self._process.line_with("serving")

    def stop(self) -> None:
        """Send SIGTERM and wait for a clean shutdown."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        code, words = self._process.ended()
        self._process = None
        assert code == 0, words

    def kill(self) -> None:
        """Send SIGKILL. The call is idempotent."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _close(self) -> None:
        self.kill()
        self._place.close()
