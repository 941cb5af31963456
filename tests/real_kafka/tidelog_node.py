"""A broker of tidelog in a cluster of real Kafka: ``tidelog serve``, started, stopped or killed like a `Node`."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from real_kafka.broker import BrokerError

PROGRAM = "from tidelog.cli.main import main; main()"
_STARTED = "serving"


class TidelogNode:
    """A process of ``tidelog serve`` with its own server.properties, at most one at a time."""

    def __init__(self, number: int, *, root: Path, properties: Mapping[str, str]) -> None:
        """Write the properties. Call ``format`` before the first start."""
        self.number = number
        self.directory = root / "data"
        work = root / "work"
        work.mkdir(parents=True)
        self.log_file = work / "node.log"
        self.log_file.touch()
        self.properties_file = work / "server.properties"
        lines = {"log.dirs": str(self.directory), "node.id": str(number), **properties}
        self.properties_file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def format(self, cluster_id: str, *, users: Sequence[str] = ()) -> None:
        """Format the log directories. ``users`` are the values of ``--add-scram``, for a controller."""
        added = [argument for user in users for argument in ("--add-scram", user)]
        self._run("format", "--cluster-id", cluster_id, "--config", str(self.properties_file), *added, "--apply")

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Add settings to the file, for the next start. A later line of a properties file replaces an earlier one."""
        with self.properties_file.open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in properties.items())

    def launch(self) -> None:
        """Start the process without waiting until it serves."""
        assert self._process is None, "it runs already"
        self._log_start = self.log_file.stat().st_size
        command = [sys.executable, "-c", PROGRAM, "serve", str(self.properties_file)]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_until_started(self, timeout_s: float) -> None:
        """Return when the process serves. Raise BrokerError if it ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not any(line.startswith(_STARTED) for line in self.log.splitlines()):
            assert self._process is not None
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise BrokerError(f"broker {self.number} of tidelog did not start\n{self.log}")
            time.sleep(0.03)

    def wait_until_ended(self, timeout_s: float) -> int:
        """Return the exit code."""
        assert self._process is not None
        code = self._process.wait(timeout_s)
        self._process = None
        return code

    def kill(self) -> None:
        """Send SIGKILL. No-op if the broker does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self, timeout_s: float) -> None:
        """Shut down cleanly. Raise BrokerError on failure."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        try:
            code = self.wait_until_ended(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(f"broker {self.number} did not stop within {timeout_s} s\n{self.log}") from None
        if code:
            raise BrokerError(f"broker {self.number}: exit code {code}\n{self.log}")

    @property
    def log(self) -> str:
        """Everything that the current run, or the last one, has written."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def _run(self, *arguments: str) -> None:
        done = subprocess.run([sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise BrokerError(f"tidelog {arguments[0]} failed\n{done.stdout}{done.stderr}")
