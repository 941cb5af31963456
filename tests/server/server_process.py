"""A ``tidelog serve`` process that tests start, measure, stop by signals, and kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from server.harness import WireClient
from tidelog.testing.broker.loop_thread import PATIENCE_S

RUN = "from tidelog.cli.main import main; main()"
ANY_PORT = "PLAINTEXT://127.0.0.1:0"


class ServerProcess:
    """A process whose data is in ``directory``/tidelog-data."""

    def __init__(self, directory: Path, *arguments: str, code: str = RUN) -> None:
        """Run ``serve`` with ``arguments``. ``code`` is the program, which a test may replace to modify the broker."""
        command = [sys.executable, "-c", code, "serve", *arguments]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=directory)
        self._lines: list[str] = []
        self._is_silent = False
        self._said = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def port(self) -> int:
        """The broker's port. Reading it waits until the broker is ready."""
        return int(self.line_with("serving").rsplit(":", 1)[1])

    @property
    def memory_bytes(self) -> int:
        """The resident memory."""
        pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    @property
    def lines(self) -> list[str]:
        """The lines on stderr so far."""
        with self._said:
            return list(self._lines)

    def line_with(self, word: str) -> str:
        """Wait for the first line on stderr that begins with ``word``, and return it."""

        def found() -> list[str]:
            return [line for line in self._lines if line.startswith(word)]

        with self._said:
            self._said.wait_for(lambda: found() or self._is_silent, PATIENCE_S)
            assert found(), f"it never said {word!r}, but: {''.join(self._lines)}"
            return found()[0]

    def send_signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ended(self) -> tuple[int, str]:
        """Wait for the process to end. Return its exit code and everything it wrote."""
        code = self._process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        return code, "".join(self._lines)

    def kill(self) -> None:
        """Send SIGKILL. The call is idempotent."""
        self._process.kill()
        self.ended()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as stderr:
            for line in stderr:
                with self._said:
                    self._lines.append(line)
                    self._said.notify_all()
        with self._said:
            self._is_silent = True
            self._said.notify_all()


@contextmanager
def serving(directory: Path, *arguments: str, code: str = RUN) -> Iterator[ServerProcess]:
    """Yield a ``ServerProcess`` with these arguments. Kill it at the end if it still runs."""
    process = ServerProcess(directory, *arguments, code=code)
    try:
        yield process
    finally:
        process.kill()


@contextmanager
def served(directory: Path, **settings: str) -> Iterator[tuple[ServerProcess, WireClient]]:
    """Yield a broker on any port, and a client. ``settings`` are Kafka's keys with ``_`` for ``.``."""
    overrides = {"listeners": ANY_PORT} | {key.replace("_", "."): value for key, value in settings.items()}
    arguments = [word for key, value in overrides.items() for word in ("--override", f"{key}={value}")]
    with serving(directory, *arguments) as process, WireClient(process.port) as client:
        yield process, client
