"""Row produce: Kafka's ProducerPerformance with acks=all, on the same cores as the broker that it writes to.

Each run is a new client and a new topic of one partition. The client measures the time. The line for the latency comes
from the same runs as the line above it. It is the mean time from ``send`` to the response, as the client measures it,
with the wait in the client's own buffer.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.measure import Case


def cases(bench: Bench) -> Iterator[Case]:
    kafka, ours = bench.brokers.kafka, bench.brokers.tidelog
    for load in bench.brokers.loads:
        yield Case(
            name=f"ProducerPerformance, {load.name}, acks=all",
            peer=lambda load=load: kafka.produce(load),
            ours=lambda load=load: ours.produce(load),
            target=1.2,
            most_warm_ups=1,
            note=lambda times, load=load: ours.note(load, times),
        )
        yield Case(
            name=f"ProducerPerformance, {load.name}, acks=all: mean latency",
            peer=kafka.latencies[load].pop,
            ours=ours.latencies[load].pop,
            most_warm_ups=0,
        )
