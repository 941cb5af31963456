"""Row consume: Kafka's ConsumerPerformance reads the records of ProducerPerformance, on the same cores as the broker.

Each run is a new client and a new group, and the time includes joining. Both brokers read from the page cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.measure import Case


def cases(bench: Bench) -> Iterator[Case]:
    kafka, ours = bench.brokers.kafka, bench.brokers.tidelog
    for load in bench.brokers.loads:
        yield Case(
            name=f"ConsumerPerformance, {load.name}",
            peer=lambda load=load: kafka.consume(load),
            ours=lambda load=load: ours.consume(load),
            target=1.2,
            most_warm_ups=1,
            note=lambda times, load=load: ours.note(load, times),
        )
