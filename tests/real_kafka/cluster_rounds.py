"""Rounds of faults on a cluster under traffic, and the check of everything at the end.

A round kills one or two nodes with SIGKILL, restarts them after a while, and ends when all replicas are in sync again
and every client has gone on. The nodes come in turns: a leader, a follower, a controller, the coordinator of the
transactions, two brokers at once, a broker and a controller at once.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from real_kafka.cluster import BROKERS, CONTROLLER, PATIENCE_S, Cluster
from real_kafka.cluster_ledger import Ledger, Place, record_problems, transaction_problems
from real_kafka.cluster_node import Program
from real_kafka.cluster_traffic import GROUPS, PARTITIONS, RECORDS, TRANSACTIONS, Traffic, read_topic
from real_kafka.stored_batches import batches_of_partition

OF_TIDELOG = dict.fromkeys((CONTROLLER, *BROKERS), Program.TIDELOG)
"""The programs of a cluster without Kafka."""
KINDS = ("leader", "follower", "controller", "coordinator", "two brokers", "broker and controller")
_STATE = "__transaction_state"
_OFFSETS = "__consumer_offsets"
PROPERTIES = {"min.insync.replicas": "2", "transaction.state.log.min.isr": "2"}
_LONGEST_PAUSE_S = 4.0
_MOST_PROBLEMS = 20


@contextmanager
def under_traffic(
    cluster: Cluster, *, through_links: bool = False, groups: Sequence[str] = GROUPS
) -> Iterator[Traffic]:
    """Start the nodes of a cluster, and clients. At the end of the block stop all of them, and check everything.

    The clients connect through the links of the brokers if ``through_links`` is set. Each broker has all replicas.
    """
    ledger = Ledger()
    cluster.start()
    for topic in (RECORDS, TRANSACTIONS):
        cluster.create_topic(topic, partitions=PARTITIONS, replicas=len(cluster.brokers))
    with Traffic(cluster.bootstrap if through_links else cluster.direct, ledger, groups) as traffic:
        traffic.wait_for_progress()
        yield traffic
        traffic.finish()
    assert not [error for error in traffic.errors if error.startswith("a client ended")], traffic.errors
    records = read_topic(cluster.direct, RECORDS, "read_uncommitted")
    transactions = read_topic(cluster.direct, TRANSACTIONS, "read_committed")
    wait_until_in_sync(cluster)
    cluster.stop_all()
    directories = [node.directory for node in cluster.brokers.values()]
    problems = [
        *record_problems(ledger, records, producer_epochs(directories[0])),
        *transaction_problems(ledger, transactions),
        *replica_problems(directories),
    ]
    assert not problems, "\n".join(problems[:_MOST_PROBLEMS])
    print(traffic.progress, Counter(error.partition(":")[2] for error in traffic.errors).most_common(8))


@contextmanager
def cluster_under_traffic(
    root: Path, *, programs: Mapping[int, Program], controllers: Sequence[int] = (CONTROLLER,)
) -> Iterator[tuple[Cluster, Traffic]]:
    """Start a cluster and its clients, as `under_traffic` does it."""
    with (
        Cluster(root, programs=programs, controllers=controllers, properties=PROPERTIES) as cluster,
        under_traffic(cluster) as traffic,
    ):
        yield cluster, traffic


def run_rounds(
    root: Path,
    rounds: int,
    *,
    programs: Mapping[int, Program],
    controllers: Sequence[int] = (CONTROLLER,),
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
) -> Counter[str]:
    """Return the number of rounds of each kind."""
    draw, done = random.Random(seed), Counter[str]()
    with cluster_under_traffic(root, programs=programs, controllers=controllers) as (cluster, traffic):
        for number in range(rounds):
            kind = kinds[number % len(kinds)]
            victims = choose_victims(cluster, kind, draw)
            cluster.kill(*victims)
            time.sleep(draw.uniform(0, _LONGEST_PAUSE_S))
            cluster.restart(*victims)
            wait_until_in_sync(cluster)
            traffic.wait_for_progress()
            done[kind] += 1
    return done


def change_program(cluster: Cluster, traffic: Traffic, numbers: Sequence[int], program: Program) -> None:
    """Stop one node after the other, and start the other program on its directory."""
    for number in numbers:
        node = cluster.node(number)
        node.stop(PATIENCE_S)
        node.program = program
        cluster.restart(number)
        wait_until_in_sync(cluster)
        traffic.wait_for_progress()


def choose_victims(cluster: Cluster, kind: str, draw: random.Random) -> list[int]:
    """Return the numbers of the nodes that a round kills."""
    partition = draw.randrange(PARTITIONS)
    brokers, controllers = list(cluster.brokers), list(cluster.controllers)
    if kind == "leader":
        return [cluster.leader(RECORDS, partition)]
    if kind == "follower":
        return [draw.choice([one for one in brokers if one != cluster.leader(RECORDS, partition)])]
    if kind == "controller":
        return [draw.choice(controllers)]
    if kind == "coordinator":
        return [cluster.leader(draw.choice((_STATE, _OFFSETS)), draw.randrange(2))]
    if kind == "two brokers":
        return draw.sample(brokers, 2)
    return [draw.choice(brokers), draw.choice(controllers)]


def wait_until_in_sync(cluster: Cluster) -> None:
    """Return when every partition of every topic has all its replicas in sync."""

    def are_in_sync() -> bool:
        topics = cluster.admin.list_topics(timeout=10).topics.values()
        return all(
            partition.leader >= 0 and set(partition.isrs) == set(partition.replicas)
            for topic in topics
            for partition in topic.partitions.values()
        )

    cluster.wait("all replicas are in sync", are_in_sync)


def producer_epochs(directory: Path) -> dict[Place, int]:
    """Return the epoch of the producer of each record in the idempotent producer's topic."""
    return {
        Place(partition, offset): batch.row.producer_epoch
        for partition in range(PARTITIONS)
        for batch in batches_of_partition(directory / f"{RECORDS}-{partition}")
        for offset in range(batch.row.base_offset, batch.row.last_offset + 1)
    }


def replica_problems(directories: Sequence[Path]) -> list[str]:
    """Return where the replicas of stopped brokers differ. The first directory names the partitions."""
    found = []
    names = sorted(
        path.name
        for path in directories[0].iterdir()
        if path.name.startswith((RECORDS, TRANSACTIONS, _STATE, _OFFSETS))
    )
    for name in names:
        first, *others = (batches_of_partition(directory / name) for directory in directories)
        for number, other in enumerate(others, 1):
            for left, right in zip_longest(first, other):
                if left is None or right is None or left.data != right.data:
                    found.append(f"{name}: {left} in the first directory, {right} in directory {number + 1}")
                    break
    return found
