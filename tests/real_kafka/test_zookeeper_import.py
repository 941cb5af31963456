"""A cluster of Kafka 3.9 with ZooKeeper is imported: tidelog and Kafka 4.4 then have all that it had.

All three brokers must give the same facts (``zookeeper_facts``).
"""

from __future__ import annotations

import json
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from cli.runner import rows, run
from golden_sets import captured_znodes
from real_kafka.broker import PATIENCE_S, Broker
from real_kafka.kafka_tools import KafkaTools
from real_kafka.znode_comparison import shapes
from real_kafka.zookeeper_cluster import (
    MECHANISMS,
    NODE_ID,
    ZooKeeperBroker,
    ZooKeeperServer,
    captured,
    write_everything,
)
from real_kafka.zookeeper_facts import facts_of
from served_records import served_entries
from server.harness import running_broker
from server.security.certificates import authority, client_identity, server_identity
from server.server_process import serving
from tidelog.model import ZnodeError, ZooKeeperError
from tidelog.server.metadata.zookeeper import kazoo_client
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.connection import connection_settings
from tidelog.server.metadata.zookeeper.kazoo_client import KazooReader
from tidelog.server.metadata.zookeeper.settings import ZooKeeperSettings
from tidelog.testing.broker.kept_port import keep_port

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


class Left:
    """The facts and the directories of a broker of Kafka 3.9 that has stopped."""

    def __init__(self, connect: str, disks: tuple[Path, Path], facts: dict[str, Any]) -> None:
        self.connect = connect
        self.disks = disks
        self.facts = facts


@pytest.fixture(scope="module")
def left(zookeeper: ZooKeeperServer, tmp_path_factory: pytest.TempPathFactory) -> Left:
    root = tmp_path_factory.mktemp("kafka")
    disks = (root / "disk1", root / "disk2")
    with ZooKeeperBroker(zookeeper, disks, work=root / "work") as broker:
        broker.start()
        write_everything(broker)
        facts = facts_of(broker.bootstrap, broker.scram_bootstrap)
        broker.stop()
    return Left(broker.connect, disks, facts)


def test_the_captured_znodes_are_still_kafkas(left: Left) -> None:
    """The golden znodes have the paths of new ones, and JSON of the same shape. Announcements may have expired."""
    new, old = (shapes(znodes) for znodes in (captured(left.connect), captured_znodes()))
    assert new == old
    assert len(new) > 150


def test_tidelog_and_kafka_4_have_everything(left: Left, tmp_path: Path) -> None:
    before = captured(left.connect)
    with keep_port() as one, keep_port() as two, keep_port() as three:
        plain, controller, scram = (place.getsockname()[1] for place in (one, two, three))
        properties = {
            "node.id": str(NODE_ID),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": ",".join(MECHANISMS),
            **{f"listener.name.sasl_plaintext.{one.lower()}.sasl.jaas.config": _SCRAM_MODULE for one in MECHANISMS},
        }
        kafka = Broker(
            left.disks[0],
            work=tmp_path / "work",
            properties=properties,
            ports=(plain, controller),
            more_directories=left.disks[1:],
            voters_in_log=True,
            more_listeners=f"SASL_PLAINTEXT://127.0.0.1:{scram}",
        )
        file = kafka.write_properties()
        planned = rows("import", *left.disks, "--zookeeper", left.connect, "--config", file)
        done = run("import", *left.disks, "--zookeeper", left.connect, "--config", file, "--apply")
        assert "message.format.version" in done.output
        assert captured(left.connect) == before
        assert {row["name"]: row["fields"]["topic_id"] for row in planned if row["kind"] == "topic"} == {
            name: topic["id"] for name, topic in left.facts["topics"].items()
        }
        with serving(tmp_path, str(file)) as process:
            process.line_with("serving")
            assert facts_of(kafka.bootstrap, f"127.0.0.1:{scram}") == left.facts
            process.send_signal(signal.SIGTERM)
            assert process.ended()[0] == 0
        with kafka:
            kafka.start()
            assert facts_of(kafka.bootstrap, f"127.0.0.1:{scram}") == left.facts
            kafka.stop()


