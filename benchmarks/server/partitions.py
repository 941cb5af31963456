"""Row partitions: a broker with many partitions. It lists them, stops cleanly and starts again.

Both brokers have the same topics, each partition with one record. Each runs alone, because two of them would share the
cores while they start. The CPU time is the broker's for one request of the metadata of all topics, by librdkafka. The
stop ends with the process, and the start with the first response in which each partition has a leader.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from benchmarks.bench import Bench
from benchmarks.measure import Case
from benchmarks.server.brokers import TidelogBroker, kafka_broker, renew_topic
from benchmarks.server.cluster_client import flush, require_no_error
from benchmarks.server.process import core_seconds
from benchmarks.worker import Done
from real_kafka.broker import Broker, all_led

_TOPICS = 80
_PARTITIONS = 100
_REQUESTS = 20
_RUNS = 3
_PATIENCE_S = 600
_LOOK_S = 0.01


def cases(bench: Bench) -> Iterator[Case]:
    directory = bench.directory()
    topics = max(1, round(_TOPICS * bench.scale))
    kafka = _Side(bench.enter(kafka_broker(directory)), topics)
    ours = _Side(bench.enter(TidelogBroker(directory / "tidelog")), topics)
    name = f"{topics * _PARTITIONS:,} partitions"
    for work, run, target in (
        ("CPU time of the broker for the metadata of all", _Side.describe, 2.0),
        ("clean stop", _Side.stop, 2.0),
        ("start after it, until each has a leader", _Side.start, 2.0),
    ):
        yield Case(
            name=f"{name}: {work}",
            peer=partial(run, kafka),
            ours=partial(run, ours),
            target=target,
            runs=_RUNS,
            most_warm_ups=0,
        )


class _Side:
    """A broker that runs only during a call."""

    def __init__(self, broker: Broker | TidelogBroker, topics: int) -> None:
        self._broker = broker
        self._topics = topics
        self._has_topics = False

    def describe(self) -> Done:
        self._launch()
        admin = self._admin()
        admin.list_topics(timeout=_PATIENCE_S)
        before = core_seconds(self._broker.process_id)
        for _ in range(_REQUESTS):
            admin.list_topics(timeout=_PATIENCE_S)
        used = core_seconds(self._broker.process_id) - before
        self._end()
        return Done(seconds=used / _REQUESTS, bytes=0, records=0)

    def stop(self) -> Done:
        self._launch()
        begun_s = time.perf_counter()
        self._end()
        return Done(seconds=time.perf_counter() - begun_s, bytes=0, records=0)

    def start(self) -> Done:
        begun_s = time.perf_counter()
        self._launch()
        seconds = time.perf_counter() - begun_s
        self._end()
        return Done(seconds=seconds, bytes=0, records=0)

    def _launch(self) -> None:
        """Start the broker, and return when all partitions have leaders. The first time, create them."""
        self._broker.start()
        if not self._has_topics:
            self._create()
            self._has_topics = True
        while not all_led(self._admin()):
            time.sleep(_LOOK_S)

    def _create(self) -> None:
        names = [f"topic-{number:03}" for number in range(self._topics)]
        for name in names:
            renew_topic(self._broker, name, partitions=_PARTITIONS)
        producer = Producer({"bootstrap.servers": self._broker.bootstrap, "log_level": 2})
        for name in names:
            for partition in range(_PARTITIONS):
                producer.produce(name, b"record", partition=partition, on_delivery=require_no_error)
            flush(producer)

    def _end(self) -> None:
        """Stop the broker. It is not killed, however long that takes."""
        process_id = self._broker.process_id
        os.kill(process_id, signal.SIGTERM)
        os.waitid(os.P_PID, process_id, os.WEXITED | os.WNOWAIT)
        self._broker.stop()

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._broker.bootstrap, "log_level": 2})
