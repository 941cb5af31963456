"""``tidelog serve`` as a process of the demo, and the state that its files show."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient, NewTopic

import tidelog

PATIENCE_S = 60
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",  # any port
    "replica.high.watermark.checkpoint.interval.ms": "200",  # for readers of its files; the default is 5 seconds
}


class Broker:
    """A broker that serves from ``with`` on, with data in ``workspace``/tidelog-data. Leaving stops it cleanly."""

    def __init__(self, workspace: Path) -> None:
        self.data = workspace / "tidelog-data"
        self.arguments = ["serve", *(word for pair in SETTINGS.items() for word in ("--override", "=".join(pair)))]
        command = [sys.executable, "-m", "tidelog", *self.arguments]
        self._process = subprocess.Popen(command, cwd=workspace, stderr=subprocess.PIPE, text=True)
        self._said: list[str] = []
        self.bootstrap = self._address()
        threading.Thread(target=self._listen, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._process.kill()
        elif self.stop() != 0:
            sys.exit(f"the broker ended badly:\n{''.join(self._said)}")

    def stop(self) -> int:
        """Stop the broker and return its exit code. A second call is a no-op."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_S)

    def create_topics(self, *topics: NewTopic) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        for future in admin.create_topics(list(topics)).values():
            future.result(PATIENCE_S)

    def wait_for_checkpoint(self, *topics: str) -> None:
        """Wait until the high watermarks that readers of the broker's files find are the ends of the logs."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            with tidelog.open_directory(self.data, read_only=True) as directory:
                logs = [directory.log(*place) for topic in topics for place in directory.partitions(topic)]
                ends = [log.offsets(until="log_end").log_end.message_offset for log in logs]
                if ends == [log.offsets().high_watermark.message_offset for log in logs]:
                    return
            time.sleep(0.05)
        sys.exit("the broker has not checkpointed its high watermarks")

    def _address(self) -> str:
        """Return the address that the broker prints when it serves."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said.append(line)
            if line.startswith("serving"):
                return line.rpartition("/")[2].strip()
        sys.exit(f"the broker has not started:\n{''.join(self._said)}")

    def _listen(self) -> None:
        """Read the broker's messages, so that it never blocks on a full pipe."""
        assert self._process.stderr is not None
        self._said += self._process.stderr
