"""`tidelog mirror` of three real brokers under faults: the copy is true, and brokers go on with it.

A cluster serves all tests of a module. While a load writes everything that Kafka stores, the mirror is killed, its
network fails, leaders die and an unclean election loses records that the mirror has. Then the copy has the leaders'
bytes. Kafka and `tidelog serve` start on it with the source's groups, settings and ACLs, and a transactional producer
goes on.
"""

from __future__ import annotations

import random
import shlex
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from real_kafka.broker import Broker
from real_kafka.cluster import PATIENCE_S, Cluster
from real_kafka.cluster_link import Way
from real_kafka.cluster_load import GROUP, GROUP_IN_TRANSACTIONS, TOPICS, Load, LoadSize
from real_kafka.copy_comparison import acls_of, committed_offsets, settings_of, wait_for_true_copy
from real_kafka.java import KRAFT_3, NEWEST
from real_kafka.mirror_process import MirrorProcess
from real_kafka.real_crashes.test_full_disk import mounting
from real_kafka.served_batches import ServedBatches
from served_records import served_entries
from server.server_process import ANY_PORT, serving
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView

pytestmark = pytest.mark.kafka

LOSSY = "lossy"
"""The topic of the unclean election."""
UNCOMPACTED = (*(topic for topic in TOPICS if topic != "compacted"), LOSSY)
GROUPS = (GROUP, GROUP_IN_TRANSACTIONS)


@dataclass(frozen=True, slots=True)
class Story:
    """The amount of everything in a run."""

    size: LoadSize
    kills: int


SHORT = Story(LoadSize(), kills=2)
LONG = Story(
    LoadSize(turns=250, records=4_000, batch_records=200, partitions=4, keys=5_000, segment_bytes=1 << 20), kills=20
)
"""A million records in each topic."""


@dataclass(frozen=True, slots=True)
class Source:
    """A cluster with a complete load, and a copy that was made through all faults."""

    cluster: Cluster
    served: ServedBatches
    copy: Path
    root: Path
    """An empty directory for the files of tests."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param((NEWEST, SHORT), id="short"),
        pytest.param((KRAFT_3, SHORT), id="short-3.9", marks=pytest.mark.slow),
        pytest.param((NEWEST, LONG), id="long", marks=pytest.mark.slow),
        pytest.param((KRAFT_3, LONG), id="long-3.9", marks=pytest.mark.slow),
    ],
)
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Source]:
    """Mirror a load through all faults, and end with a run up to the source's ends."""
    release, story = request.param
    root = tmp_path_factory.mktemp("mirror")
    copy = root / "copy"
    with Cluster(root / "cluster", release=release) as cluster:
        cluster.start()
        cluster.admin.create_acls([ACL])[ACL].result(PATIENCE_S)
        load = Load(cluster, story.size)
        load.create_topics()
        cluster.create_topic(LOSSY, assignment=[[1, 2]])
        with (
            MirrorProcess(copy, cluster.bootstrap) as mirror,
            ServedBatches(cluster, ["compacted"], root / "served") as served,
        ):
            mirror.follow()
            load.start()
            disturb(cluster, mirror, story.kills)
            lose_copied_records(cluster, mirror)
            load.wait()
            load.finish()
            wait_for_true_copy(cluster, copy, UNCOMPACTED)
            mirror.require_running()
            assert mirror.stop() == 0, mirror.events
            assert mirror.run_once() == 0, mirror.events
            yield Source(cluster, served, copy, root)


def test_the_copy_is_true_after_all_faults(source: Source) -> None:
    wait_for_true_copy(source.cluster, source.copy, UNCOMPACTED)
    wait_for_true_copy(source.cluster, source.copy, ["compacted"], source.served)


@pytest.mark.parametrize("start", ["kafka", "tidelog"])
def test_a_broker_goes_on_with_the_copy(source: Source, start: str) -> None:
    expected = everything(source.cluster.direct, source.cluster.admin)
    started = started_kafka if start == "kafka" else started_tidelog
    with started(Path(shutil.copytree(source.copy, source.root / start / "data"))) as bootstrap:
        assert everything(bootstrap, AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})) == expected
        go_on(bootstrap)


def test_a_full_disk_ends_the_mirror_and_the_copy_goes_on(source: Source) -> None:
    """The first run fills a tmpfs. The same command completes the copy after the disk has grown."""
    prefix = mounting(source.root)
    if prefix is None:
        pytest.skip("no tmpfs: `unshare --mount` and `mount` are not allowed here")
    disk, kept = source.root / "disk", source.root / "kept"
    disk.mkdir()
    size = sum(path.stat().st_size for path in source.copy.rglob("*") if path.is_file())
    mirror = " ".join(map(shlex.quote, MirrorProcess(disk / "copy", source.cluster.bootstrap).command))
    script = f"""
        mount -t tmpfs -o size={size // 2} tmpfs {disk}
        {mirror}; echo first $?
        mount -o remount,size={size * 4} {disk}
        {mirror}; echo second $?
        cp -a {disk}/copy {kept}
    """
    done = subprocess.run([*prefix, "sh", "-c", script], capture_output=True, text=True)
    assert "first 3" in done.stdout, done.stdout[-2000:] + done.stderr
    assert "no space left on the disk" in done.stderr
    assert "second 0" in done.stdout, done.stdout[-2000:] + done.stderr
    wait_for_true_copy(source.cluster, kept, UNCOMPACTED)


