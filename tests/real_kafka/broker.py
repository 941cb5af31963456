"""A real Kafka broker on a directory of ours: format, start, wait until it serves, shut down cleanly, or kill.

One JVM is broker and controller (node 1, static voters). The golden sets were written that way, so a broker can start
on a copy of any of them. It listens on free ports of 127.0.0.1. The defaults disable the cleaner, retention and
transaction timeouts, so that only loading and shutdown change the directory. A test that needs them passes properties.
The process is ended by its id. Leaving the context kills a process that still runs.

    with Broker(directory, work=tmp_path) as broker:
        broker.start()
        broker.create_topic("t", config={"internal.segment.bytes": "16384"})
        …
        broker.stop()
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from real_kafka.java import NEWEST, QUICK_START, class_archive, java_command, run_java
from tidelog.testing.broker.kept_port import keep_port

CLUSTER_ID = "tidelogTestsClusterIdA"
PATIENCE_S = 200
"""The timeout in seconds for operations that an idle machine completes at once."""
NEVER_MS = str(2**31 - 1)

QUIET = {
    "log.cleaner.enable": "false",
    "log.initial.task.delay.ms": NEVER_MS,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": NEVER_MS,
    "transaction.remove.expired.transaction.cleanup.interval.ms": NEVER_MS,
    "offsets.retention.check.interval.ms": NEVER_MS,
    "producer.id.expiration.check.interval.ms": NEVER_MS,
}
"""Properties with which only loading, clients and a clean shutdown change a log."""

SMALL = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    # After a kill the controller accepts the broker again only when its old session is over.
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "300",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "8388608",
}


class BrokerError(Exception):
    """The broker did not start, stop or respond. The message ends with the last lines of its log."""


class Broker:
    """A broker on ``directory``, at most one process at a time. Its properties and log are in ``work``."""

    def __init__(
        self,
        directory: Path,
        *,
        work: Path,
        properties: Mapping[str, str] | None = None,
        now_ms: int | None = None,
        heap_mib: int = 384,
        quick: bool = True,
        ports: tuple[int, int] | None = None,
        voters_in_log: bool = False,
        more_listeners: str = "",
        release: str = NEWEST,
        more_directories: Sequence[Path] = (),
    ) -> None:
        """Keep the settings of the broker; it is not started.

        ``now_ms`` is the wall clock that the broker sees at its start (None: the real one). ``quick`` chooses a JVM
        that starts
        quickly instead of a JVM that runs long and fast. ``ports`` are those of broker and controller. None takes free
        ports at
        each start, which no other process gets meanwhile. ``voters_in_log`` makes the quorum a dynamic one (KIP-853).
        ``more_listeners`` come after the open one. ``release`` is one of ``java.RELEASES``. ``more_directories`` are
        log
        directories after the first, which has the metadata log.
        """
        self.directory = directory
        self.work = work
        self.properties = {**SMALL, **QUIET, **(properties or {})}
        self.now_ms = now_ms
        self.heap_mib = heap_mib
        self.quick = quick
        self.ports = ports
        self.voters_in_log = voters_in_log
        self.more_listeners = more_listeners
        self.release = release
        self.directories = (directory, *more_directories)
        self.bootstrap = ""
        self._places: list[socket.socket] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._admin: AdminClient | None = None
        work.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Broker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._leave_places()

    @property
    def _new_archive(self) -> Path:
        """The file that receives the class archive from the first broker until it is complete."""
        return class_archive(self.release).with_suffix(f".{os.getpid()}")

    @property
    def clock_shift_ms(self) -> int:
        """The milliseconds that the broker adds to the wall clock to start at ``now_ms``."""
        return 0 if self.now_ms is None else self.now_ms - time.time_ns() // 1_000_000

    @property
    def process_id(self) -> int:
        """The process id of the running JVM."""
        return self._running().pid

    @property
    def log_text(self) -> str:
        """The broker's own log of its last run: warnings and errors."""
        path = self.work / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def format(self) -> None:
        """Make ``directory`` a new, empty log directory (`kafka-storage format`)."""
        for directory in self.directories:
            directory.mkdir(parents=True, exist_ok=True)
        standalone = ["--standalone"] if self.voters_in_log else []
        arguments = ["format", *standalone, "-t", CLUSTER_ID, "-c", str(self.write_properties())]
        run_java("kafka.tools.StorageTool", *arguments, release=self.release)
        self._leave_places()

    def start(self, timeout: float = 400) -> None:
        """Start and return when every partition has a leader. Raise BrokerError if that fails."""
        self.launch()
        out = self.work / "broker.out"
        deadline = time.monotonic() + timeout
        while b"ready\n" not in out.read_bytes():
            self._wait(deadline, "did not start")
        while not all_led(self.admin):
            self._wait(deadline, "found no leaders")

    def launch(self) -> None:
        """Start the process without waiting until it serves. Raise BrokerError if it runs already."""
        if self._process is not None:
            raise BrokerError("the broker runs already")
        properties = self.write_properties()
        switches: tuple[str, ...] = QUICK_START if self.quick else ()
        if self.quick and not class_archive(self.release).exists():
            switches += (f"-XX:ArchiveClassesAtExit={self._new_archive}",)
        command = java_command(
            "Broker",
            properties,
            str(self.clock_shift_ms),
            heap_mib=self.heap_mib,
            switches=switches,
            release=self.release,
        )
        out = self.work / "broker.out"
        with out.open("wb") as stdout, (self.work / "broker.log").open("wb") as stderr:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)

    def stop(self, timeout: float = 200) -> None:
        """Shut down cleanly, with checkpoints, snapshots and the clean shutdown file. Raise BrokerError on failure."""
        process, self._admin = self._running(), None
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerError(f"the broker did not stop within {timeout} s\n{self._tail()}") from None
        self._process = None
        if process.returncode != 128 + signal.SIGTERM:
            raise BrokerError(f"the broker's exit code is {process.returncode}\n{self._tail()}")
        if self._new_archive.exists():
            self._new_archive.rename(class_archive(self.release))

    def kill(self) -> None:
        """Send SIGKILL. No-op if the broker does not run."""
        self._admin = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def admin(self) -> AdminClient:
        """A client of the running broker, a new one for each run."""
        self._running()
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2})
        return self._admin

    def create_topic(self, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and return when its partitions have leaders and directories.

        The controller names a leader before the broker has created the directory.
        """
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        self.admin.create_topics([topic])[name].result(PATIENCE_S)
        deadline = time.monotonic() + PATIENCE_S
        while not all_led(self.admin, name):
            self._wait(deadline, f"found no leaders for {name}")
        while not all(self.has_partition(name, number) for number in range(partitions)):
            self._wait(deadline, f"made no directories for {name}")

    def has_partition(self, topic: str, partition: int) -> bool:
        """Return True if one of the log directories has the partition's directory."""
        return any((directory / f"{topic}-{partition}").is_dir() for directory in self.directories)

    def add_partitions(self, name: str, total: int) -> None:
        """Increase the topic's partitions to ``total``."""
        self.admin.create_partitions([NewPartitions(name, total)])[name].result(PATIENCE_S)

    def delete_records(self, name: str, partition: int, before_offset: int) -> None:
        """Move a partition's log start offset to ``before_offset``."""
        target = KafkaPartition(name, partition, before_offset)
        self.admin.delete_records([target])[target].result(PATIENCE_S)

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerError("the broker does not run")
        return self._process

    def _wait(self, deadline: float, what: str) -> None:
        """Sleep briefly. Raise BrokerError if the process has ended or the deadline has passed."""
        code = self._running().poll()
        if code is not None or time.monotonic() > deadline:
            tail = self._tail()
            self.kill()
            raise BrokerError(f"the broker {what} (exit code {code})\n{tail}")
        time.sleep(0.03)

    def _tail(self) -> str:
        return "\n".join(self.log_text.splitlines()[-30:])

    def write_properties(self) -> Path:
        """Write the file for the next start. With fixed ``ports`` another server can start with it too."""
        broker_port, controller_port = self.ports or self._new_ports()
        self.bootstrap = f"127.0.0.1:{broker_port}"
        listeners = f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}"
        if self.more_listeners:
            listeners += f",{self.more_listeners}"
        lines = {
            **self.properties,
            "log.dirs": ",".join(map(str, self.directories)),
            "listeners": listeners,
            "advertised.listeners": listeners,
        }
        if self.voters_in_log:
            lines["controller.quorum.bootstrap.servers"] = f"127.0.0.1:{controller_port}"
        else:
            lines["controller.quorum.voters"] = f"1@127.0.0.1:{controller_port}"
        path = self.work / "server.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path

    def _new_ports(self) -> list[int]:
        self._leave_places()
        self._places = [keep_port() for _ in range(2)]
        return [place.getsockname()[1] for place in self._places]

    def _leave_places(self) -> None:
        for place in self._places:
            place.close()


def all_led(admin: AdminClient, name: str | None = None) -> bool:
    """Return True if every partition (of one topic) has a leader."""
    topics = admin.list_topics(name, timeout=PATIENCE_S).topics.values()
    return all(
        topic.error is None and topic.partitions and all(p.leader >= 0 for p in topic.partitions.values())
        for topic in topics
    )
