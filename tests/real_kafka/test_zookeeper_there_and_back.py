"""Kafka 3.9 and tidelog start one after the other on the same ZooKeeper and the same two log directories.

Each of them serves everything that the other one made. Meanwhile a twin, which is always Kafka, gets the same changes
below another chroot. The znodes of the two are compared path by path, with their versions, so each difference between
tidelog's writes and Kafka's is a row of a table here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from golden_sets import FORMATS, manifest
from real_kafka.broker import PATIENCE_S
from real_kafka.cluster_node import Program
from real_kafka.znode_comparison import Allowed, differences, unexplained
from real_kafka.zookeeper_changes import change_everything
from real_kafka.zookeeper_cluster import NODE_ID, TOPICS, ZooKeeperBroker, ZooKeeperServer, captured, write_everything
from real_kafka.zookeeper_ensemble import ZnodeClient
from real_kafka.zookeeper_facts import GONE, fact_differences, facts_of
from served_records import served_entries
from tidelog.server.metadata.zookeeper import paths
from tidelog.server.metadata.zookeeper.znodes import ClusterIdZnode, StateZnode, TopicZnode
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE, MetaProperties, PartitionMetadata
from tidelog.storage.fs import LOCAL

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ONE, TWIN = "/there/and/back", "/twin"
KNOWN_TOPICS: Final = {name: topic for name, topic in TOPICS.items() if not GONE & topic[1].keys()}
"""The topics that have no settings of formats: tidelog cannot create those."""
_SESSION: Final = {"zookeeper.session.timeout.ms": "6000"}

FROM_A_START: Final = (
    Allowed.of(paths.CONTROLLER_EPOCH, "data version", "each start elects a controller, which has a new epoch"),
    Allowed.of(
        r"/brokers/topics/[^/]+/partitions/\d+/state",
        "data version",
        "a controller elects the leaders of its broker again, and writes its epoch",
    ),
    Allowed.of(paths.PRODUCER_IDS, "data version", "each start takes a new block of producer ids"),
)
"""The differences that starts make, more of them or fewer."""
OF_TIDELOG: Final = (*FROM_A_START,)
"""The differences between tidelog's writes and Kafka's."""


@pytest.fixture(scope="module")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


class Home:
    """A broker with two log directories below a chroot, and a transaction that outlives each stop."""

    def __init__(self, zookeeper: ZooKeeperServer, root: Path, chroot: str) -> None:
        self.zookeeper = zookeeper
        self.chroot = chroot
        self.disks = (root / "disk1", root / "disk2")
        self.broker = ZooKeeperBroker(zookeeper, self.disks, work=root / "work", chroot=chroot, properties=_SESSION)
        self.topics = list(TOPICS)
        self._transaction: Producer | None = None
        self._steps = 0

    @contextmanager
    def served_by(self, program: Program) -> Iterator[None]:
        self.broker.start(program=program)
        yield
        self.broker.stop()

    def begin(self, topics: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
        """Write everything, and leave a transaction open."""
        self.topics = list(topics)
        write_everything(self.broker, topics)
        settings = {
            "bootstrap.servers": self.broker.bootstrap,
            "transactional.id": "lasting",
            "transaction.timeout.ms": 900_000,
            "message.timeout.ms": PATIENCE_S * 1000,
            "log_level": 0,
        }
        self._transaction = Producer(settings)
        self._transaction.init_transactions(PATIENCE_S)
        self._open_transaction()

    def change(self, name: str) -> None:
        """Change everything, commit the open transaction, and leave the next one open."""
        self._steps += 1
        self.topics += change_everything(self.broker.bootstrap, name, self._steps, NODE_ID)
        assert self._transaction is not None
        self._transaction.commit_transaction(PATIENCE_S)
        self._open_transaction()

    def _open_transaction(self) -> None:
        assert self._transaction is not None
        self._transaction.begin_transaction()
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._transaction.produce("with.dots_and-dashes", b"in a transaction", partition=0)
            except KafkaException as error:  # a broker of Kafka that starts does not know its topics for a moment
                if error.args[0].code() != KafkaError._UNKNOWN_TOPIC or time.monotonic() > deadline:
                    raise
                self._transaction.list_topics(timeout=PATIENCE_S)
            else:
                break
        assert self._transaction.flush(PATIENCE_S) == 0

    def facts(self, *, with_attempts: bool = False) -> dict[str, Any]:
        """Everything that clients see."""
        addresses = (self.broker.bootstrap, self.broker.scram_bootstrap)
        return facts_of(*addresses, self.topics, with_attempts=with_attempts)

    def check(self, facts: dict[str, Any]) -> None:
        """Check that clients see the same facts."""
        found = fact_differences(facts, self.facts(with_attempts=bool(facts["attempts"])))
        assert not found, "\n".join(found)

    @property
    def znodes(self) -> dict[str, dict[str, Any]]:
        return captured(self.broker.connect)

    @property
    def meta_properties(self) -> list[set[str]]:
        """The lines of each ``meta.properties``, without its comments and the directory id that tidelog adds."""
        return [
            {
                line
                for line in (disk / "meta.properties").read_text().splitlines()
                if not line.startswith(("#", "directory.id="))
            }
            for disk in self.disks
        ]

    @property
    def partitions(self) -> list[set[str]]:
        """The names of the directories in each log directory."""
        return [{path.name for path in disk.iterdir() if path.is_dir()} for disk in self.disks]


@pytest.fixture
def home(zookeeper: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Home]:
    home = Home(zookeeper, tmp_path / "one", f"{ONE}/{request.node.name}")
    with home.broker:
        yield home


@pytest.fixture
def twin(zookeeper: ZooKeeperServer, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Home]:
    home = Home(zookeeper, tmp_path / "twin", f"{TWIN}/{request.node.name}")
    with home.broker:
        yield home


def check_same_znodes(home: Home, twin: Home) -> None:
    left = unexplained(differences(twin.znodes, home.znodes), OF_TIDELOG)
    assert not left, "\n".join(left)


def there_and_back(home: Home, twin: Home, first: Program, topics: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
    """Let the first program begin, the other one go on, the first one end, and each serve everything."""
    second = Program.TIDELOG if first is Program.KAFKA else Program.KAFKA
    with home.served_by(first):
        home.begin(topics)
        facts = home.facts()
    with twin.served_by(Program.KAFKA):
        twin.begin(topics)
    check_same_znodes(home, twin)
    before, identity = home.znodes, home.meta_properties
    with home.served_by(second):
        home.check(facts)
    left = unexplained(differences(before, home.znodes), FROM_A_START)
    assert not left, "\n".join(left)
    for name, program in (("second", second), ("third", first)):
        with home.served_by(program):
            home.check(facts)
            home.change(name)
            facts = home.facts(with_attempts=name == "third")
        with twin.served_by(Program.KAFKA):
            twin.change(name)
        check_same_znodes(home, twin)
    with home.served_by(second):
        home.check(facts)
    assert home.meta_properties == identity
    assert not [name for disk in home.partitions for name in disk if name.endswith(("-stray", "-future"))]


def test_kafka_itself_passes(home: Home, twin: Home) -> None:
    """Two brokers of Kafka with the same changes have the same znodes, so the table has nothing of Kafka's own."""
    for one in (home, twin):
        with one.served_by(Program.KAFKA):
            one.begin(TOPICS)
        with one.served_by(Program.KAFKA):
            one.change("second")
    check_same_znodes(home, twin)


