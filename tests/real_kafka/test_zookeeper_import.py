"""A cluster of Kafka 3.9 with ZooKeeper is imported: tidelog and Kafka 4.4 then have all that it had.

One function asks a broker, and all three brokers must give the same facts: topics with ids and settings, users, ACLs,
quotas, committed offsets, and the outcome of each user's attempts to authenticate, read and write.
"""

from __future__ import annotations

import json
import signal
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicCollection,
)
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ConfigResource,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from cli.runner import rows, run
from golden_sets import captured_znodes
from real_kafka.broker import PATIENCE_S, Broker
from real_kafka.kafka_tools import KafkaTools
from real_kafka.zookeeper_cluster import (
    COMMITTED,
    MECHANISMS,
    NODE_ID,
    TOPICS,
    USERS,
    ZooKeeperBroker,
    ZooKeeperServer,
    captured,
    write_everything,
)
from served_records import served_entries
from server.harness import running_broker
from server.security.certificates import authority, client_identity, server_identity
from server.server_process import serving
from tidelog.model import ZnodeError, ZooKeeperError
from tidelog.server.metadata.zookeeper import kazoo_client
from tidelog.server.metadata.zookeeper.address import ZooKeeperAddress
from tidelog.server.metadata.zookeeper.connection import connection_settings
from tidelog.server.metadata.zookeeper.kazoo_client import KazooReader, ZooKeeperSettings
from tidelog.testing.broker.kept_port import keep_port

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

Client = dict[str, str | int | float | bool]
"""The settings of a client."""
GONE: Final = frozenset({"message.format.version", "message.downconversion.enable"})
"""Settings of topics that Kafka 4 does not have."""
URL_SAFE: Final = str.maketrans("+/", "-_")
"""The characters of Kafka's base64 for those of librdkafka."""
PATIENCE_MS: Final = 20_000
"""The timeout of an attempt."""
TOO_LARGE: Final = 4_000_000
"""More bytes than any topic accepts."""
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


def shapes(znodes: dict[str, dict[str, Any]]) -> dict[str, object]:
    """Return the shape of each znode's data by path, without the announcements of changes."""
    lasting = {path: one["data"] for path, one in znodes.items() if "_change" not in path}
    return {path: None if data is None else shape_of(json.loads(data)) for path, data in lasting.items()}


def shape_of(value: Any) -> object:
    """Return the keys in their sequence, and the types of values. The items of an array are sorted by their shapes."""
    if isinstance(value, dict):
        return [(key, shape_of(one)) for key, one in value.items()]
    if isinstance(value, list):
        return sorted((shape_of(one) for one in value), key=str)
    return type(value).__name__


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


def facts_of(bootstrap: str, scram_bootstrap: str) -> dict[str, Any]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    with KafkaTools(bootstrap) as tools:
        quotas = [
            line
            for kinds in (["users"], ["clients"], ["users", "clients"], ["ips"])
            for line in tools.told(
                "kafka-configs", "--describe", *(word for kind in kinds for word in ("--entity-type", kind))
            )
        ]
    any_name: Any = None
    everything = AclBindingFilter(
        ResourceType.ANY,
        any_name,
        ResourcePatternType.ANY,
        any_name,
        any_name,
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    described: Any = admin.describe_user_scram_credentials()
    users = described.result(PATIENCE_S)
    return {
        "topics": topic_facts(admin),
        "users": {
            user: sorted((one.mechanism.name, one.iterations) for one in found.scram_credential_infos)
            for user, found in users.items()
        },
        "acls": sorted(map(str, admin.describe_acls(everything).result(PATIENCE_S))),
        "quotas": sorted(" ".join(sorted(line.replace("=", " ").split())) for line in quotas),
        "offsets": {group: offsets_of(admin, group) for group in COMMITTED},
        "records": served_entries(bootstrap, [f"orders-{number}" for number in range(TOPICS["orders"][0])]),
        "attempts": dict(attempts(scram_bootstrap)),
    }


def topic_facts(admin: AdminClient) -> dict[str, Any]:
    names = [*TOPICS, "__consumer_offsets", "__transaction_state"]
    described = admin.describe_topics(TopicCollection(names))
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in names]
    configs = {one.name: found.result(PATIENCE_S) for one, found in admin.describe_configs(resources).items()}
    return {
        name: {
            "id": str(found.result(PATIENCE_S).topic_id).translate(URL_SAFE),
            "partitions": len(found.result(PATIENCE_S).partitions),
            "settings": {
                key: entry.value
                for key, entry in configs[name].items()
                if not entry.is_default and entry.source == 1 and key not in GONE
            },
        }
        for name, found in described.items()
    }


def offsets_of(admin: AdminClient, group: str) -> dict[str, int]:
    wanted = ConsumerGroupTopicPartitions(group)
    found = admin.list_consumer_group_offsets([wanted])[group].result(PATIENCE_S)
    return {f"{one.topic}-{one.partition}": one.offset for one in found.topic_partitions}


def attempts(bootstrap: str) -> Iterator[tuple[str, str]]:
    """Yield each attempt and its outcome: ``done``, or the name of librdkafka's error."""
    for user, password in {**USERS, "mallory": "x"}.items():
        for mechanism in MECHANISMS:
            for given in (password, "wrong") if user in USERS else (password,):
                client: Client = {
                    "bootstrap.servers": bootstrap,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": mechanism,
                    "sasl.username": user,
                    "sasl.password": given,
                    "log_level": 0,
                }
                is_right = given == password and user in USERS
                name = f"{user} {mechanism} {'right' if is_right else given}"
                yield f"{name} authenticates", outcome(lambda client=client: list_topics(client))
                if is_right and mechanism == MECHANISMS[0]:
                    for topic in TOPICS:
                        yield f"{name} writes {topic}", outcome(lambda c=client, topic=topic: write(c, topic))
                        yield f"{name} reads {topic}", outcome(lambda c=client, topic=topic: read(c, topic))
                    for group in COMMITTED:
                        yield f"{name} asks {group}", outcome(lambda c=client, g=group: offsets_of(AdminClient(c), g))


def outcome(attempt: Any) -> str:
    try:
        attempt()
    except KafkaException as error:
        return str(error.args[0].name())
    return "done"


def list_topics(client: Client) -> None:
    AdminClient(client).list_topics(timeout=3)


def write(client: Client, topic: str) -> None:
    """Write a record that is too large: a broker checks the authorization first, and nothing is written."""
    errors: list[KafkaException] = []
    producer = Producer({**client, "message.max.bytes": 10_000_000, "message.timeout.ms": PATIENCE_MS, "retries": 0})
    producer.produce(
        topic, bytes(TOO_LARGE), partition=0, on_delivery=lambda error, _message: errors.append(KafkaException(error))
    )
    producer.flush(PATIENCE_S)
    raise errors[0]


def read(client: Client, topic: str) -> None:
    """Wait for the first record, or a moment if there is none. A denied group does not end a read."""
    consumer = Consumer({**client, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([KafkaPartition(topic, 0, 0)])
    try:
        for _ in range(8):
            message = consumer.poll(0.5)
            error = None if message is None else message.error()
            if error is not None and error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                raise KafkaException(error)
            if message is not None and error is None:
                return
    finally:
        consumer.close()


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
