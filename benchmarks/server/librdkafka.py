"""Row librdkafka: a producer and a consumer of librdkafka, with the CPU time that each broker takes for them.

The client runs in the process of the benchmark, on the same cores as the broker. Each run of the producer has a new
topic of one partition and acks=all. The lines for the CPU time come from the same runs as the lines above them. Latency
bounds the producer of one record a request, because the next request waits for the response. The consumer reads the
records of the producer's last run from the page cache.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.bench import Bench
from benchmarks.measure import Case, Times, cpu_case
from benchmarks.server.brokers import Server, renew_topic
from benchmarks.server.cluster_client import flush, require_no_error
from benchmarks.server.process import counted_cpu
from benchmarks.worker import Done

_PATIENCE_S = 300
_CALLBACKS_EVERY = 1000
_QUEUE = {"queue.buffering.max.messages": "2000000", "queue.buffering.max.kbytes": "2000000"}
_READ_AHEAD = {"queued.min.messages": "10000000", "queued.max.messages.kbytes": "2000000"}
"""A consumer whose queue is full waits for a second (``fetch.queue.backoff.ms``), longer for a faster broker."""
_ONE_A_REQUEST = {"batch.num.messages": "1", "linger.ms": "0", "max.in.flight": "1"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """Records that a client writes, and the lowest ratios to Kafka: of the speeds, and of the CPU times."""

    name: str
    records: int
    record_bytes: int
    options: tuple[tuple[str, str], ...] = ()
    target: float | None = None
    cpu_target: float

    @property
    def topic(self) -> str:
        return f"flow-{self.record_bytes}-{len(self.options)}"

    @property
    def bytes(self) -> int:
        return self.records * self.record_bytes

    def scaled(self, scale: float) -> Flow:
        return replace(self, records=max(1000, round(self.records * scale)))

    def rate(self, times: Times) -> str:
        """Return a remark on the runs."""
        return f"{self.records / times.median:,.0f} records a second"


PRODUCED = (
    Flow(name="100 B records", records=1_000_000, record_bytes=100, target=1.3, cpu_target=4.0),
    Flow(name="1 KB records", records=300_000, record_bytes=1000, target=1.2, cpu_target=2.0),
    Flow(
        name="one record of 100 B a request",
        records=40_000,
        record_bytes=100,
        options=tuple(_ONE_A_REQUEST.items()),
        cpu_target=3.3,
    ),
)
_CONSUMED = tuple(replace(flow, target=None, cpu_target=3.3) for flow in PRODUCED[:2])


def cases(bench: Bench) -> Iterator[Case]:
    kafka, ours = (_Side(side.server) for side in (bench.brokers.kafka, bench.brokers.tidelog))
    for name, flows, run in (("produce", PRODUCED, _Side.produce), ("consume", _CONSUMED, _Side.consume)):
        for flow in flows:
            yield from _cases_of(f"{name}, {flow.name}", flow.scaled(bench.scale), run, kafka, ours)


def _cases_of(
    name: str, flow: Flow, run: Callable[[_Side, str, Flow], Done], kafka: _Side, ours: _Side
) -> Iterator[Case]:
    yield Case(
        name=name,
        peer=lambda: run(kafka, name, flow),
        ours=lambda: run(ours, name, flow),
        target=flow.target,
        most_warm_ups=2,
        note=flow.rate,
    )
    yield cpu_case(f"{name}: CPU time of the broker", kafka.cpu[name], ours.cpu[name], target=flow.cpu_target)


class _Side:
    """A broker, and the CPU times of its runs for a GB of values, by the case's name."""

    def __init__(self, server: Server) -> None:
        self.cpu: defaultdict[str, list[Done]] = defaultdict(list)
        self._server = server

    def produce(self, name: str, flow: Flow) -> Done:
        """Write the flow to a new topic. The time ends with the last response."""
        producer = producer_of(self._server, flow)
        return self._measured(name, flow, lambda: produce(producer, flow))

    def consume(self, name: str, flow: Flow) -> Done:
        """Read the records that ``produce`` has written last."""
        with closing(consumer_of(self._server, flow)) as consumer:
            return self._measured(name, flow, lambda: _consume(consumer, flow))

    def _measured(self, name: str, flow: Flow, work: Callable[[], None]) -> Done:
        with counted_cpu(self._server.process_id, flow.bytes, self.cpu[name]):
            begun_s = time.perf_counter()
            work()
            seconds = time.perf_counter() - begun_s
        return Done(seconds=seconds, bytes=flow.bytes, records=flow.records)


def producer_of(server: Server, flow: Flow) -> Producer:
    """Return a connected producer for a new topic of the flow."""
    renew_topic(server, flow.topic)
    return connected_producer(server, flow.topic, _QUEUE | dict(flow.options))


def connected_producer(server: Server, topic: str, options: Mapping[str, str]) -> Producer:
    producer = Producer({"bootstrap.servers": server.bootstrap, "acks": "all", "log_level": 2, **options})
    producer.list_topics(topic, timeout=_PATIENCE_S)  # opens the connection
    return producer


def consumer_of(server: Server, flow: Flow) -> Consumer:
    """Return a connected consumer, which has no partition yet."""
    options = {"group.id": "none", "enable.auto.commit": False, "log_level": 2}
    consumer = Consumer({"bootstrap.servers": server.bootstrap, **options, **_READ_AHEAD})
    consumer.list_topics(flow.topic, timeout=_PATIENCE_S)  # opens the connection
    return consumer


def produce(producer: Producer, flow: Flow) -> None:
    """Write the flow, and return with the last response."""
    value = b"v" * flow.record_bytes
    for number in range(flow.records):
        producer.produce(flow.topic, value, on_delivery=require_no_error)
        if number % _CALLBACKS_EVERY == 0:
            producer.poll(0)
    flush(producer)


def _consume(consumer: Consumer, flow: Flow) -> None:
    consumer.assign([TopicPartition(flow.topic, 0, 0)])
    left = flow.records
    while left > 0:
        left -= len(consumer.consume(_CALLBACKS_EVERY, timeout=_PATIENCE_S))
    if left:
        raise RuntimeError(f"{flow.topic} has {-left} records too many")