def test_kafka_begins(home: Home, twin: Home) -> None:
    there_and_back(home, twin, Program.KAFKA, TOPICS)


def test_tidelog_begins_on_an_empty_zookeeper(home: Home, twin: Home) -> None:
    there_and_back(home, twin, Program.TIDELOG, KNOWN_TOPICS)


def test_each_of_them_is_killed(home: Home) -> None:
    """The next one recovers the logs. Neither starts while the other one's session lasts."""
    with home.served_by(Program.KAFKA):
        home.begin(TOPICS)
    facts: dict[str, Any] = {}
    for program in (Program.KAFKA, Program.TIDELOG, Program.KAFKA, Program.TIDELOG):
        home.broker.start(program=program)
        if facts:
            home.check(facts)
        home.change(f"change-{len(home.topics)}")
        facts = home.facts()
        home.broker.process.kill()
        await_end_of_session(home)
    with home.served_by(Program.KAFKA):
        home.check(facts)


def await_end_of_session(home: Home) -> None:
    """Return when the broker is not registered any more."""
    with ZnodeClient(home.zookeeper.address, home.chroot) as client:
        deadline = time.monotonic() + PATIENCE_S
        while client.broker_epoch(NODE_ID) is not None:
            assert time.monotonic() < deadline, "the session does not end"
            time.sleep(0.1)


def test_old_formats_are_served_without_a_step_by_hand(
    zookeeper: ZooKeeperServer, golden_copy: Callable[[str, str], Path], tmp_path: Path
) -> None:
    """The directory of a broker that wrote formats v0 and v1, with the znodes that it had."""
    directory = golden_copy(FORMATS, "clean")
    entries = {name: levels["read_uncommitted"] for name, levels in manifest(FORMATS).items()}
    with ZooKeeperBroker(zookeeper, (directory,), work=tmp_path / "work", chroot="/formats") as broker:
        write_znodes_of(directory, zookeeper.address, "/formats")
        for program in (Program.TIDELOG, Program.KAFKA, Program.TIDELOG):
            broker.start(program=program)
            assert served_entries(broker.bootstrap, entries) == entries
            broker.stop()


def write_znodes_of(directory: Path, address: str, chroot: str) -> None:
    """Write the cluster id, and the topics and states of all partitions in a directory."""
    names = sorted(path.name for path in directory.iterdir() if (path / PARTITION_METADATA_FILE).exists())
    cluster_id = MetaProperties.parse((directory / "meta.properties").read_bytes()).cluster_id
    assert cluster_id is not None
    with ZnodeClient(address, chroot) as client:
        client.create(paths.CLUSTER_ID, ClusterIdZnode(cluster_id).encode())
        for topic, places in groupby(names, lambda name: name.rpartition("-")[0]):
            numbers = [int(name.rpartition("-")[2]) for name in places]
            metadata = PartitionMetadata.read(LOCAL, directory / f"{topic}-{numbers[0]}" / PARTITION_METADATA_FILE)
            assert metadata is not None
            replicas = dict.fromkeys(numbers, (NODE_ID,))
            client.create(paths.topic(topic), TopicZnode(topic_id=metadata.topic_id, replicas=replicas).encode())
            for number in numbers:
                state = StateZnode(leader=NODE_ID, leader_epoch=5, controller_epoch=1, isr=(NODE_ID,))
                client.create(paths.state(topic, number), state.encode())
