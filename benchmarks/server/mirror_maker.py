"""Kafka's MirrorMaker 2 as a process: its own driver for one source and one target, as it is set up for speed.

The driver is MirrorMaker of the release TOOLS, because Maven Central has none of Kafka 4.4. The brokers are Kafka 4.4.
It has the JVM's usual collector and compilers, 1 GiB of heap, and a task for each partition. Fetches and batches are
large. It writes no heartbeats and does not sync ACLs.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from real_kafka.java import CACHE, JVM_LOG, TOOLS

PEER_NAME = f"MirrorMaker 2 of Kafka {TOOLS}"
_HEAP_MIB = 1024
_MIB = 1024 * 1024
SETTINGS = {
    "emit.heartbeats.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "consumer.fetch.max.bytes": str(50 * _MIB),
    "consumer.max.partition.fetch.bytes": str(8 * _MIB),
    "consumer.fetch.min.bytes": str(256 * 1024),
    "consumer.fetch.max.wait.ms": "100",
    "consumer.receive.buffer.bytes": "-1",
    "consumer.max.poll.records": "10000",
    "producer.batch.size": str(512 * 1024),
    "producer.linger.ms": "20",
    "producer.buffer.memory": str(128 * _MIB),
    "producer.max.request.size": str(8 * _MIB),
    "producer.send.buffer.bytes": "-1",
    "producer.acks": "all",
}
"""The settings of the driver, and those of its consumers and producers."""


class MirrorMaker:
    """A driver that copies one topic. Leaving the context kills it; it has no state of its own."""

    def __init__(self, work: Path, *, alias: str, source: str, target: str, topic: str, codec: str, tasks: int) -> None:
        """Write the properties. ``alias`` names the source, and is part of the target topic's name."""
        self.target_topic = f"{alias}.{topic}"
        self._log = work / f"{alias}.log"
        self._properties = work / f"{alias}.properties"
        self._process: subprocess.Popen[bytes] | None = None
        lines = {
            "clusters": f"{alias}, target",
            f"{alias}.bootstrap.servers": source,
            "target.bootstrap.servers": target,
            f"{alias}->target.enabled": "true",
            f"{alias}->target.topics": topic,
            f"target->{alias}.enabled": "false",
            "tasks.max": str(tasks),
            **{_scoped(key, alias): value for key, value in SETTINGS.items()},
            "target.producer.compression.type": codec,
        }
        self._properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    @property
    def process_id(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        jars = sorted(map(str, (CACHE / f"mirror-maker-{TOOLS}").glob("*.jar")))
        command = ["java", f"-Xmx{_HEAP_MIB}m", *JVM_LOG, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        command += ["-cp", os.pathsep.join(jars), "org.apache.kafka.connect.mirror.MirrorMaker", str(self._properties)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def check(self) -> None:
        """Raise RuntimeError if the process has ended."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"MirrorMaker ended:\n{self._log.read_text()[-4000:]}")


def _scoped(key: str, alias: str) -> str:
    """Return the driver's key: consumers read from the source, producers write to the target."""
    if key.startswith("consumer."):
        return f"{alias}.{key}"
    return f"target.{key}" if key.startswith("producer.") else key
