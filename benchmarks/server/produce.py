"""Row produce: Kafka's ProducerPerformance, acks=all, on the same cores as the broker that it writes to.

Each run is a new client and a new topic of one partition; the client does the timing. The line for the latency is of
the same runs as the one above it: the mean of the time from ``send`` to the answer, as the client has it, the wait in
the client's own buffer included.
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
            target=1.8,
            most_warm_ups=1,
            note=lambda times, load=load: ours.note(load, times),
        )
        yield Case(
            name=f"ProducerPerformance, {load.name}, acks=all: mean latency",
            peer=kafka.latencies[load].pop,
            ours=ours.latencies[load].pop,
            target=10.0,
            most_warm_ups=0,
        )
