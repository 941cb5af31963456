"""A ``tidelog serve`` process that can be stopped, killed and started again with the same directory and port."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from server.harness import KEEPING
from server.server_process import ServerProcess
from tidelog.testing.broker.kept_port import keep_port


class Lasting(Protocol):
    """A server or a cluster that tests end and start again."""

    @property
    def bootstrap_servers(self) -> str: ...

    @property
    def node_ids(self) -> Sequence[int]: ...

    @property
    def directories(self) -> Sequence[Path]:
        """The log directories. Each one has all partitions."""
        ...

    def start(self) -> None: ...

    def stop(self) -> None:
        """End the server, or a broker of the cluster, by a clean shutdown."""
        ...

    def kill(self) -> None:
        """End the server, or a broker of the cluster, by SIGKILL."""
        ...

    def settle(self) -> None:
        """Wait until all brokers know of the changes so far, and all replicas are in sync."""
        ...


class LastingServer:
    """The server runs inside ``with``, except between ``stop`` or ``kill`` and ``start``."""

    node_ids = (1,)

    def __init__(self, directory: Path, **settings: str) -> None:
        """Take settings as Kafka's keys with ``_`` for ``.``."""
        self._directory = directory
        self._place = keep_port()
        self.bootstrap_servers = f"127.0.0.1:{self._place.getsockname()[1]}"
        given = {key.replace("_", "."): value for key, value in settings.items()}
        given = {"listeners": f"PLAINTEXT://{self.bootstrap_servers}"} | KEEPING | given
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

    @property
    def directories(self) -> list[Path]:
        return [self.logs]

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

    def settle(self) -> None:
        """Do nothing, because a single broker knows of every change."""

    def _close(self) -> None:
        self.kill()
        self._place.close()
