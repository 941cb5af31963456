"""Row idle: the cost of idle clients and topics. Ours alone, with a new broker for each run.

The memory is the broker's growth since before the clients or topics. The time is a share of one core.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack

from benchmarks.bench import Bench
from benchmarks.measure import Case, Unit
from benchmarks.server.brokers import TidelogBroker, is_answered, renew_topic
from benchmarks.server.process import core_seconds, resident_bytes
from benchmarks.worker import Done

CONNECTIONS = 10_000
PARTITIONS = 500
LIMIT_PERCENT = 1.0
_WINDOW_S = 10.0
_CALM_S = 6.0
_FIRST_HOUSEKEEPING_S = 40.0
"""The time after a start by which the first housekeeping is over. It writes the leader epochs of new logs once."""
"""The time in seconds for the broker to settle: it writes the ids of new topics in the background."""

Come = Callable[[TidelogBroker, ExitStack], None]
"""A function that brings the idle clients or topics to a broker. The stack removes them."""


def cases(bench: Bench) -> Iterator[Case]:
    for name, come, limit_mb in (
        (f"{CONNECTIONS:,} idle connections", _connect, 64),
        (f"{PARTITIONS} idle partitions", _create, 20),
    ):
        idle = _Idle(bench, come)
        yield Case(name=f"{name}: memory", ours=idle.memory, limit=limit_mb, unit=Unit.MEGABYTES, most_warm_ups=0)
        yield Case(
            name=f"{name}: a core", ours=idle.shares.pop, limit=LIMIT_PERCENT, unit=Unit.PERCENT, most_warm_ups=0
        )


class _Idle:
    """Runs with one kind of idle clients or topics. ``shares`` of a core come from the same runs."""

    def __init__(self, bench: Bench, come: Come) -> None:
        self._bench = bench
        self._come = come
        self.shares: list[Done] = []

    def memory(self) -> Done:
        with ExitStack() as stack:
            broker = stack.enter_context(TidelogBroker(self._bench.directory() / "tidelog"))
            broker.start()
            started = time.monotonic()
            renew_topic(broker, "warm")  # the modules that the first topic imports do not count for the partitions
            time.sleep(_CALM_S)
            before = resident_bytes(broker.process_id)
            self._come(broker, stack)
            time.sleep(_CALM_S)
            grown = resident_bytes(broker.process_id) - before
            time.sleep(max(0, started + _FIRST_HOUSEKEEPING_S - time.monotonic()))
            self.shares.append(_share_of_a_core(broker))
        return Done(seconds=grown / 1e6, bytes=0, records=0)


def _share_of_a_core(broker: TidelogBroker) -> Done:
    before, start = core_seconds(broker.process_id), time.monotonic()
    time.sleep(_WINDOW_S)
    used, passed = core_seconds(broker.process_id) - before, time.monotonic() - start
    return Done(seconds=100 * used / passed, bytes=0, records=0)


def _connect(broker: TidelogBroker, stack: ExitStack) -> None:
    """Open the connections. Each one gets a response before the next, because the queue of a listener is short."""
    host, _, port = broker.bootstrap.rpartition(":")
    for _ in range(CONNECTIONS):
        connection = stack.enter_context(socket.create_connection((host, int(port))))
        assert is_answered(connection)


def _create(broker: TidelogBroker, _stack: ExitStack) -> None:
    renew_topic(broker, "idle", partitions=PARTITIONS)
