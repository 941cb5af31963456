"""Recovery of unclean directories by real brokers that run one after the other in one JVM.

A JVM of its own costs each broker some seconds. A broker that cannot start ends the JVM, and the next call starts
another one. The JVM is ended by its id.
"""

from __future__ import annotations

import subprocess
import time
from pathlib import Path
from types import TracebackType

from confluent_kafka.admin import AdminClient

from real_kafka.broker import PATIENCE_S, Broker, BrokerError, all_led
from real_kafka.java import java_command


class BrokerRuns:
    """A JVM for brokers, which starts with the first one. Its log is in ``work``."""

    def __init__(self, work: Path) -> None:
        self._log = work / "brokers.log"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> BrokerRuns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def recover(self, directory: Path, *, work: Path, now_ms: int | None = None) -> None:
        """Start a broker on an unclean directory until it serves, and shut it down cleanly.

        ``now_ms`` is the broker's wall clock at its start. Raise BrokerError with the end of the log if it fails.
        """
        with Broker(directory, work=work, now_ms=now_ms) as broker:
            self._order(f"{broker.write_properties()}\t{broker.clock_shift_ms}", "ready")
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
            deadline = time.monotonic() + PATIENCE_S
            while not all_led(admin):
                if time.monotonic() > deadline:
                    raise BrokerError("the broker found no leaders")
                time.sleep(0.03)
            self._order("stop", "stopped")

    def _order(self, command: str, reply: str) -> None:
        """Send a command and wait for its reply."""
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{command}\n")
        process.stdin.flush()
        for line in process.stdout:
            if line == f"{reply}\n":
                return
        process.wait()
        self._process = None
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-30:])
        raise BrokerError(f"the broker is not {reply} (exit code {process.returncode})\n{tail}")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            command = java_command("BrokerRuns", heap_mib=384)
            with self._log.open("wb") as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, encoding="utf-8"
                )
        return self._process
