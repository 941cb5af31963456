"""Three brokers that lose records by an unclean election, and the comparisons of their directories on the way.

Kafka's controller and its brokers do it with small files, so that the directories can be kept as a golden set.
"""

from __future__ import annotations

import itertools
import json
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from confluent_kafka import Producer

from real_kafka.cluster import PATIENCE_S, Cluster
from real_kafka.cluster_node import Program
from real_kafka.stored_batches import StoredBatch, batches_of_partition
from tidelog.cli.main import cli
from tidelog.model import CheckpointError, TopicPartition
from tidelog.storage.checkpoint import CLEANER_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.fs import LOCAL

PLAIN, COMPACTED, LOSSY = "plain", "compacted", "lossy"
KEPT, LOST, LATER = 40, 30, 10
"""The records of ``lossy``: in both logs, lost by the unclean election, and written by the new leader."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The output of a run of the command."""

    code: int
    rows: list[dict[str, Any]]

    def of(self, topic: str, partition: int = 0) -> dict[int, dict[str, Any]]:
        """Return the rows of a partition by node."""
        return {row["node_id"]: row for row in self.rows if (row["topic"], row["partition"]) == (topic, partition)}

    @property
    def problems(self) -> list[str]:
        return [problem for row in self.rows for problem in row["problems"]]


@dataclass(slots=True)
class Story:
    """Comparisons of the cluster at several moments."""

    loaded: list[Comparison] = field(default_factory=list)
    """The comparisons while a producer was running."""
    in_sync: set[int] = field(default_factory=set)
    leader: int = -1
    cleaned: int = 0
    """The number of replicas that a cleaner had cleaned."""
    victim: int = -1
    killed: Comparison | None = None
    old_leader: int = -1
    new_leader: int = -1
    unclean: Comparison | None = None
    repaired: Comparison | None = None
    before: list[StoredBatch] = field(default_factory=list)
    """The batches of the old leader's replica before it followed the new leader."""
    after: list[StoredBatch] = field(default_factory=list)


def compared(cluster: Cluster) -> Comparison:
    paths = [str(node.directory) for node in cluster.brokers.values()]
    result = CliRunner().invoke(cli, ["compare", *paths, "--json"])
    assert isinstance(result.exception, SystemExit | None), result.exc_info
    return Comparison(result.exit_code, json.loads(result.stdout))


def produce(bootstrap: str, topic: str, tag: str, count: int, *, keys: int | None = None, partition: int = 0) -> None:
    settings = {"bootstrap.servers": bootstrap, "log_level": 2, "acks": "all", "batch.num.messages": 10}
    producer = Producer(settings)
    for number in range(count):
        key = None if keys is None else b"key-%d" % (number % keys)
        producer.produce(topic, f"{tag}-{number:06}".encode() * 8, key=key, partition=partition)
    assert producer.flush(PATIENCE_S) == 0


@contextmanager
def running_producer(bootstrap: str) -> Iterator[None]:
    """Produce to both topics until the context is left."""
    over = threading.Event()

    def work() -> None:
        for number in itertools.count():
            if over.is_set():
                return
            produce(bootstrap, PLAIN, f"live-{number}", 50, partition=1)
            produce(bootstrap, COMPACTED, f"live-{number}", 50, keys=7)

    thread = threading.Thread(target=work, name="producer")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def offset_in(cluster: Cluster, broker: int, checkpoint: str, partition: TopicPartition) -> int:
    try:
        return OffsetCheckpoint.read(LOCAL, cluster.brokers[broker].directory / checkpoint).get(partition, 0)
    except CheckpointError:
        return 0


def cleaned_replicas(cluster: Cluster) -> int:
    place = TopicPartition(COMPACTED, 0)
    return sum(offset_in(cluster, broker, CLEANER_CHECKPOINT, place) > 0 for broker in cluster.brokers)


def compared_cluster(root: Path, keep: Path | None = None, *, programs: Mapping[int, Program] | None = None) -> Story:
    """Run the cluster through everything, and return the comparisons. ``keep`` receives the directories.

    ``programs`` names the nodes that are not Kafka.
    """
    with Cluster(root, properties={"log.index.size.max.bytes": "16384"}, programs=programs) as cluster:
        cluster.start()
        story = Story()
        load(cluster, story)
        kill_a_leader(cluster, story)
        lose_records(cluster, story, keep)
        return story


def load(cluster: Cluster, story: Story) -> None:
    cluster.create_topic(PLAIN, partitions=2, replicas=3, segment_bytes=16384)
    compaction = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}
    cluster.create_topic(COMPACTED, replicas=3, segment_bytes=16384, config=compaction)
    cluster.create_topic(LOSSY, replicas=2)
    produce(cluster.direct, PLAIN, "first", 1000)
    produce(cluster.direct, COMPACTED, "first", 1000, keys=50)
    produce(cluster.direct, LOSSY, "kept", KEPT)
    cluster.wait("a cleaning", lambda: cleaned_replicas(cluster) > 0)
    with running_producer(cluster.direct):
        story.loaded += [compared(cluster) for _ in range(5)]
    story.cleaned = cleaned_replicas(cluster)
    story.leader, story.in_sync = cluster.leader(PLAIN, 0), cluster.in_sync(PLAIN, 0)


def kill_a_leader(cluster: Cluster, story: Story) -> None:
    """Kill a leader, and compare when the others have more records. Then restart it."""
    story.victim = cluster.leader(PLAIN, 0)
    cluster.kill(story.victim)
    cluster.wait("another leader", lambda: cluster.leader(PLAIN, 0) not in (story.victim, -1))
    produce(cluster.direct, PLAIN, "second", 100)
    story.killed = compared(cluster)
    cluster.restart(story.victim)
    cluster.wait("three replicas in sync", lambda: len(cluster.in_sync(PLAIN, 0)) == 3)


def lose_records(cluster: Cluster, story: Story, keep: Path | None) -> None:
    """Lose committed records by an unclean election, and compare before and after the old leader follows.

    ``keep`` receives copies of the directories from between.
    """
    place = TopicPartition(LOSSY, 0)
    old, new = cluster.only_leader_in_sync(LOSSY, 0)
    story.old_leader, story.new_leader = old, new
    produce(cluster.direct, LOSSY, "lost", LOST)
    cluster.wait(
        "the old leader's checkpoint",
        lambda: offset_in(cluster, old, HIGH_WATERMARK_CHECKPOINT, place) == KEPT + LOST,
    )
    cluster.kill(old)
    cluster.restart(new)
    cluster.elect_unclean(LOSSY, 0, new)
    produce(cluster.direct, LOSSY, "later", LATER)
    story.unclean = compared(cluster)
    if keep is not None:
        for number, node in cluster.brokers.items():
            shutil.copytree(node.directory, keep / f"broker{number}")
    directory = cluster.partition_directory(old, LOSSY, 0)
    story.before = batches_of_partition(directory)
    cluster.restart(old)
    cluster.wait("both replicas in sync", lambda: cluster.in_sync(LOSSY, 0) == {old, new})
    story.after = batches_of_partition(directory)
    story.repaired = compared(cluster)
