"""Row mirror: `tidelog mirror` next to Kafka's MirrorMaker 2, from one source broker on the same cores.

Each run copies a topic of four partitions. MirrorMaker writes into a second broker of Kafka. tidelog writes into a
new log directory. MirrorMaker starts again in each run. Its start and the first half of the records warm it up and do
not count. The time of the second half is doubled. tidelog's time is that of the whole process: its start, the plan, all
records, and the flush at its end. So the two sides are not timed alike, and the ratio is below that of equal rules. The
case's name has the ratio by tidelog's rule as well: from the start of each process to its end, or to the last record.

A case's name has the records a second and the CPU seconds of a GB of records. MirrorMaker's target broker counts on its
side, and the figure without it follows. The source broker counts on neither side.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from benchmarks.bench import Bench
from benchmarks.measure import Case, Times
from benchmarks.server.brokers import Server, installed_environment, kafka_broker, renew_topic
from benchmarks.server.mirror_maker import PEER_NAME, MirrorMaker
from benchmarks.server.performance import Entrance, Load, produce
from benchmarks.server.process import process_seconds
from benchmarks.worker import Done
from real_kafka.broker import Broker

PARTITIONS = 4
TARGET = 5.0
CODECS = ("none", "lz4")
SIZES = ((500_000, 1000, "1 KB records"), (3_000_000, 100, "100 B records"))
_LINES = 5_000
"""The different values of a load."""
_TIDELOG = str(Path(sys.executable).with_name("tidelog"))
_PATIENCE_S = 120
_LOOK_S = 0.05


def cases(bench: Bench) -> Iterator[Case]:
    directory = bench.directory()
    source, target = (bench.enter(kafka_broker(directory / name)) for name in ("source", "target"))
    for broker in (source, target):
        broker.start()
    subprocess.run(  # writes the bytecode
        [_TIDELOG, "mirror", "--help"], stdout=subprocess.DEVNULL, env=installed_environment(), check=True
    )
    for load, codec in _loads(directory, bench.scale):
        race = _Race(source=source, target=target, load=load, codec=codec, directory=directory)
        yield Case(
            name=f"{load.name}, {codec}, {PARTITIONS} partitions",
            peer=race.mirror_maker,
            peer_name=PEER_NAME,
            ours=race.tidelog,
            target=TARGET,
            most_warm_ups=0,
            note=race.note,
        )
        race.end()


def _loads(directory: Path, scale: float) -> Iterator[tuple[Load, str]]:
    for records, size, name in SIZES:
        payloads = directory / f"{size}.txt"
        payloads.write_text("".join(_lines(size)))
        for codec in CODECS:
            yield (
                Load(
                    name=name,
                    topic=f"mirrored-{size}-{codec}",
                    records=max(round(records * scale), 1000),
                    record_bytes=size,
                    payloads=payloads,
                    settings=(f"compression.type={codec}", "linger.ms=5"),
                ),
                codec,
            )


def _lines(size: int) -> Iterator[str]:
    """Yield values that compress like records of a service: JSON with some repeated words."""
    for number in range(_LINES):
        event = {"id": number * 7919 % 1_000_003, "user": f"user-{number % 311}", "kind": "order", "total": number * 37}
        text = json.dumps(event) + "".join(f',"item-{n}": {number * n * 7919 % 99_991}' for n in range(size // 12))
        yield text[: size - 1] + "}\n" if len(text) >= size else text.ljust(size - 1) + "}\n"


@dataclass(slots=True, kw_only=True)
class _Cost:
    """The CPU seconds of a run for all records."""

    own: float
    target_broker: float = 0.0
    whole_s: float = 0.0
    """The seconds from the start of the process to the last record."""


@dataclass(slots=True, kw_only=True)
class _Race:
    """The runs of one load on both sides. ``costs`` are those of each side's last run."""

    source: Broker
    target: Broker
    load: Load
    codec: str
    directory: Path
    costs: dict[str, _Cost] = field(default_factory=dict)
    _is_written: bool = False
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def mirror_maker(self) -> Done:
        """Copy the topic into the target broker, and return twice the time of the second half."""
        self._write()
        target = self.target
        maker = MirrorMaker(
            self.directory,
            alias=f"source{next(self._numbers)}-{self.load.topic}",
            source=self.source.bootstrap,
            target=target.bootstrap,
            topic=self.load.topic,
            codec=self.codec,
            tasks=PARTITIONS,
        )
        with maker:
            started = time.perf_counter()
            maker.start()
            end = _End(target, maker)
            middle = end.wait_for(self.load.records // 2)
            begun, own, broker = time.perf_counter(), *_seconds(maker, target)
            copied = end.wait_for(self.load.records) - middle
            ended, (own_end, broker_end) = time.perf_counter(), _seconds(maker, target)
        factor = self.load.records / max(copied, 1)  # a small load may be over at the first look
        self.costs["peer"] = _Cost(
            own=(own_end - own) * factor, target_broker=(broker_end - broker) * factor, whole_s=ended - started
        )
        target.admin.delete_topics([maker.target_topic])[maker.target_topic].result(_PATIENCE_S)
        return Done(seconds=(ended - begun) * factor, bytes=self.load.bytes, records=self.load.records)

    def tidelog(self) -> Done:
        """Copy the topic into a new log directory, and return the time of the process."""
        self._write()
        copy = self.directory / "copy"
        command = [_TIDELOG, "mirror", "--from", self.source.bootstrap, "--topics", self.load.topic, "--no-groups"]
        begun = time.perf_counter()
        process = subprocess.Popen(
            [*command, "--apply", str(copy)], stdout=subprocess.DEVNULL, env=installed_environment()
        )
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
        if status:
            raise RuntimeError(f"tidelog mirror: status {status}")
        self.costs["tidelog"] = _Cost(own=usage.ru_utime + usage.ru_stime)
        shutil.rmtree(copy)
        return Done(seconds=seconds, bytes=self.load.bytes, records=self.load.records)

    def note(self, times: Times) -> str:
        """Return the rate, the CPU seconds a GB of both sides, and the ratio of whole processes."""
        gigabytes = self.load.bytes / 1e9
        note = f"{self.load.records / times.median:,.0f} records a second"
        ours, theirs = self.costs["tidelog"].own / gigabytes, self.costs["peer"]
        both = (theirs.own + theirs.target_broker) / gigabytes
        return (
            f"{note}; {ours:.1f} CPU seconds a GB, MirrorMaker {both:.1f} ({theirs.own / gigabytes:.1f} without its "
            f"target broker); with both starts {theirs.whole_s / times.median:.1f} times as fast"
        )

    def end(self) -> None:
        """Free the disk."""
        self.source.admin.delete_topics([self.load.topic])[self.load.topic].result(_PATIENCE_S)

    def _write(self) -> None:
        if not self._is_written:
            renew_topic(self.source, self.load.topic, partitions=PARTITIONS)
            produce(Entrance(bootstrap=self.source.bootstrap), self.load)
            self._is_written = True


def _seconds(maker: MirrorMaker, target: Server) -> tuple[float, float]:
    return process_seconds(maker.process_id), process_seconds(target.process_id)


class _End:
    """The end of the target topic, as it grows."""

    def __init__(self, target: Broker, maker: MirrorMaker) -> None:
        self._settings = {"bootstrap.servers": target.bootstrap, "log_level": 2}
        self._admin = AdminClient(self._settings)
        self._maker = maker

    def wait_for(self, records: int) -> int:
        """Return the number of records when there are at least so many."""
        deadline = time.monotonic() + _PATIENCE_S
        while (found := self._records()) < records:
            self._maker.check()
            if time.monotonic() > deadline:
                raise TimeoutError(f"MirrorMaker copied {found} of {records} records")
            time.sleep(_LOOK_S)
        return found

    def _records(self) -> int:
        places = {KafkaPartition(self._maker.target_topic, number): OffsetSpec.latest() for number in range(PARTITIONS)}
        try:
            return sum(found.result(_PATIENCE_S).offset for found in self._admin.list_offsets(places).values())
        except KafkaException:
            # MirrorMaker has not created the topic yet. A client that knows a topic as missing may not ask again.
            self._admin = AdminClient(self._settings)
            return 0
