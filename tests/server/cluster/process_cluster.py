"""Three processes of ``tidelog serve``: a broker that is the controller too, and two brokers."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cached_property
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, PartitionMetadata

from real_kafka.tidelog_node import TidelogNode
from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.testing.broker.kept_port import keep_port

PATIENCE_S: Final = 60
CLUSTER_ID: Final = "MkU3OEVBNTcwNTJENDM2Qg"
CONTROLLER: Final = 1
BROKERS: Final = (1, 2, 3)
PortName = int | str | tuple[str, int]
"""A broker, the controller, or a further listener of a broker."""


class ProcessCluster:
    """Use it as a context manager: all nodes serve at the beginning, and are killed at the end."""

    def __init__(
        self,
        root: Path,
        configs: Mapping[str, str] | None = None,
        *,
        log_dirs: int = 1,
        client: Mapping[str, str] | None = None,
        users: Sequence[str] = (),
        listeners: Sequence[str] = (),
    ) -> None:
        """Each broker has ``log_dirs`` log directories. Its metadata log is in the first one.

        ``client`` has further settings of the administrator's client. ``users`` are the values of ``--add-scram`` with
        which the controller is formatted. ``listeners`` are the names of the brokers' further listeners. ``configs``
        say their protocols.
        """
        self._root = root
        self._users = tuple(users)
        self._client = dict(client or {})
        self._log_dirs = log_dirs
        self._marks = count(1)
        names: list[PortName] = [*BROKERS, "controller", *((name, number) for name in listeners for number in BROKERS)]
        self._ports = {name: keep_port() for name in names}
        controller = f"127.0.0.1:{self._port('controller')}"
        self.nodes: dict[int, TidelogNode] = {}
        for number in BROKERS:
            further = {name: self.address(number, name) for name in listeners}
            own = {"PLAINTEXT": self.address(number), **further}
            has_controller = number == CONTROLLER
            if has_controller:
                own["CONTROLLER"] = controller
            properties = {
                "process.roles": "broker,controller" if has_controller else "broker",
                "listeners": ",".join(f"{name}://{address}" for name, address in own.items()),
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": f"{CONTROLLER}@{controller}",
                "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
                "inter.broker.listener.name": "PLAINTEXT",
                "log.dirs": ",".join(map(str, self.disks(number))),
                "broker.session.timeout.ms": "3000",
                "broker.heartbeat.interval.ms": "500",
                "offsets.topic.replication.factor": "3",
                "offsets.topic.num.partitions": "3",
                **(configs or {}),
            }
            self.nodes[number] = TidelogNode(number, root=root / str(number), properties=properties)

    def __enter__(self) -> Self:
        try:
            for number, node in self.nodes.items():
                node.format(CLUSTER_ID, users=self._users if number == CONTROLLER else ())
                node.launch()
            for node in self.nodes.values():
                node.wait_until_started(PATIENCE_S)
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def disks(self, number: int) -> list[Path]:
        """Return the log directories of a broker."""
        others = [f"disk{disk}" for disk in range(2, self._log_dirs + 1)]
        return [self._root / str(number) / name for name in ("data", *others)]

    def disk_of(self, number: int, topic: str, partition: int) -> Path:
        """Return the log directory of a replica."""
        (disk,) = (disk for disk in self.disks(number) if (disk / f"{topic}-{partition}").exists())
        return disk

    def client(self, number: int) -> WireClient:
        return WireClient(self._port(number))

    @property
    def bootstrap(self) -> str:
        return ",".join(map(self.address, BROKERS))

    def address(self, number: int, listener: str | None = None) -> str:
        """Return the address of a broker's first listener, or of a further one."""
        return f"127.0.0.1:{self._port(number if listener is None else (listener, number))}"

    def kill(self) -> None:
        for node in self.nodes.values():
            node.kill()
        for place in self._ports.values():
            place.close()

    def stop(self) -> None:
        """Stop all nodes cleanly, the controller last."""
        for number in sorted(BROKERS, reverse=True):
            self.nodes[number].stop(PATIENCE_S)

    def restart(self, number: int) -> None:
        self.nodes[number].launch()
        self.nodes[number].wait_until_started(PATIENCE_S)

    # --- topics ---

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0, **self._client})

    def create_topic(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> None:
        new = NewTopic(name, partitions, 3, config=dict(configs or {}))
        (created,) = self.admin.create_topics([new]).values()
        created.result(PATIENCE_S)

    def partitions(self, topic: str) -> dict[int, PartitionMetadata]:
        found: dict[int, PartitionMetadata] = self.admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
        return found

    def wait_until_in_sync(self, topic: str) -> None:
        """Wait until every partition has three in-sync replicas."""
        self.wait_for(
            f"the replicas of {topic} are in sync",
            lambda: all(len(one.isrs) == 3 and one.leader >= 0 for one in self.partitions(topic).values()),
        )

    def wait_for_metadata(self) -> None:
        """Wait until every broker has applied the changes made so far. A quota is the last change, and each has it."""
        entity = [{"entity_type": "client-id", "entity_name": f"mark-{next(self._marks)}"}]
        operation = {"key": "request_percentage", "value": 100.0, "remove": False}
        mark = {"entity": entity, "ops": [operation]}
        component = {"entity_type": "client-id", "match_type": 0, "match": entity[0]["entity_name"]}
        with ExitStack() as stack:
            clients = [stack.enter_context(self.client(number)) for number in BROKERS]
            answer = clients[0].call(ApiKey.ALTER_CLIENT_QUOTAS, entries=[mark], validate_only=False)
            assert answer.entries[0].error_code == ErrorCode.NONE, answer

            def is_known() -> bool:
                return all(
                    client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, components=[component], strict=True).entries
                    for client in clients
                )

            self.wait_for("all brokers have the metadata", is_known)

    def elect_preferred_leaders(self, topic: str) -> None:
        partitions = [TopicPartition(topic, number) for number in self.partitions(topic)]
        self.admin.elect_leaders(ElectionType.PREFERRED, partitions).result(PATIENCE_S)

    def wait_for(self, condition: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"timeout: {condition}\n{self._logs()}"
            time.sleep(0.1)

    def segment_bytes(self, number: int, topic: str, partition: int) -> bytes:
        """Return the bytes of a replica's segments. Its broker has been stopped."""
        directory = self.disk_of(number, topic, partition) / f"{topic}-{partition}"
        return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))

    # --- inside ---

    def _port(self, name: PortName) -> int:
        port: int = self._ports[name].getsockname()[1]
        return port

    def _logs(self) -> str:
        return "\n".join(f"--- broker {number}\n{node.log[-2000:]}" for number, node in self.nodes.items())