def test_a_source_that_lost_a_topics_records_does_not_empty_the_copy(source: Source) -> None:
    """All replicas of a topic lose their files. The copy keeps its records until it may follow."""
    cluster, before = source.cluster, log_end(source.copy / "zstd-0")
    cluster.kill(*cluster.brokers)
    for node in cluster.brokers.values():
        for path in node.directory.glob("zstd-*/*"):
            if path.name != PARTITION_METADATA_FILE:
                path.unlink()
    cluster.restart(*cluster.brokers)
    cluster.wait("all brokers lead again", lambda: cluster.leader("zstd", 0) >= 0)
    with MirrorProcess(source.copy, cluster.bootstrap) as mirror:
        assert mirror.run_once() == 1, mirror.events
        assert "zstd-0: the source's log ends at offset 0" in mirror.text
        assert log_end(source.copy / "zstd-0") == before
        wait_for_true_copy(cluster, source.copy, set(UNCOMPACTED) - {"zstd"})
        assert mirror.run_once("--accept-data-loss") == 0, mirror.events
        wait_for_true_copy(cluster, source.copy, UNCOMPACTED)


ACL = AclBinding(
    ResourceType.TOPIC,
    "plain",
    ResourcePatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)


def disturb(cluster: Cluster, mirror: MirrorProcess, kills: int) -> None:
    """Kill the mirror several times, break and freeze its network, kill a leader and restart it."""
    draw = random.Random("faults")
    for _ in range(kills):
        wait_for_growth(cluster, mirror, draw.randrange(1, 400))
        mirror.kill()
        mirror.follow()
    for link in cluster.links.values():
        link.disconnect()
    cluster.links[1].heal()
    wait_for_growth(cluster, mirror, 1)
    cluster.links[1].freeze(Way.RESPONSES)
    cluster.links[2].heal()
    cluster.links[3].heal()
    cluster.links[3].delay(0.05)
    wait_for_growth(cluster, mirror, 1)
    for link in cluster.links.values():
        link.heal()
    leader = cluster.leader("plain", 0)
    cluster.kill(leader)
    cluster.wait("the leader moves", lambda: cluster.leader("plain", 0) not in (leader, -1))
    cluster.restart(leader)
    cluster.wait("it follows", lambda: leader in cluster.in_sync("plain", 0))


def wait_for_growth(cluster: Cluster, mirror: MirrorProcess, records: int) -> None:
    """Return when the copy has so many more records."""
    before = copied_records(mirror.copy)

    def has_grown() -> bool:
        mirror.require_running()
        return copied_records(mirror.copy) >= before + records

    cluster.wait(f"{records} more records are copied", has_grown)


def copied_records(copy: Path) -> int:
    return sum(log_end(directory) for directory in copy.glob("*-0") if directory.name.rpartition("-")[0] in TOPICS)


def log_end(directory: Path) -> int:
    return LogView(LOCAL, directory).log_end if directory.is_dir() else 0


def lose_copied_records(cluster: Cluster, mirror: MirrorProcess) -> None:
    """Let the source lose records that the copy has."""
    produce(cluster.direct, LOSSY, b"kept", 50)
    directory = mirror.copy / f"{LOSSY}-0"

    def write() -> None:
        produce(cluster.direct, LOSSY, b"lost", 30)
        cluster.wait("the copy has the records", lambda: log_end(directory) == 80)

    cluster.lose_records(LOSSY, 0, write)
    produce(cluster.direct, LOSSY, b"later", 10)
    cluster.wait("the copy follows", lambda: log_end(directory) == 60)


def produce(bootstrap: str, topic: str, value: bytes, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, "acks": "all", "batch.num.messages": 10})
    for _ in range(count):
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def everything(bootstrap: str, admin: AdminClient) -> dict[str, object]:
    """Return the parts of the source that a broker on the copy must serve."""
    partitions = [
        f"{topic}-{number}"
        for topic in UNCOMPACTED
        for number in admin.list_topics(topic, timeout=PATIENCE_S).topics[topic].partitions
    ]
    return {
        "read_uncommitted": served_entries(bootstrap, partitions),
        "read_committed": served_entries(bootstrap, partitions, isolation="read_committed"),
        "settings": settings_of(admin, (*TOPICS, LOSSY)),
        "acls": acls_of(admin),
        "groups": committed_offsets(admin, GROUPS),
    }


def go_on(bootstrap: str) -> None:
    """Go on as the producers and the group of the source: the open transaction is aborted, another one commits."""
    for name, topic in (("open", "open"), ("txn", "txn")):
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "log_level": 2})
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        producer.produce(topic, b"goes on", partition=0)
        producer.commit_transaction(PATIENCE_S)
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": GROUP, "isolation.level": "read_committed", "log_level": 2}
    )
    (place,) = consumer.committed([KafkaPartition("open", 0)], timeout=PATIENCE_S)
    consumer.assign([place])
    values: list[bytes | None] = []
    while b"goes on" not in values:
        (message,) = consumer.consume(1, timeout=PATIENCE_S)
        assert message.error() is None
        values.append(message.value())
    assert b"left open" not in values
    consumer.commit(asynchronous=False)
    consumer.close()


@contextmanager
def started_kafka(copy: Path) -> Iterator[str]:
    with Broker(copy, work=copy.parent / "work", properties=SERVING, voters_in_log=True) as broker:
        broker.start()
        yield broker.bootstrap
        broker.stop()


@contextmanager
def started_tidelog(copy: Path) -> Iterator[str]:
    settings = {**SERVING, "listeners": ANY_PORT, "log.dirs": str(copy)}
    options = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    with serving(copy.parent, *options) as process:
        yield f"127.0.0.1:{process.port}"
        process.send_signal(signal.SIGTERM)
        code, words = process.ended()
        assert code == 0, words


SERVING = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
