"""Three real brokers, a load that writes everything that Kafka stores, and a mirror of it through all faults.

While the load runs, the mirror is killed, its network fails, leaders die, and an unclean election loses records that
the mirror has. At the end the load is complete, and the mirror has copied up to the source's ends.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AclBinding, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from real_kafka.cluster import PATIENCE_S, Cluster
from real_kafka.cluster_load import TOPICS, Load, LoadSize
from real_kafka.copied_cluster import everything
from real_kafka.copy_comparison import source_partitions, wait_for_true_copy
from real_kafka.mirror_process import MirrorProcess
from real_kafka.served_batches import ServedBatches
from real_kafka.stored_batches import batches_of_partition
from snapshot_checks import digests
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView
from tidelog.testing.cluster.route import Way

LOSSY = "lossy"
"""The topic of the unclean election."""
KEPT, LOST, LATER = b"kept", b"lost", b"later"
"""The values of its records."""
UNCOMPACTED = (*(topic for topic in TOPICS if topic != "compacted"), LOSSY)
ACL = AclBinding(
    ResourceType.TOPIC,
    "plain",
    ResourcePatternType.LITERAL,
    "User:alice",
    "*",
    AclOperation.READ,
    AclPermissionType.ALLOW,
)


@dataclass(frozen=True, slots=True)
class RunSize:
    """The amount of everything in a run."""

    load: LoadSize
    kills: int
    """The number of times that the mirror is killed."""


SHORT = RunSize(LoadSize(), kills=2)
LONG = RunSize(
    LoadSize(turns=250, records=4_000, batch_records=200, partitions=4, keys=5_000, segment_bytes=1 << 20), kills=20
)
"""A million records in each topic."""


@dataclass(frozen=True)
class MirroredCluster:
    """A cluster with a complete load, and a copy that was made through all faults."""

    cluster: Cluster
    load: Load
    served: ServedBatches
    copy: Path
    mirror_text: str
    """The output of the mirror."""
    root: Path
    """An empty directory for the files of tests."""
    begun_ms: int
    """A time before the first record."""
    ended_ms: int
    """A time after the last record."""

    @functools.cached_property
    def contents(self) -> dict[str, object]:
        """The parts of the source that a broker on the copy must serve."""
        return everything(self.cluster.direct, self.cluster.admin, UNCOMPACTED)

    @functools.cached_property
    def copied_bytes(self) -> Mapping[str, tuple[str, int]]:
        """The hash and the modification time of each file of the copy."""
        return digests(self.copy)


@contextmanager
def mirrored_cluster(root: Path, release: str, size: RunSize) -> Iterator[MirroredCluster]:
    """Mirror a load through all faults, and end with a run up to the source's ends."""
    copy = root / "copy"
    with Cluster(root / "cluster", release=release) as cluster:
        cluster.start()
        cluster.admin.create_acls([ACL])[ACL].result(PATIENCE_S)
        load = Load(cluster, size.load)
        load.create_topics()
        cluster.create_topic(LOSSY, assignment=[[1, 2]])
        begun_ms = now_ms()
        with (
            MirrorProcess(copy, cluster.bootstrap) as mirror,
            ServedBatches(cluster, ["compacted"], root / "served") as served,
        ):
            mirror.follow()
            load.start()
            disturb(cluster, mirror, size.kills)
            lose_copied_records(cluster, mirror)
            load.wait()
            load.finish()
            wait_for_cleaning(cluster, load, served)
            ended_ms = now_ms()
            wait_for_true_copy(cluster, copy, UNCOMPACTED)
            mirror.require_running()
            assert mirror.stop() == 0, mirror.events
            assert mirror.run_once() == 0, mirror.events
            yield MirroredCluster(cluster, load, served, copy, mirror.text, root, begun_ms, ended_ms)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def disturb(cluster: Cluster, mirror: MirrorProcess, kills: int) -> None:
    """Kill the mirror several times, break and freeze its network, kill a leader and restart it."""
    draw = random.Random("faults")
    for _ in range(kills):
        wait_for_growth(cluster, mirror, draw.randrange(1, 400))
        mirror.kill()
        mirror.follow()
    first = cluster.leader("plain", 0)
    second, third = (number for number in cluster.links if number != first)
    for link in cluster.links.values():
        link.disconnect()
    cluster.links[first].heal()
    wait_for_growth(cluster, mirror, 1)
    cluster.links[first].freeze(Way.RESPONSES)
    cluster.links[second].heal()
    cluster.links[third].heal()
    cluster.links[third].delay(0.05)
    wait_for_growth(cluster, mirror, 1)
    for link in cluster.links.values():
        link.heal()
    leader = cluster.kill_leader("plain", 0)
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
    produce(cluster.direct, LOSSY, KEPT, 50)
    directory = mirror.copy / f"{LOSSY}-0"

    def write() -> None:
        produce(cluster.direct, LOSSY, LOST, 30)
        cluster.wait("the copy has the records", lambda: log_end(directory) == 80)

    old, new = cluster.lose_records(LOSSY, 0, write)
    assert {old, new} == {1, 2}
    produce(cluster.direct, LOSSY, LATER, 10)
    cluster.wait("the copy follows", lambda: log_end(directory) == 60)


def produce(bootstrap: str, topic: str, value: bytes, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, "acks": "all", "batch.num.messages": 10})
    for _ in range(count):
        producer.produce(topic, value, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def wait_for_cleaning(cluster: Cluster, load: Load, served: ServedBatches) -> None:
    """Return when retention, compaction and DeleteRecords have removed records from every partition."""
    cluster.wait("retention", lambda: all(one.log_start > 0 for one in source_partitions(cluster, ["rolling"])))
    cluster.wait("compaction", lambda: is_compacted(cluster, served))
    cluster.wait("DeleteRecords", lambda: is_trimmed(cluster) or load.trim())


def is_compacted(cluster: Cluster, served: ServedBatches) -> bool:
    """Return True if the cleaner has removed batches from every partition."""
    return all(
        partition.served and len(partition.served) > len(batches_of_partition(partition.directory))
        for partition in source_partitions(cluster, ["compacted"], served)
    )


def is_trimmed(cluster: Cluster) -> bool:
    """Return True if DeleteRecords has moved the log start of every partition. A busy broker may refuse it."""
    return all(partition.log_start > 0 for partition in source_partitions(cluster, ["trimmed"]))
