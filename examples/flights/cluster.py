"""Three brokers and their controller as processes of the demo: each is started, killed and stopped by itself."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

PATIENCE_S = 60
CONTROLLER = 100
BROKERS = (1, 2, 3)
CLUSTER_ID = "Zmxp_2h0cyBvdmVyIFVTQQ"
PROPERTIES = """\
process.roles={role}
node.id={number}
listeners={listener}://127.0.0.1:{port}
log.dirs={data}
controller.listener.names=CONTROLLER
controller.quorum.voters={controller}@127.0.0.1:{controller_port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=300
replica.high.watermark.checkpoint.interval.ms=200
"""
"""Sessions are short, so that a killed broker's leaderships move soon; Kafka's default is nine seconds. High watermarks
are written often, for readers of the files."""


class Node:
    """A process of ``tidelog serve`` with a properties file of its own, at most one at a time."""

    def __init__(self, number: int, directory: Path, port: int, controller_port: int) -> None:
        directory.mkdir(parents=True)
        self.number = number
        self.port = port
        self.data = directory / "data"
        self.properties = directory / "server.properties"
        self._log = directory / "node.log"
        self._process: subprocess.Popen[bytes] | None = None
        is_controller = number == CONTROLLER
        text = PROPERTIES.format(
            role="controller" if is_controller else "broker",
            number=number,
            listener="CONTROLLER" if is_controller else "PLAINTEXT",
            port=port,
            data=self.data,
            controller=CONTROLLER,
            controller_port=controller_port,
        )
        self.properties.write_text(text)

    def format(self) -> None:
        arguments = ["format", "--cluster-id", CLUSTER_ID, "--config", str(self.properties), "--apply"]
        subprocess.run([sys.executable, "-m", "tidelog", *arguments], check=True, stdout=subprocess.DEVNULL)

    def launch(self) -> None:
        """Start the process without waiting until it serves."""
        command = [sys.executable, "-m", "tidelog", "serve", str(self.properties)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stderr=log)

    def wait_until_serving(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not any(line.startswith("serving") for line in self._log.read_text().splitlines()):
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"node {self.number} has not started:\n{self._log.read_text()}")
            time.sleep(0.03)

    def kill(self) -> None:
        """Send SIGKILL. A second call is a no-op."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        """Send SIGTERM, and return the exit code."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(PATIENCE_S)


class Cluster:
    """A controller and three brokers, which serve within ``with``. Leaving it kills the nodes that still run."""

    def __init__(self, workspace: Path) -> None:
        controller_port, *ports = free_ports(1 + len(BROKERS))
        numbered = zip((CONTROLLER, *BROKERS), (controller_port, *ports), strict=True)
        self.nodes = {
            number: Node(number, workspace / f"node-{number}", port, controller_port) for number, port in numbered
        }
        self.brokers = [self.nodes[number] for number in BROKERS]
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in ports)
        self._admin: AdminClient | None = None

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor() as pool:
                list(pool.map(Node.format, self.nodes.values()))
            for node in self.nodes.values():
                node.launch()
            for node in self.nodes.values():
                node.wait_until_serving()
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()

    def restart(self, number: int) -> None:
        self.nodes[number].launch()
        self.nodes[number].wait_until_serving()

    def stop(self) -> list[int]:
        """Stop the brokers and then the controller, and return their exit codes."""
        return [self.nodes[number].stop() for number in (*BROKERS, CONTROLLER)]

    def create_topic(self, topic: NewTopic) -> None:
        for future in self.admin.create_topics([topic]).values():
            future.result(PATIENCE_S)

    def partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        """Return the partitions of a topic as the brokers know them."""
        found: dict[int, PartitionMetadata] = self.admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        return found

    @property
    def admin(self) -> AdminClient:
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        return self._admin

    def _kill(self) -> None:
        for node in self.nodes.values():
            node.kill()


def free_ports(count: int) -> list[int]:
    """Return ports that no program listens at."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports
