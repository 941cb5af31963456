"""Both directions: one server continues on the log directory that the other left, with the same properties.

The clients outlive every server: an idempotent producer, a transaction that spans all changes of the server, and a
group that reads on. The metadata logs are compared record by record for state that clients do not show: users, access
control entries, quotas, features, ids.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from cli.runner import run
from real_kafka.broker import CLUSTER_ID, PATIENCE_S, Broker
from real_kafka.kafka_tools import KafkaTools
from real_kafka.test_cluster_metadata import OwnNode
from server.server_process import serving
from tidelog.record.internal_records.schema import ZERO_UUID
from tidelog.server.metadata.controller.decision import Decision
from tidelog.server.metadata.kraft.cluster_metadata import ClusterMetadata
from tidelog.server.metadata.kraft.metadata_view import read_metadata
from tidelog.server.metadata.kraft.snapshot import image_records
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import QuotaChange
from tidelog.storage.fs import LOCAL
from tidelog.testing.broker.kept_port import keep_port

pytestmark = pytest.mark.kafka

PROPERTIES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
    "log.retention.ms": "-1",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "metadata.log.max.record.bytes.between.snapshots": "2000",
}
"""Properties for frequent snapshots of the metadata, from which the other server must continue."""
_PATIENT = {"message.timeout.ms": PATIENCE_S * 1000}
TOPICS: Mapping[str, tuple[int, dict[str, str]]] = {
    "plain": (3, {}),
    "settled": (1, {"retention.ms": "1000000000", "max.message.bytes": "2000000"}),
    "open": (1, {}),
    "compacted": (
        1,
        {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.01",
            "segment.bytes": "1048576",
            "internal.segment.bytes": "4096",
        },
    ),
}
SCRAM = "SCRAM-SHA-256=[name=alice,password=alice-secret]"
QUOTA = ("producer_byte_rate", 123456.0)
KEPT = frozenset(
    {
        "FeatureLevelRecord",
        "TopicRecord",
        "ConfigRecord",
        "UserScramCredentialRecord",
        "AccessControlEntryRecord",
        "ClientQuotaRecord",
    }
)
"""The records whose subjects stay unchanged."""


@dataclass(slots=True)
class Clients:
    """Clients that stay while servers at ``bootstrap`` come and go."""

    bootstrap: str
    sent: dict[str, list[str]] = field(default_factory=lambda: {"plain": [], "open": []})
    latest: dict[str, str] = field(default_factory=dict)
    """The latest values of the compacted topic, by key."""
    group_offset: int = 0
    admin: AdminClient = field(init=False)
    producer: Producer = field(init=False)
    transaction: Producer = field(init=False)

    def __post_init__(self) -> None:
        self.admin = AdminClient(self._settings())
        self.producer = Producer(self._settings(**{"enable.idempotence": True}, **_PATIENT))
        lasting = {"transactional.id": "lasting", "transaction.timeout.ms": 900_000}
        self.transaction = Producer(self._settings(**lasting, **_PATIENT))

    def _settings(self, **more: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 0, "reconnect.backoff.max.ms": 500, **more}

    def begin(self) -> None:
        """Create the topics and begin the transaction on the first server."""
        for name, (partitions, configs) in TOPICS.items():
            topic = NewTopic(name, partitions, 1, config=configs)
            self.admin.create_topics([topic])[name].result(PATIENCE_S)
        self.transaction.init_transactions(PATIENCE_S)
        self.transaction.begin_transaction()
        self.transaction.produce("open", b"in a transaction", partition=0)
        assert self.transaction.flush(PATIENCE_S) == 0

    def work(self, server: str) -> None:
        """Write more records of every kind on ``server``, and commit an offset."""
        for number in range(30):
            value = f"{server}-{number}"
            self.producer.produce("plain", value.encode(), partition=0)
            self.sent["plain"].append(value)
        for number in range(600):
            key, value = f"key-{number % 7}", f"{server}-{number}"
            self.producer.produce("compacted", value.encode(), key.encode(), partition=0)
            self.latest[key] = value
            if number % 100 == 0:
                self.producer.flush(PATIENCE_S)  # one batch: the cleaner needs full segments
        assert self.producer.flush(PATIENCE_S) == 0
        self.group_offset = len(self.sent["plain"]) - 5
        with self._consumer("readers") as consumer:
            place = KafkaPartition("plain", 0, self.group_offset)
            consumer.commit(offsets=[place], asynchronous=False)

    def check(self, *, is_committed: bool = False) -> None:
        """Check that everything written so far is served."""
        topics = self.admin.list_topics(timeout=PATIENCE_S).topics
        assert {name: len(topics[name].partitions) for name in TOPICS} == {name: n for name, (n, _) in TOPICS.items()}
        resource = ConfigResource(ResourceType.TOPIC, "settled")
        configs = self.admin.describe_configs([resource])[resource].result(PATIENCE_S)
        assert {key: configs[key].value for key in TOPICS["settled"][1]} == TOPICS["settled"][1]
        assert [value for _, value in self.read("plain")] == self.sent["plain"]
        assert {key: value for key, value in self.read("compacted") if key} == self.latest
        assert [value for _, value in self.read("open")] == (["in a transaction"] if is_committed else [])
        assert [value for _, value in self.read("open", "read_uncommitted")] == ["in a transaction"]
        with self._consumer("readers") as consumer:
            (place,) = consumer.committed([KafkaPartition("plain", 0)], PATIENCE_S)
        assert place.offset == self.group_offset

    def commit(self) -> None:
        self.transaction.commit_transaction(PATIENCE_S)

    def read(self, topic: str, isolation: str = "read_committed") -> list[tuple[str | None, str]]:
        """Return the keys and values of the topic's first partition."""
        found: list[tuple[str | None, str]] = []
        with self._consumer("none", **{"isolation.level": isolation, "enable.partition.eof": True}) as consumer:
            consumer.assign([KafkaPartition(topic, 0, 0)])
            deadline = time.monotonic() + PATIENCE_S
            while time.monotonic() < deadline:
                for message in consumer.consume(1000, 0.2):
                    if message.error() is not None:
                        return found
                    key = message.key()
                    value = message.value()
                    assert value is not None
                    found.append((None if key is None else key.decode(), value.decode()))
        raise AssertionError(f"{topic} has no end: {found}")

    @contextmanager
    def _consumer(self, group: str, **settings: Any) -> Iterator[Consumer]:
        consumer = Consumer(self._settings(**{"group.id": group, "enable.auto.commit": False, **settings}))
        try:
            yield consumer
        finally:
            consumer.close()


