"""Row start: the time from the start of the process to the first response, and the broker's memory.

A start finds a directory after a clean shutdown. The request is ApiVersions, repeated until there is a response.
``tidelog.testing.Broker`` starts on a new directory in a process that had a broker before, like all but the first test
of a suite. The memory is that of the brokers of the rows produce and consume after these rows.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator

from benchmarks.bench import Bench
from benchmarks.measure import Case, Unit
from benchmarks.server.brokers import TidelogBroker, free_address, is_answered, kafka_broker
from benchmarks.worker import Done
from real_kafka.broker import Broker
from tidelog.testing.broker import Broker as TestsBroker

LIMIT_MS = 400
LIMIT_IN_TESTS_MS = 300
LIMIT_MB = 80
_PATIENCE_S = 60
_RETRY_S = 0.002


def cases(bench: Bench) -> Iterator[Case]:
    directory = bench.directory()
    kafka = bench.enter(kafka_broker(directory))
    ours = bench.enter(TidelogBroker(directory / "tidelog"))
    yield Case(
        name="process start to the first answer",
        peer=_starts(kafka, kafka.launch),
        ours=_starts(ours, lambda: ours.launch(free_address())),
        limit=LIMIT_MS,
        most_warm_ups=1,
    )
    yield Case(name="tidelog.testing.Broker, made to the first answer", ours=_start_for_a_test, limit=LIMIT_IN_TESTS_MS)
    pair = bench.brokers
    yield Case(
        name="resident memory after the runs of produce and consume",
        peer=lambda: pair.kafka.memory(pair.loads),
        ours=lambda: pair.tidelog.memory(pair.loads),
        limit=LIMIT_MB,
        unit=Unit.MEGABYTES,
        runs=1,
        most_warm_ups=0,
    )


def _starts(broker: Broker | TidelogBroker, launch: Callable[[], None]) -> Callable[[], Done]:
    """Return a function that starts and cleanly stops the broker, and times the start."""

    def run() -> Done:
        start = time.perf_counter()
        launch()
        _ask_until_answered(broker.bootstrap)
        done = Done(seconds=time.perf_counter() - start, bytes=0, records=0)
        broker.stop()
        return done

    return run


def _start_for_a_test() -> Done:
    start = time.perf_counter()
    with TestsBroker() as broker:
        _ask_until_answered(broker.bootstrap_servers)
        return Done(seconds=time.perf_counter() - start, bytes=0, records=0)


def _ask_until_answered(address: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while not _is_answered(address):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nobody answers at {address}")
        time.sleep(_RETRY_S)


def _is_answered(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=_PATIENCE_S) as connection:
            return is_answered(connection)
    except OSError:
        return False
