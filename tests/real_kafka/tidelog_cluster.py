"""A cluster of real Kafka's brokers whose controller is `tidelog serve`, a process that can be stopped and killed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping

from real_kafka.broker import BrokerError
from real_kafka.cluster import Cluster
from real_kafka.cluster_node import Node

_SERVES = "serving  "
"""The line that says that the process serves."""


class TidelogController(Node):
    """The process. Its file and directory are those of a controller of Kafka."""

    def launch(self) -> None:
        if self._process is not None:
            raise BrokerError(f"node {self.number} runs already")
        self._log_start = self.log_file.stat().st_size
        command = [sys.executable, "-m", "tidelog", "serve", str(self.properties_file)]
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait_until_started(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while _SERVES not in self.log_text:
            code = self._running().poll()
            if code is not None or time.monotonic() > deadline:
                self.kill()
                raise BrokerError(f"the controller did not start (exit code {code})\n{self._tail()}")
            time.sleep(0.03)


class TidelogCluster(Cluster):
    """Brokers of Kafka under tidelog's controller."""

    @property
    def quorum(self) -> str:
        """The address of the controller."""
        for line in self.controller.properties_file.read_text().splitlines():
            if line.startswith("controller.quorum.voters="):
                return line.rpartition("@")[2]
        raise AssertionError("no voters")

    def _node(self, number: int, role: str, properties: Mapping[str, str]) -> Node:
        if role != "controller":
            return super()._node(number, role, properties)
        return TidelogController(
            number,
            directory=self.root / f"node-{number}" / "data",
            work=self.root / f"node-{number}" / "work",
            properties=properties,
            heap_mib=0,
            release=self.release,
        )
