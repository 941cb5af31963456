"""Row records: the records of a partition as Python objects, without a broker and by a client of one.

The peer is confluent-kafka's consumer, which is librdkafka with C objects. It reads from tidelog's broker on the same
cores. Our side reads the broker's directory with ``Log.records``. Both call nothing but the offset and value of each
record.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version

from confluent_kafka import TopicPartition

from benchmarks.bench import Bench
from benchmarks.measure import Case
from benchmarks.server.brokers import Server, TidelogBroker
from benchmarks.server.librdkafka import PRODUCED, Flow, consumer_of, produce, producer_of
from benchmarks.worker import Done
from tidelog import open_log

_PATIENCE_S = 300
_RECORDS_A_CALL = 10_000


def cases(bench: Bench) -> Iterator[Case]:
    broker = bench.enter(TidelogBroker(bench.directory() / "tidelog"))
    broker.start()
    for flow in (one.scaled(bench.scale) for one in PRODUCED[:2]):
        produce(producer_of(broker, flow), flow)
        partition = broker.directory / f"{flow.topic}-0"
        yield Case(
            name=f"{flow.name} as objects",
            peer=lambda flow=flow: _consume(broker, flow),
            ours=lambda partition=partition: bench.ours.do("server.records", partition),
            peer_name=f"confluent-kafka {version('confluent-kafka')}",
            target=2.0,
            note=flow.rate,
        )


def _consume(server: Server, flow: Flow) -> Done:
    with closing(consumer_of(server, flow)) as consumer:
        begun_s = time.perf_counter()
        consumer.assign([TopicPartition(flow.topic, 0, 0)])
        records = size = 0
        while records < flow.records:
            for message in consumer.consume(min(_RECORDS_A_CALL, flow.records - records), timeout=_PATIENCE_S):
                assert message.offset() == records
                size += len(message.value())
                records += 1
        return Done(seconds=time.perf_counter() - begun_s, bytes=size, records=records)


# --- our worker's part ---


def run(partition: str) -> tuple[int, int]:
    records = size = 0
    with open_log(partition, read_only=True) as log:
        for record in log.records(until="log_end"):
            assert record.offset == records
            size += len(record.value)
            records += 1
    return size, records
