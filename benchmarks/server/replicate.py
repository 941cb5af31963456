"""Row replicate: a topic with three replicas, on three brokers of tidelog and on three of Kafka.

Client and brokers share the cores. A case's name has the records a second. The lines of CPU seconds come from the runs
of the lines above them, and count the three brokers. For the catch-up a follower is suspended while the others are
written to, so no side has a cold process.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.bench import Bench
from benchmarks.measure import Case, Times, Unit, cpu_case
from benchmarks.server.cluster_client import ReplicatedLoad
from benchmarks.server.cluster_pair import cluster_pair

LOADS = (
    ReplicatedLoad(name="100 B records, acks=all", records=500_000, record_bytes=100),
    ReplicatedLoad(name="1 KB records, acks=all", records=100_000, record_bytes=1000),
    ReplicatedLoad(name="100 B records, acks=all, one by one", records=1_000, record_bytes=100, one_by_one=True),
)
CATCH_UP = ReplicatedLoad(name="catch-up of a follower, 1 KB records", records=200_000, record_bytes=1000, acks="1")
RATE_TARGET, CPU_TARGET, CATCH_UP_TARGET = 1.2, 2.0, 2.0


def cases(bench: Bench) -> Iterator[Case]:
    with cluster_pair(bench.directory(), {}) as (kafka, ours):
        for load in (_scaled(load, bench.scale) for load in LOADS):
            yield Case(
                name=load.name,
                peer=lambda load=load: kafka.produce(load),
                ours=lambda load=load: ours.produce(load),
                target=RATE_TARGET,
                most_warm_ups=2,
                note=lambda times, load=load: _rate(load, times),
            )
            yield cpu_case(
                f"{load.name}: CPU of all brokers", kafka.cpu_seconds[load], ours.cpu_seconds[load], target=CPU_TARGET
            )
        load = _scaled(CATCH_UP, bench.scale)
        yield Case(
            name=load.name,
            peer=lambda: kafka.catch_up(load),
            ours=lambda: ours.catch_up(load),
            target=CATCH_UP_TARGET,
            most_warm_ups=1,
        )
        yield Case(
            name="resident memory of a broker after these runs",
            peer=kafka.memory,
            ours=ours.memory,
            unit=Unit.MEGABYTES,
            runs=1,
            most_warm_ups=0,
        )


def _scaled(load: ReplicatedLoad, scale: float) -> ReplicatedLoad:
    return replace(load, records=max(round(load.records * scale), 100))


def _rate(load: ReplicatedLoad, times: Times) -> str:
    return f"{load.records / times.median:,.0f} records a second"
