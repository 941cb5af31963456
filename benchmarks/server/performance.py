"""Kafka's own ProducerPerformance and ConsumerPerformance in a JVM as their scripts start it. They measure the time."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from benchmarks.worker import Done
from real_kafka.java import java_command

_TOOLS = "org.apache.kafka.tools"
_PATIENCE_S = 600
_HEAP_MIB = 512
_PRODUCED = re.compile(r"^(\d+) records sent, ([\d.]+) records/sec .*, ([\d.]+) ms avg latency", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrance:
    """The address for clients, and the settings that they need."""

    bootstrap: str
    properties: Path | None = None
    """A client's properties file for a listener with security."""

    def options(self, name: str) -> tuple[str, ...]:
        return () if self.properties is None else (name, str(self.properties))


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Records to produce and consume."""

    name: str
    topic: str
    records: int
    record_bytes: int
    payloads: Path | None = None
    """A file with a value of ``record_bytes`` bytes on each line. Without it, values are random letters."""
    settings: tuple[str, ...] = ()
    """Settings of the producer in addition to its defaults."""

    @property
    def bytes(self) -> int:
        return self.records * self.record_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Produced:
    done: Done
    mean_latency_s: float


def produce(entrance: Entrance, load: Load) -> Produced:
    """Produce at full speed with acks=all and the producer's default settings, but for those of the load."""
    values = (
        ("--record-size", str(load.record_bytes)) if load.payloads is None else ("--payload-file", str(load.payloads))
    )
    printed = _run(
        "ProducerPerformance",
        *("--topic", load.topic, "--num-records", str(load.records), *values),
        *entrance.options("--producer.config"),
        *("--throughput", "-1", "--producer-props", f"bootstrap.servers={entrance.bootstrap}", "acks=all"),
        *load.settings,
    )
    sent, rate, latency_ms = _PRODUCED.findall(printed)[-1]
    if int(sent) != load.records:
        raise RuntimeError(f"{sent} of {load.records} records were sent:\n{printed}")
    seconds = load.records / float(rate)
    return Produced(
        done=Done(seconds=seconds, bytes=load.bytes, records=load.records), mean_latency_s=float(latency_ms) / 1e3
    )


def consume(entrance: Entrance, load: Load) -> Done:
    """Consume from the beginning with a new group. The time includes joining."""
    printed = _run(
        "ConsumerPerformance",
        *entrance.options("--consumer.config"),
        *("--bootstrap-server", entrance.bootstrap, "--topic", load.topic, "--messages", str(load.records)),
        *("--timeout", "60000"),
    )
    names, values = (line.split(", ") for line in printed.strip().splitlines()[-2:])
    figures = dict(zip(names, values, strict=True))
    consumed = int(figures["data.consumed.in.nMsg"])
    if consumed < load.records:
        raise RuntimeError(f"{consumed} of {load.records} records came:\n{printed}")
    return Done(seconds=consumed / float(figures["nMsg.sec"]), bytes=load.bytes, records=load.records)


def _run(tool: str, *arguments: str) -> str:
    """Return a tool's output."""
    command = java_command(f"{_TOOLS}.{tool}", *arguments, heap_mib=_HEAP_MIB, switches=())
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=_PATIENCE_S)
    if done.returncode:
        raise RuntimeError(f"{tool}: {done.stdout}{done.stderr}")
    return done.stdout