@dataclass(slots=True)
class Home:
    """The log directory, and the properties file that both servers start with."""

    kafka: Broker
    properties: Path = field(init=False)
    clients: Clients = field(init=False)

    def __post_init__(self) -> None:
        self.properties = self.kafka.write_properties()
        self.clients = Clients(self.kafka.bootstrap)

    @contextmanager
    def tidelog(self, *, is_killed: bool = False) -> Iterator[None]:
        with serving(self.kafka.work, str(self.properties)) as process:
            process.line_with("serving")
            yield
            if is_killed:
                process.kill()
                return
            process.send_signal(signal.SIGTERM)
            code, words = process.ended()
            assert code == 0, words

    @contextmanager
    def real(self, *, is_killed: bool = False) -> Iterator[None]:
        self.kafka.start()
        yield
        if is_killed:
            self.kafka.kill()
        else:
            self.kafka.stop()

    @property
    def facts(self) -> list[tuple[str, str]]:
        """The state in the metadata log, without each server's own registration."""
        view = read_metadata(LOCAL, self.kafka.directory)
        assert view is not None
        known = [
            (record.name, repr(sorted(record.fields.items())))
            for record in image_records(view.image)
            if record.name in KEPT
        ]
        voters = [(voter.id, voter.directory_id) for voter in view.voters.voters]
        return sorted([*known, ("voters", repr(voters)), ("kraft.version", str(view.voters.kraft_version))])

    @property
    def has_snapshot(self) -> bool:
        view = read_metadata(LOCAL, self.kafka.directory)
        return view is not None and view.snapshot is not None and view.snapshot.offset > 0

    def was_cleaned(self) -> bool:
        checkpoint = self.kafka.directory / "cleaner-offset-checkpoint"
        return checkpoint.exists() and "compacted 0" in checkpoint.read_text()

    def wait_for_cleaning(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not self.was_cleaned():
            assert time.monotonic() < deadline, "the cleaner has not come by"
            time.sleep(0.1)


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """Reserve ports of broker and controller for both servers."""
    with keep_port() as one, keep_port() as other:
        yield one.getsockname()[1], other.getsockname()[1]


@pytest.fixture
def home(tmp_path: Path, ports: tuple[int, int], voters_in_log: bool) -> Iterator[Home]:
    kafka = Broker(
        tmp_path / "data", work=tmp_path / "work", properties=PROPERTIES, ports=ports, voters_in_log=voters_in_log
    )
    with kafka:
        yield Home(kafka)


@pytest.mark.parametrize("voters_in_log", [pytest.param(False, marks=pytest.mark.slow), True])
def test_from_tidelog_to_kafka_and_back(home: Home, ports: tuple[int, int], voters_in_log: bool) -> None:
    standalone = ["--standalone"] if voters_in_log else []
    run("format", "-t", CLUSTER_ID, "-c", home.properties, *standalone, "-S", SCRAM, "--apply")
    static = {} if voters_in_log else {"controller.quorum.voters": f"1@127.0.0.1:{ports[1]}"}
    OwnNode(home.kafka.directory, ports).live(write_what_clients_cannot, static)
    clients = home.clients
    with home.tidelog():
        clients.begin()
        clients.work("tidelog")
        home.wait_for_cleaning()
        clients.check()
    before = home.facts
    assert {name for name, _ in before} >= KEPT
    assert home.has_snapshot
    with home.real():
        clients.check()
        clients.work("kafka")
        clients.check()
    assert home.facts == before
    with home.tidelog():
        clients.check()
        clients.work("tidelog again")
        clients.commit()
        clients.check(is_committed=True)
    assert home.facts == before


@pytest.mark.slow
@pytest.mark.parametrize("voters_in_log", [False, True])
def test_from_kafka_to_tidelog_and_back(home: Home, voters_in_log: bool) -> None:
    home.kafka.format()
    clients = home.clients
    with home.real():
        with KafkaTools(clients.bootstrap) as tools:
            write_with_kafkas_tools(tools)
        clients.begin()
        clients.work("kafka")
        home.wait_for_cleaning()
        clients.check()
    before = home.facts
    assert {name for name, _ in before} >= KEPT
    assert home.has_snapshot
    with home.tidelog():
        clients.check()
        clients.work("tidelog")
        clients.check()
    assert home.facts == before
    with home.real():
        clients.check()
        clients.work("kafka again")
        clients.commit()
        clients.check(is_committed=True)
    assert home.facts == before


@pytest.mark.slow
@pytest.mark.parametrize("voters_in_log", [False, True])
def test_where_each_of_them_is_killed(home: Home) -> None:
    home.kafka.format()
    clients = home.clients
    with home.real(is_killed=True):
        clients.begin()
        clients.work("kafka")
    with home.tidelog(is_killed=True):
        clients.check()
        clients.work("tidelog")
    before = home.facts
    with home.real(is_killed=True):
        clients.check()
        clients.work("kafka again")
    with home.tidelog():
        clients.check()
        clients.commit()
        clients.check(is_committed=True)
    assert home.facts == before


async def write_what_clients_cannot(metadata: ClusterMetadata) -> None:
    """Write a quota and an access control entry."""
    entity = (("client-id", "limited"), ("user", "alice"))
    await metadata.alter_client_quotas([QuotaChange(entity, [QUOTA])])
    entry = {
        "id": ZERO_UUID[:-1] + "Q",
        "resourceType": 2,
        "resourceName": "plain",
        "patternType": 3,
        "principal": "User:alice",
        "host": "*",
        "operation": 3,
        "permissionType": 3,
    }
    await metadata._store.change(lambda: Decision([MetadataRecord("AccessControlEntryRecord", entry)], None))


def write_with_kafkas_tools(tools: KafkaTools) -> None:
    """Write the same quota and entry, and a user."""
    user = ["--entity-type", "users", "--entity-name", "alice"]
    tools.told("kafka-configs", "--alter", *user, "--add-config", "SCRAM-SHA-256=[password=alice-secret]")
    client = ["--entity-type", "clients", "--entity-name", "limited"]
    tools.told("kafka-configs", "--alter", *user, *client, "--add-config", f"{QUOTA[0]}={QUOTA[1]}")
    entry = ["--allow-principal", "User:alice", "--operation", "Read", "--topic", "plain"]
    tools.told("kafka-acls", "--add", *entry)
