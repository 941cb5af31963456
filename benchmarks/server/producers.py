"""Row producers: a hundred producers write small batches to a thousand partitions, with the CPU time of each broker.

The clients are instances of librdkafka in the process of the benchmark, on the same cores as the broker, with acks=all.
Each of them writes its records to the partitions in turns and begins at another one. A request has several partitions
with a few records each. A new topic comes with each run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Producer

from benchmarks.bench import Bench
from benchmarks.measure import Case, cpu_case
from benchmarks.server.brokers import Server, renew_topic
from benchmarks.server.cluster_client import flush, require_no_error
from benchmarks.server.librdkafka import connected_producer
from benchmarks.server.process import counted_cpu
from benchmarks.worker import Done

_PRODUCERS = 100
_PARTITIONS = 1000
_RECORDS = 400_000
_RECORD_BYTES = 100
_RECORDS_A_TURN = 20
_RUNS = 3
_TOPIC = "many"


def cases(bench: Bench) -> Iterator[Case]:
    records_each = max(_RECORDS_A_TURN, round(_RECORDS * bench.scale / _PRODUCERS))
    name = f"{_PRODUCERS} producers, {_PARTITIONS:,} partitions, {_RECORD_BYTES} B records"
    kafka: list[Done] = []
    ours: list[Done] = []
    yield Case(
        name=name,
        peer=lambda: _run(bench.brokers.kafka.server, records_each, kafka),
        ours=lambda: _run(bench.brokers.tidelog.server, records_each, ours),
        runs=_RUNS,
        most_warm_ups=1,
    )
    yield cpu_case(f"{name}: CPU time of the broker", kafka, ours, target=2.0, runs=_RUNS)


def _run(server: Server, records_each: int, cpu: list[Done]) -> Done:
    renew_topic(server, _TOPIC, partitions=_PARTITIONS)
    producers = [connected_producer(server, _TOPIC, {}) for _ in range(_PRODUCERS)]
    size = _PRODUCERS * records_each * _RECORD_BYTES
    with counted_cpu(server.process_id, size, cpu):
        begun_s = time.perf_counter()
        _produce(producers, records_each)
        seconds = time.perf_counter() - begun_s
    return Done(seconds=seconds, bytes=size, records=_PRODUCERS * records_each)


def _produce(producers: list[Producer], records_each: int) -> None:
    value = b"v" * _RECORD_BYTES
    for first in range(0, records_each, _RECORDS_A_TURN):
        for number, producer in enumerate(producers):
            partition = (number * _PARTITIONS // _PRODUCERS + first // _RECORDS_A_TURN) % _PARTITIONS
            for _ in range(min(_RECORDS_A_TURN, records_each - first)):
                producer.produce(_TOPIC, value, partition=partition, on_delivery=require_no_error)
            producer.poll(0)
    for producer in producers:
        flush(producer)
