"""Spark as a client of a broker: a process with PySpark 4.0.0, since its Kafka source is fetched for that release."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from spark.oldest_process import OldestSpark


class Row(NamedTuple):
    """A record as Spark has it; ``timestamp`` in ms."""

    partition: int
    offset: int
    timestamp: int
    key: str | None
    value: str | None
    headers: list[list[str]] | None


class SparkClient(OldestSpark):
    """A process that reads from and writes to one broker."""

    def __init__(self, directory: Path, bootstrap: str) -> None:
        """``directory``: for what Spark leaves."""
        super().__init__("server.spark.session", directory)
        self.checkpoints = directory / "checkpoints"
        self._servers = {"kafka.bootstrap.servers": bootstrap}

    def write(self, rows: list[tuple[Any, ...]], **options: str) -> None:
        """``rows``: topic, partition, key, value, headers."""
        self.ask("write", rows=rows, options=self._servers | options)

    def read(self, topic: str, **options: str) -> list[Row]:
        """``options``: of the source, with ``_`` for ``.``."""
        given = {name.replace("_", "."): value for name, value in options.items()}
        return [Row(*row) for row in self.ask("read", options=self._servers | {"subscribe": topic} | given)]

    def start_stream(self, topic: str, to: str, **options: str) -> None:
        """From topic to topic; its checkpoint is that of the pair. ``options``: of the source."""
        source = self._servers | {"subscribe": topic, "startingOffsets": "earliest"} | options
        checkpoint = str(self.checkpoints / f"{topic}-{to}")
        self.ask("start", source=source, sink=self._servers | {"topic": to}, checkpoint=checkpoint)

    def work_off(self) -> int:
        """As Session.work_off says."""
        return int(self.ask("work_off"))

    def wait_for_a_batch(self) -> None:
        """Until the stream has carried one over."""
        self.ask("wait_for_a_batch")

    def stop_stream(self) -> None:
        self.ask("stop")
