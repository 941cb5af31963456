"""Row tls: the rows produce and consume with TLS 1.3.

Without TLS a fetch goes from the page cache to the socket. With TLS each byte passes through the broker for encryption:
by OpenSSL in tidelog, by Java's own TLS in Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.measure import Case


def cases(bench: Bench) -> Iterator[Case]:
    kafka, ours = bench.tls_brokers.kafka, bench.tls_brokers.tidelog
    for load in bench.tls_brokers.loads:
        yield Case(
            name=f"ProducerPerformance by TLS, {load.name}, acks=all",
            peer=lambda load=load: kafka.produce(load),
            ours=lambda load=load: ours.produce(load),
            target=None,
            most_warm_ups=1,
            note=lambda times, load=load: ours.note(load, times),
        )
        yield Case(
            name=f"ConsumerPerformance by TLS, {load.name}",
            peer=lambda load=load: kafka.consume(load),
            ours=lambda load=load: ours.consume(load),
            target=None,
            most_warm_ups=1,
            note=lambda times, load=load: ours.note(load, times),
        )
