"""Two clusters of three brokers under one controller: one is Kafka's, in the other each node is tidelog's.

The harness of the tests starts them, with other settings: its short intervals, few threads and small heaps are left
out, so Kafka has its defaults, its usual collector and compilers, and 1 GiB of heap for a broker. Clients and brokers
share a listener, and no link lies between them. Both clusters run all the time.
"""

from __future__ import annotations

import itertools
import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.server.brokers import SETTINGS
from benchmarks.server.cluster_client import FirstAnswer, ReplicatedLoad, holds_all, write, write_one_by_one
from benchmarks.server.process import process_seconds, resident_bytes
from benchmarks.worker import Done
from real_kafka.cluster import BROKERS, CONTROLLER, PATIENCE_S, Cluster
from real_kafka.cluster_node import Node, Program
from real_kafka.java import java_command

AWAY = BROKERS[-1]
"""The follower that is suspended."""
_ONE_LEADER_EACH = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
_LED_BY_THE_OTHERS = ((1, 2, 3), (2, 1, 3), (1, 2, 3), (2, 1, 3))
"""Partitions that ``AWAY`` does not lead."""
_HEAP_MIB = {"controller": 512, "broker": 1024}
_OF_TESTS = frozenset(
    {
        "authorizer.class.name",
        "num.network.threads",
        "num.io.threads",
        "background.threads",
        "broker.session.timeout.ms",
        "broker.heartbeat.interval.ms",
        "replica.lag.time.max.ms",
        "replica.fetch.wait.max.ms",
        "replica.high.watermark.checkpoint.interval.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.initial.task.delay.ms",
        "log.retention.check.interval.ms",
    }
)
"""The keys of the tests' harness that have their defaults here."""
_LOOK_S = 0.002


class MeasuredNode(Node):
    """A node whose JVM has its usual switches."""

    def _command(self) -> list[str]:
        if self.program is Program.TIDELOG:
            return super()._command()
        return java_command(
            "kafka.Kafka",
            self.properties_file,
            heap_mib=self._heap_mib,
            switches=(self.log_switch,),
            release=self.release,
        )


class MeasuredCluster(Cluster):
    """A cluster with the settings of a benchmark, on all nodes."""

    def __init__(self, root: Path, program: Program, settings: Mapping[str, str]) -> None:
        super().__init__(root, programs=dict.fromkeys((CONTROLLER, *BROKERS), program))
        self._settings = {**SETTINGS, **settings}

    def _node(self, number: int, role: str, properties: Mapping[str, str]) -> Node:
        kept = {key: value for key, value in properties.items() if key not in _OF_TESTS}
        return MeasuredNode(
            number,
            directory=self.root / f"node-{number}" / "data",
            work=self.root / f"node-{number}" / "work",
            properties={**kept, **self._settings},
            heap_mib=_HEAP_MIB[role],
            release=self.release,
            program=self._programs[number],
        )


@dataclass(slots=True)
class ClusterSide:
    """A running cluster and its measurements."""

    cluster: Cluster
    cpu_seconds: defaultdict[ReplicatedLoad, list[Done]] = field(default_factory=lambda: defaultdict(list))
    """The CPU seconds of all brokers for a GB of records, in the sequence of the runs."""
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def produce(self, load: ReplicatedLoad) -> Done:
        """Write to a new topic of three replicas with acks=all, and return the time until the last response."""
        with self._topic(_ONE_LEADER_EACH) as topic:
            before = self._broker_seconds()
            produce = write_one_by_one if load.one_by_one else write
            done = produce(self.cluster, topic, len(_ONE_LEADER_EACH), load)
            used = self._broker_seconds() - before
        self.cpu_seconds[load].append(Done(seconds=used / (load.bytes / 1e9), bytes=0, records=0))
        return done

    def catch_up(self, load: ReplicatedLoad) -> Done:
        """Suspend a follower, write, and return the time from its continuation until it has all records."""
        with self._topic(_LED_BY_THE_OTHERS) as topic:
            away = self.cluster.brokers[AWAY]
            os.kill(away.process_id, signal.SIGSTOP)
            try:
                write(self.cluster, topic, len(_LED_BY_THE_OTHERS), load)
                sizes = self._settled_sizes(topic)
            finally:
                begun = time.perf_counter()
                os.kill(away.process_id, signal.SIGCONT)
            _wait(lambda: _stored_bytes(away, topic) == sizes, "the follower has all records")
            seconds = time.perf_counter() - begun
            self.cluster.wait("the high watermark moves", lambda: holds_all(self.cluster, topic, load.records))
            return Done(seconds=seconds, bytes=load.bytes, records=load.records)

    def fail_over(self, topic: str) -> Done:
        """Kill the leader, and return the time until a record is acknowledged that was sent after the kill."""
        with FirstAnswer(self.cluster, topic) as client:
            leader = self.cluster.leader(topic, 0)
            begun = time.perf_counter()
            self.cluster.kill(leader)
            seconds = client.wait() - begun
        self.cluster.restart(leader)
        self.cluster.wait("all replicas are in sync", lambda: self.cluster.in_sync(topic, 0) == set(BROKERS))
        return Done(seconds=seconds, bytes=0, records=0)

    def memory(self) -> Done:
        """Return the mean resident memory of a broker in megabytes."""
        sizes = [resident_bytes(node.process_id) for node in self.cluster.brokers.values()]
        return Done(seconds=sum(sizes) / len(sizes) / 1e6, bytes=0, records=0)

    @contextmanager
    def _topic(self, assignment: Sequence[Sequence[int]]) -> Iterator[str]:
        """Create a topic, and delete it at the end."""
        name = f"measured-{next(self._numbers)}"
        self.cluster.create_topic(name, assignment=assignment)
        yield name
        self.cluster.admin.delete_topics([name])[name].result(PATIENCE_S)

    def _broker_seconds(self) -> float:
        return sum(process_seconds(node.process_id) for node in self.cluster.brokers.values())

    def _settled_sizes(self, topic: str) -> dict[str, int]:
        """Return the bytes of each partition once the other brokers have their leaders' bytes."""
        others = [node for number, node in self.cluster.brokers.items() if number != AWAY]
        found = [_stored_bytes(node, topic) for node in others]
        largest = {name: max(sizes[name] for sizes in found) for name in found[0]}
        _wait(lambda: all(_stored_bytes(node, topic) == largest for node in others), "the other brokers are equal")
        return largest


@contextmanager
def cluster_pair(directory: Path, settings: Mapping[str, str]) -> Iterator[tuple[ClusterSide, ClusterSide]]:
    """Start both clusters: Kafka's, then tidelog's."""
    with (
        MeasuredCluster(directory / "kafka", Program.KAFKA, settings) as kafka,
        MeasuredCluster(directory / "tidelog", Program.TIDELOG, settings) as tidelog,
    ):
        kafka.start()
        tidelog.start()
        yield ClusterSide(kafka), ClusterSide(tidelog)


def _stored_bytes(node: Node, topic: str) -> dict[str, int]:
    """Return the bytes of the log of each partition."""
    sizes: dict[str, int] = defaultdict(int)
    for path in node.directory.glob(f"{topic}-*/*.log"):
        sizes[path.parent.name] += path.stat().st_size
    return sizes


def _wait(is_so: Callable[[], bool], condition: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            raise TimeoutError(f"this did not come true within {PATIENCE_S} s: {condition}")
        time.sleep(_LOOK_S)
