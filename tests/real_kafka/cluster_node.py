"""A node of a cluster: Kafka or tidelog on a log directory of ours, started, stopped or killed by its process id."""

from __future__ import annotations

import enum
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from real_kafka.broker import BrokerError
from real_kafka.java import java_command


class Program(enum.Enum):
    """The program of a node. Another one may serve the node's directory after a restart."""

    KAFKA = "Kafka Server started"
    TIDELOG = "serving"

    @property
    def started(self) -> str:
        """The words in the node's log once it serves."""
        return self.value


class Node:
    """A server of the cluster, at most one process at a time."""

    ID_KEY: ClassVar = "node.id"
    LOGGER_OF_THE_START: ClassVar = "kafka.server.KafkaRaftServer"
    """The logger that says when Kafka serves. All other loggers write warnings and errors."""

    def __init__(
        self,
        number: int,
        *,
        directory: Path,
        work: Path,
        properties: Mapping[str, str],
        heap_mib: int,
        release: str,
        program: Program = Program.KAFKA,
    ) -> None:
        """Write the properties. ``directory`` must be formatted before the first start."""
        self.number = number
        self.program = program
        """The program of the next start."""
        self.directory = directory
        self.release = release
        self._heap_mib = heap_mib
        self._process: subprocess.Popen[bytes] | None = None
        work.mkdir(parents=True)
        self.log_file = work / "node.log"
        """The node's own log: warnings and errors of all runs."""
        self.log_file.touch()
        self._log_start = 0
        self.properties_file = work / "server.properties"
        lines = {self.ID_KEY: str(number), **properties, "log.dirs": str(directory)}
        self.properties_file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def log_text(self) -> str:
        """The process's log since its last start."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    @property
    def process_id(self) -> int:
        """The process id of the running program."""
        return self._running().pid

    def launch(self) -> None:
        """Start the process without waiting until it serves. Raise BrokerError if it runs already."""
        if self._process is not None:
            raise BrokerError(f"node {self.number} runs already")
        self._log_start = self.log_file.stat().st_size
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_until_started(self, timeout_s: float) -> None:
        """Return when the process serves. Raise BrokerError if it ends or the time is over."""
        deadline = time.monotonic() + timeout_s
        while self._started not in self.log_text:
            code = self._running().poll()
            if code is not None or time.monotonic() > deadline:
                self.kill()
                raise BrokerError(f"node {self.number} did not start (exit code {code})\n{self._tail()}")
            time.sleep(0.03)

    def kill(self) -> None:
        """Send SIGKILL. No-op if the node does not run."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Send SIGSTOP: the process keeps its sockets and does not respond."""
        self._running().send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Send SIGCONT after `pause`."""
        self._running().send_signal(signal.SIGCONT)

    def ask_to_stop(self) -> None:
        """Begin a clean shutdown."""
        self._running().send_signal(signal.SIGTERM)

    def stop(self, timeout_s: float) -> None:
        """Shut down cleanly: leaderships move, checkpoints are written. Raise BrokerError on failure."""
        self.ask_to_stop()
        self.wait_until_stopped(timeout_s)

    def wait_until_ended(self, timeout_s: float) -> int:
        """Return the exit code of a process that ends by itself. Raise BrokerError if it does not end in time."""
        try:
            code = self._running().wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(f"node {self.number} did not end within {timeout_s} s\n{self._tail()}") from None
        self._process = None
        return code

    def wait_until_stopped(self, timeout_s: float) -> None:
        """Return when the process has shut down cleanly. Raise BrokerError on failure."""
        code = self.wait_until_ended(timeout_s)
        if code not in (0, 128 + signal.SIGTERM):
            raise BrokerError(f"node {self.number}: exit code {code}\n{self._tail()}")

    def _command(self) -> list[str]:
        if self.program is Program.TIDELOG:
            return [sys.executable, "-m", "tidelog", "serve", str(self.properties_file)]
        command = java_command("kafka.Kafka", self.properties_file, heap_mib=self._heap_mib, release=self.release)
        command.insert(1, self.log_switch)
        return command

    @property
    def log_switch(self) -> str:
        """The switch of a JVM that lets Kafka's log say when it serves."""
        return f"-Dorg.slf4j.simpleLogger.log.{self.LOGGER_OF_THE_START}=info"

    @property
    def _started(self) -> str:
        """The words in the log once the process serves."""
        return self.program.started

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerError(f"node {self.number} does not run")
        return self._process

    def _tail(self) -> str:
        return "\n".join(self.log_text.splitlines()[-30:])
