"""`tidelog mirror` as a process that tests start, kill and stop."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE_S = 120


class MirrorProcess:
    """A mirror of a source, at most one process at a time. Leaving the context kills the process."""

    def __init__(self, copy: Path, bootstrap: str, *options: str) -> None:
        """Keep the command. ``options`` are added to it."""
        self.copy = copy
        self.log_file = copy.with_suffix(".mirror.log")
        """The output of all runs: a JSON object for each event, and errors."""
        self.log_file.touch()
        command = [sys.executable, "-m", "tidelog", "mirror", "--from", bootstrap, "--min-free", "0", "--apply"]
        self.command = [*command, "--jsonl", *options, str(copy)]
        """The command of a run up to the source's ends."""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def text(self) -> str:
        return self.log_file.read_text()

    @property
    def events(self) -> str:
        """The last output without the progress."""
        return "\n".join(line for line in self.text.splitlines() if '"progress"' not in line)[-4000:]

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def follow(self) -> None:
        """Start a process that follows the source."""
        self._launch("--follow")

    def run_once(self, *options: str) -> int:
        """Copy up to the source's ends, and return the exit code."""
        self._launch(*options)
        return self._end()

    def kill(self) -> None:
        """Send SIGKILL. No-op if the process does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self) -> int:
        """End the process cleanly, and return the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._end()

    def require_running(self) -> None:
        """Raise AssertionError with the output if the process has ended by itself."""
        assert self.is_running, self.events

    def wait(self, is_so: Callable[[], bool]) -> None:
        """Return when the condition holds. Raise AssertionError if the process ends before, or the time is over."""
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            self.require_running()
            assert time.monotonic() < deadline, self.events
            time.sleep(0.02)

    def _launch(self, *options: str) -> None:
        assert self._process is None
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.command, *options], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _end(self) -> int:
        process, self._process = self._process, None
        assert process is not None
        try:
            return process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the mirror did not end\n{self.events}") from None
