"""Row failover: the time from SIGKILL of a partition's leader until a record sent after it is acknowledged.

The topic has three replicas and ``min.insync.replicas`` 2. Both clusters have the same short session, which is most of
the time: only its end tells the controller of the death. The client sends a record every 5 ms, and asks for metadata
every 50 ms. Each run kills the leader, restarts it, and ends when all replicas are in sync.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from benchmarks.bench import Bench
from benchmarks.measure import Case
from benchmarks.server.cluster_pair import cluster_pair

SESSION: Final = {"broker.session.timeout.ms": "2500", "broker.heartbeat.interval.ms": "400"}
TOPIC: Final = "failing-over"
RUNS: Final = 7


def cases(bench: Bench) -> Iterator[Case]:
    with cluster_pair(bench.directory(), SESSION) as (kafka, ours):
        for side in (kafka, ours):
            side.cluster.create_topic(TOPIC, replicas=3, config={"min.insync.replicas": "2"})
        yield Case(
            name="leader killed to the first acknowledged record, with a session of 2,500 ms",
            peer=lambda: kafka.fail_over(TOPIC),
            ours=lambda: ours.fail_over(TOPIC),
            target=1.0,
            runs=RUNS if bench.scale == 1 else None,
            most_warm_ups=1,
        )
