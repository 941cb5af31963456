"""Kafka 3.9 with ZooKeeper: a real ZooKeeper server and one broker with ``zookeeper.connect``, each its own process.

Kafka 3.9 is the last release that keeps its metadata in ZooKeeper, and its jars bring ZooKeeper 3.8. The broker has two
log directories, an open listener and one with SCRAM, and Kafka's authorizer for ZooKeeper. ``write_everything`` creates
an example of everything that the release keeps in znodes.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, NewTopic

from real_kafka.broker import PATIENCE_S, BrokerError, all_led
from real_kafka.cluster_node import Program
from real_kafka.java import KRAFT_3, java_command
from real_kafka.kafka_tools import KafkaTools
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.kazoo_client import KazooReader
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
from tidelog.server.metadata.zookeeper.znode_tree import join
from tidelog.testing.broker.kept_port import keep_port

CHROOT: Final = "/kafka/production"
NODE_ID: Final = 7

TOPICS: Final[Mapping[str, tuple[int, Mapping[str, str]]]] = {
    "orders": (20, {"retention.ms": "604800000", "index.interval.bytes": "1024", "compression.type": "zstd"}),
    "customers": (2, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.2"}),
    "empty": (1, {}),
    "old-format": (1, {"message.format.version": "0.10.2", "message.downconversion.enable": "false"}),
    "with.dots_and-dashes": (3, {"max.message.bytes": "2000000", "segment.bytes": "1048576"}),
}
COMMITTED: Final[Mapping[str, Mapping[tuple[str, int], int]]] = {
    "readers": {("orders", 0): 3, ("orders", 1): 1},
    "auditors": {("customers", 0): 2},
}
"""The committed offsets by group."""
USERS: Final[Mapping[str, str]] = {"alice": "alice-secret", "bob smith@x*y~z": "bob-secret"}
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
RECORDS: Final = 60
"""The records of ``orders``; ``customers`` has as many."""

_PROPERTIES: Final[Mapping[str, str]] = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "sasl.enabled.mechanisms": ",".join(MECHANISMS),
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "8388608",
    "log.message.format.version": "3.0",
    "zookeeper.connection.timeout.ms": "60000",
    "zookeeper.session.timeout.ms": "30000",
}
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_QUORUM_PEER_LOG = "-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper=error"


class Process:
    """A JVM or tidelog, with a log file, at most one at a time."""

    def __init__(self, log_file: Path) -> None:
        self.log_file = log_file
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: list[str]) -> None:
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def require_running(self) -> None:
        if self._process is None or self._process.poll() is not None:
            raise BrokerError(f"{self.log_file.stem} does not run\n{self.tail}")

    def stop(self, timeout_s: float = PATIENCE_S) -> None:
        """Shut down cleanly. Raise BrokerError if the process does not end so."""
        code = self._end(signal.SIGTERM, timeout_s)
        if code not in (None, 0, 128 + signal.SIGTERM):
            raise BrokerError(f"{self.log_file.stem}: exit code {code}\n{self.tail}")

    @property
    def tail(self) -> str:
        """The last lines of the log."""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-30:])

    def kill(self) -> None:
        self._end(signal.SIGKILL, PATIENCE_S)

    def pause(self) -> None:
        """Send SIGSTOP: the process keeps its sockets and does not respond."""
        self.require_running()
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def _end(self, number: signal.Signals, timeout_s: float) -> int | None:
        """Return the exit code, or None if there is no process."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(number)
        return process.wait(timeout_s)


