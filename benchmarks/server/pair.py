"""Both brokers as the rows use them: started once, written to and read from in turns, and measured at the end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks.measure import Times
from benchmarks.server.brokers import Server, TidelogBroker, kafka_broker, renew_topic
from benchmarks.server.performance import Entrance, Load, consume, produce
from benchmarks.server.process import core_seconds, resident_bytes
from benchmarks.worker import Done

LOADS = (
    Load(name="100 B records", topic="hundred", records=2_000_000, record_bytes=100),
    Load(name="1 KB records", topic="thousand", records=500_000, record_bytes=1000),
)


@dataclass(slots=True)
class Side:
    """A broker and its measurements."""

    server: Server
    entrance: Entrance
    latencies: defaultdict[Load, list[Done]] = field(default_factory=lambda: defaultdict(list))
    """The latencies of the runs of ``produce``, in the runs' order."""
    core_seconds: float = 0.0
    """The broker's seconds of a core in the last run."""
    _written: set[Load] = field(default_factory=set)

    def produce(self, load: Load) -> Done:
        """Produce to a new topic."""
        renew_topic(self.server, load.topic)
        before = core_seconds(self.server.process_id)
        produced = produce(self.entrance, load)
        self.core_seconds = core_seconds(self.server.process_id) - before
        self.latencies[load].append(Done(seconds=produced.mean_latency_s, bytes=0, records=0))
        self._written.add(load)
        return produced.done

    def consume(self, load: Load) -> Done:
        """Consume the records that were produced last."""
        if load not in self._written:
            self.produce(load)
        before = core_seconds(self.server.process_id)
        done = consume(self.entrance, load)
        self.core_seconds = core_seconds(self.server.process_id) - before
        return done

    def note(self, load: Load, times: Times) -> str:
        """Return a remark on the runs of a piece of work."""
        return (
            f"{load.records / times.median:,.0f} records a second, {self.core_seconds:.1f} s of a core for the broker"
        )

    def memory(self, loads: tuple[Load, ...]) -> Done:
        """Return the memory in megabytes after at least one run of each load."""
        for load in loads:
            if load not in self._written:
                self.consume(load)
        return Done(seconds=resident_bytes(self.server.process_id) / 1e6, bytes=0, records=0)


class Pair:
    """The sides ``kafka`` and ``tidelog``, and their loads."""

    def __init__(self, kafka: Side, tidelog: Side, scale: float) -> None:
        """Keep the sides of two running brokers."""
        self.kafka = kafka
        self.tidelog = tidelog
        self.loads = tuple(replace(load, records=max(round(load.records * scale), 1000)) for load in LOADS)

    @classmethod
    def start(cls, directory: Path, enter: Callable[[AbstractContextManager[Any]], Any], scale: float) -> Pair:
        """Start both brokers. ``enter`` keeps a broker until the run ends."""
        kafka, tidelog = kafka_broker(directory), TidelogBroker(directory / "tidelog")
        for broker in (kafka, tidelog):
            enter(broker)
            broker.start()
        sides = (Side(broker, Entrance(bootstrap=broker.bootstrap)) for broker in (kafka, tidelog))
        return cls(*sides, scale)