def test_of_two_brokers_the_one_that_stops_last_is_imported(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    """The other broker's replicas are not in sync then, so its directory is refused. A topic that only the other broker
    has is left out, and one with partitions on either of them is refused until it is reassigned."""
    properties = {"offsets.topic.replication.factor": "2", "transaction.state.log.replication.factor": "2"}
    home = {node: tmp_path / f"broker{node}" for node in (7, 8)}
    chroot = "/two"
    with ExitStack() as stack:
        one, two = (
            stack.enter_context(
                ZooKeeperBroker(
                    zookeeper,
                    (path / "data",),
                    work=path / "work",
                    node_id=node,
                    chroot=chroot,
                    properties=properties,
                )
            )
            for node, path in home.items()
        )
        one.start()
        two.start(brokers=2)
        admin = AdminClient({"bootstrap.servers": one.bootstrap})
        assignments = {"both": [[7, 8], [8, 7]], "far": [[8]], "split": [[7], [8]]}
        topics = [NewTopic(name, len(replicas), replica_assignment=replicas) for name, replicas in assignments.items()]
        for created in admin.create_topics(topics).values():
            created.result(PATIENCE_S)
        producer = Producer({"bootstrap.servers": one.bootstrap, "acks": "all"})
        for number in range(20):
            producer.produce("both", b"record %d" % number, partition=number % 2)
            producer.produce("split", b"record %d" % number, partition=number % 2)
        assert producer.flush(PATIENCE_S) == 0
        source = ("--zookeeper", one.connect)
        directories = [path / "data" for path in home.values()]
        two.stop()
        one.stop()
        roles = rows("info", *directories, "both", *source)
        assert {(row["node_id"], row["role"]) for row in roles} == {(7, "leader"), (8, "out of sync")}
        assert (
            "replicas that are not in sync: both-0 (in sync: 7), both-1"
            in run("import", directories[1], *source, code=3).stderr
        )
        assert (
            "partitions on other brokers only: split-1 (brokers 8)"
            in run("import", directories[0], *source, code=3).stderr
        )
        one.start()
        two.start(brokers=2)
        reassign(one.bootstrap, "split", [[7], [8, 7]], tmp_path)
        two.stop()
        one.stop()
        planned = rows("import", directories[0], *source, "--apply")
    left_out = {(row["name"], row["fields"]["name"]) for row in planned if row["kind"] == "left_out"}
    assert {
        ("topics of other brokers", "far"),
        ("replicas on other brokers", "both-0 (brokers 8)"),
        ("replicas on other brokers", "split-1 (brokers 8)"),
    } <= left_out
    with running_broker(directories[0], node_id="7") as broker:
        found = served_entries(broker.bootstrap, ["both-0", "both-1", "split-0", "split-1"])
        assert [entry["count"] for entry in found.values()] == [10] * 4
        assert not broker.call(lambda: broker.broker.logs.strays)


def reassign(bootstrap: str, topic: str, replicas: list[list[int]], work: Path) -> None:
    """Reassign the partitions, and return when that is complete."""
    partitions = [{"topic": topic, "partition": number, "replicas": one} for number, one in enumerate(replicas)]
    file = work / "reassignment.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    with KafkaTools(bootstrap) as tools:
        plan = ("--reassignment-json-file", str(file))
        tools.told("kafka-reassign-partitions", *plan, "--execute")
        while "is still in progress" in "".join(tools.told("kafka-reassign-partitions", *plan, "--verify")):
            time.sleep(0.5)


class TestTroubles:
    def test_no_chroot(self, zookeeper: ZooKeeperServer) -> None:
        address = ZooKeeperAddress.parse(f"{zookeeper.address}/nothing/{uuid.uuid4()}")
        with pytest.raises(ZooKeeperError, match="has no znode /nothing/"):
            KazooReader(ZooKeeperSettings(address=address)).__enter__()

    def test_a_znode_that_only_brokers_may_read(self, zookeeper: ZooKeeperServer) -> None:
        writer = KazooClient(zookeeper.address)
        writer.start()
        writer.create("/secret", b"", acl=[make_digest_acl("kafka", "secret", all=True)])
        writer.stop()
        with (
            KazooReader(ZooKeeperSettings(address=ZooKeeperAddress.parse(zookeeper.address))) as reader,
            pytest.raises(ZooKeeperError, match=r"does not let this client read /secret: its ACL"),
        ):
            list(reader.read(["/secret"]))

    def test_too_many_children(self, zookeeper: ZooKeeperServer, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(kazoo_client, "MAX_CHILDREN", 1)
        with (
            KazooReader(ZooKeeperSettings(address=ZooKeeperAddress.parse(zookeeper.address))) as reader,
            pytest.raises(ZnodeError, match=r"znode /zookeeper has 2 children, and at most 1 are read"),
        ):
            list(reader.list_children(["/zookeeper"]))

    def test_a_server_that_stops_responding(self, tmp_path: Path) -> None:
        with ZooKeeperServer(tmp_path) as server:
            address = ZooKeeperAddress.parse(server.address)
            with KazooReader(ZooKeeperSettings(address=address, timeout_ms=2000)) as reader:
                assert list(reader.list_children(["/"])) == [("zookeeper",)]
                server.process.pause()
                with pytest.raises(ZooKeeperError, match=r"did not respond to a read of /zookeeper within 2 s"):
                    list(reader.read(["/zookeeper"]))
                server.process.kill()

    def test_a_server_that_ends(self, tmp_path: Path) -> None:
        with ZooKeeperServer(tmp_path) as server:
            address = ZooKeeperAddress.parse(server.address)
            with KazooReader(ZooKeeperSettings(address=address, timeout_ms=2000)) as reader:
                server.process.kill()
                with pytest.raises(ZooKeeperError, match=r"a read of /zookeeper failed|did not respond"):
                    list(reader.read(["/zookeeper"]))

    def test_tls(self, tmp_path: Path) -> None:
        """The server wants a certificate of the client. Without one, or by another name, there is no session."""
        files = {
            "server": server_identity().key_pem() + server_identity().chain_pem,
            "client": client_identity().key_pem() + client_identity().chain_pem,
            "trusted": authority().pem,
        }
        for name, pem in files.items():
            (tmp_path / f"{name}.pem").write_text(pem)
        tls = {
            "ssl.keyStore.location": str(tmp_path / "server.pem"),
            "ssl.trustStore.location": str(tmp_path / "trusted.pem"),
            "ssl.clientAuth": "need",
        }
        trusting = {
            "zookeeper.ssl.client.enable": "true",
            "zookeeper.ssl.truststore.location": str(tmp_path / "trusted.pem"),
            "zookeeper.connection.timeout.ms": "8000",
        }
        known = {**trusting, "zookeeper.ssl.keystore.location": str(tmp_path / "client.pem")}
        with ZooKeeperServer(tmp_path / "server", tls=tls) as server:
            with KazooReader(connection_settings(server.tls_address, known)) as reader:
                assert list(reader.list_children(["/"])) == [("zookeeper",)]
            for properties, address in ((trusting, server.tls_address), (known, server.address)):
                with pytest.raises(ZooKeeperError, match="did not accept a session"):
                    KazooReader(connection_settings(address, properties)).__enter__()