class ZooKeeperServer:
    """A ZooKeeper server with an open port, and with ``tls`` settings also one for TLS. It is a standalone one unless
    ``settings``, which are lines of ``zoo.cfg``, name the servers of an ensemble."""

    def __init__(
        self, work: Path, *, tls: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None
    ) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self._places = [keep_port() for _ in range(2)]
        self.address, self.tls_address = (f"127.0.0.1:{place.getsockname()[1]}" for place in self._places)
        self._tls = tls
        self._settings = dict(settings or {})
        self._work = work
        self.process = Process(work / "zookeeper.log")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        for place in self._places:
            place.close()

    @property
    def data(self) -> Path:
        return self._work / "zookeeper-data"

    def start(self) -> None:
        """Start the server and return when it accepts sessions."""
        self.launch()
        self.wait_until_started()

    def launch(self) -> None:
        """Start the server without waiting until it accepts sessions."""
        host, port = self.address.split(":")
        settings = self._work / "zoo.cfg"
        lines: dict[str, object] = {
            "dataDir": self.data,
            "clientPort": port,
            "clientPortAddress": host,
            "admin.enableServer": "false",
            "tickTime": "2000",
            "4lw.commands.whitelist": "srvr",
            **self._settings,
        }
        if self._tls is not None:
            lines |= {
                "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
                "secureClientPort": self.tls_address.split(":")[1],
                "secureClientPortAddress": host,
                **self._tls,
            }
        settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        name = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        command = java_command(name, settings, heap_mib=512, release=KRAFT_3)
        self.process.start([command[0], _QUORUM_PEER_LOG, *command[1:]])

    def wait_until_started(self) -> None:
        """Return when the server accepts sessions. A server of an ensemble needs a quorum for this."""
        deadline = time.monotonic() + PATIENCE_S
        while not self._serves():
            self.process.require_running()
            if time.monotonic() > deadline:
                raise BrokerError("ZooKeeper did not start")
            time.sleep(0.1)

    def _serves(self) -> bool:
        host, port = self.address.split(":")
        try:
            with socket.create_connection((host, int(port)), timeout=2) as connection:
                connection.sendall(b"srvr")
                return b"Mode:" in b"".join(iter(lambda: connection.recv(4096), b""))
        except OSError:
            return False


class ZooKeeperBroker:
    """A broker on ``directories``, with its metadata below the chroot of a ZooKeeper server.

    Kafka 3.9 and ``tidelog serve`` start with the same file of properties.
    """

    def __init__(
        self,
        zookeeper: ZooKeeperServer,
        directories: tuple[Path, ...],
        *,
        work: Path,
        node_id: int = NODE_ID,
        chroot: str = CHROOT,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self.directories = directories
        self.connect = zookeeper.address + chroot
        self._places = [keep_port() for _ in range(2)]
        self.bootstrap, self.scram_bootstrap = (f"127.0.0.1:{place.getsockname()[1]}" for place in self._places)
        self.properties_file = work / "server.properties"
        self.process = Process(work / "kafka.log")
        listeners = f"PLAINTEXT://{self.bootstrap},SASL_PLAINTEXT://{self.scram_bootstrap}"
        lines = {
            **_PROPERTIES,
            **{f"listener.name.sasl_plaintext.{name.lower()}.sasl.jaas.config": _SCRAM_MODULE for name in MECHANISMS},
            **(properties or {}),
            "broker.id": str(node_id),
            "log.dirs": ",".join(map(str, directories)),
            "listeners": listeners,
            "advertised.listeners": listeners,
            "zookeeper.connect": self.connect,
        }
        self.properties_file.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        for place in self._places:
            place.close()

    def start(self, brokers: int = 1, *, program: Program = Program.KAFKA) -> None:
        """Start the broker and return when it serves, and knows that many brokers."""
        if program is Program.KAFKA:
            self.process.start(java_command("kafka.Kafka", self.properties_file, heap_mib=384, release=KRAFT_3))
        else:
            self.process.start([sys.executable, "-m", "tidelog", "serve", str(self.properties_file)])
        deadline = time.monotonic() + PATIENCE_S
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        while not _serves(admin, brokers):
            self.process.require_running()
            if time.monotonic() > deadline:
                raise BrokerError("the broker did not start")

    def stop(self) -> None:
        self.process.stop()


def _serves(admin: AdminClient, brokers: int) -> bool:
    try:
        return len(admin.list_topics(timeout=2).brokers) == brokers
    except KafkaException:
        return False


def captured(connect: str) -> dict[str, dict[str, Any]]:
    """Return every znode below the chroot: path -> data as text or None, version."""
    znodes: dict[str, dict[str, Any]] = {}
    with KazooReader(ZooKeeperSettings(address=ZooKeeperAddress.parse(connect))) as reader:
        level = ["/"]
        while level:
            for path, found in zip(level, reader.read(level), strict=True):
                if found is not None:
                    znodes[path] = {"data": found.data.decode() or None, "version": found.version}
            names = zip(level, reader.list_children(level), strict=True)
            level = [join(path, name) for path, children in names for name in children]
    return znodes


def write_everything(broker: ZooKeeperBroker, topics: Mapping[str, tuple[int, Mapping[str, str]]] = TOPICS) -> None:
    """Create topics, records, committed offsets, settings, users, access control entries and quotas."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for name, (partitions, config) in topics.items():
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config))
        admin.create_topics([topic])[name].result(PATIENCE_S)
    while not all_led(admin):
        time.sleep(0.1)
    _produce(broker)
    _commit(broker)
    with KafkaTools(broker.bootstrap) as tools:
        _write_settings(tools)
        _write_acls(tools)


def _produce(broker: ZooKeeperBroker) -> None:
    """Write idempotent records, and a transaction, which makes the broker take a block of producer ids."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "enable.idempotence": True})
    for number in range(RECORDS):
        producer.produce("orders", b"order %d" % number, partition=number % TOPICS["orders"][0])
        producer.produce("customers", b"customer %d" % number, b"key %d" % (number % 7), partition=number % 2)
    assert producer.flush(PATIENCE_S) == 0
    writer = Producer({"bootstrap.servers": broker.bootstrap, "transactional.id": "writer"})
    writer.init_transactions(PATIENCE_S)
    writer.begin_transaction()
    writer.produce("with.dots_and-dashes", b"in a transaction", partition=2)
    writer.commit_transaction(PATIENCE_S)


def _commit(broker: ZooKeeperBroker) -> None:
    for group, offsets in COMMITTED.items():
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group})
        partitions = [KafkaPartition(topic, number, offset) for (topic, number), offset in offsets.items()]
        consumer.commit(offsets=partitions, asynchronous=False)
        consumer.close()


