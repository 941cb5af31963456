"""Spark as a client of a broker, in a process with PySpark 4.0.0.

The Kafka source is downloaded for that release.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from spark.oldest_process import OldestSpark


class Row(NamedTuple):
    """A record as Spark returns it. ``timestamp`` is in ms."""

    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: list[list[str]] | None


class SparkClient(OldestSpark):
    """A process that reads from and writes to one broker."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        """Use ``directory`` for Spark's files."""
        super().__init__("server.spark.session", directory)
        self.checkpoints = directory / "checkpoints"
        self._servers = {"kafka.bootstrap.servers": bootstrap}

    def write(self, rows: list[tuple[Any, ...]], **options: str) -> None:
        """Write rows of topic, partition, key, value and headers."""
        self.ask("write", rows=rows, options=self._servers | options)

    def read(self, topic: str, **options: str) -> list[Row]:
        """Read a topic. ``options`` are the source's, with ``_`` for ``.``."""
        given = {name.replace("_", "."): value for name, value in options.items()}
        return [Row(*row) for row in self.ask("read", options=self._servers | {"subscribe": topic} | given)]

    def start_stream(self, topic: str, to: str, **options: str) -> None:
        """Copy one topic to another. Each pair of topics has its own checkpoint. ``options`` are the source's."""
        source = self._servers | {"subscribe": topic, "startingOffsets": "earliest"} | options
        checkpoint = str(self.checkpoints / f"{topic}-{to}")
        self.ask("start", source=source, sink=self._servers | {"topic": to}, checkpoint=checkpoint)

    def work_off(self) -> int:
        """Run ``Session.work_off``."""
        return int(self.ask("work_off"))

    def wait_for_a_batch(self) -> None:
        """Wait until the stream has copied a batch."""
        self.ask("wait_for_a_batch")

    def stop_stream(self) -> None:
        self.ask("stop")