def _write_settings(tools: KafkaTools) -> None:
    def alter(kinds: Mapping[str, str | None], setting: str) -> None:
        entity: list[str] = []
        for kind, name in kinds.items():
            entity += ["--entity-type", kind, *(["--entity-default"] if name is None else ["--entity-name", name])]
        tools.told("kafka-configs", "--alter", *entity, "--add-config", setting)

    for name, password in USERS.items():
        for mechanism in MECHANISMS:
            alter({"users": name}, f"{mechanism}=[iterations=5000,password={password}]")
    alter({"users": "alice"}, "producer_byte_rate=123456,consumer_byte_rate=234567")
    alter({"users": "alice", "clients": "app one"}, "request_percentage=12.5")
    alter({"users": "alice", "clients": None}, "producer_byte_rate=1000")
    alter({"users": None}, "controller_mutation_rate=7.5")
    alter({"users": None, "clients": None}, "consumer_byte_rate=99999")
    alter({"clients": "app one"}, "consumer_byte_rate=88888")
    alter({"clients": None}, "producer_byte_rate=77777")
    alter({"ips": "127.0.0.9"}, "connection_creation_rate=50")
    alter({"ips": None}, "connection_creation_rate=5000")
    alter({"brokers": str(NODE_ID)}, "log.cleaner.threads=2")
    alter({"brokers": None}, "log.retention.ms=864000000,message.max.bytes=3000000")


def _write_acls(tools: KafkaTools) -> None:
    def add(*words: str) -> None:
        tools.told("kafka-acls", "--add", *words)

    allow = "--allow-principal"
    add(allow, "User:alice", "--operation", "Read", "--operation", "Write", "--topic", "orders")
    add("--deny-principal", "User:alice", "--deny-host", "10.1.2.3", "--operation", "All", "--topic", "orders")
    add(allow, "User:*", "--operation", "Describe", "--topic", "*")
    add(allow, "User:bob smith@x*y~z", "--operation", "Read", "--topic", "cust", "--resource-pattern-type", "prefixed")
    add(allow, "User:alice", "--operation", "Read", "--group", "read", "--resource-pattern-type", "prefixed")
    add("--deny-principal", "User:bob smith@x*y~z", "--operation", "All", "--group", "auditors")
    add(allow, "User:alice", "--operation", "ClusterAction", "--cluster")
    add(allow, "User:alice", "--operation", "Describe", "--transactional-id", "writer")
    add(allow, "User:alice", "--operation", "Describe", "--delegation-token", "token")
    add(allow, "User:alice", "--operation", "DescribeTokens", "--user-principal", "User:bob")
