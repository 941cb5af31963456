"""Both sources in one session of PySpark 4.0.0: Spark's Kafka source reads a broker, tidelog its log directory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from real_kafka.broker import Broker
from spark.oldest_process import OldestSpark, SparkError

Source = Literal["kafka", "tidelog"]
SOURCES: tuple[Source, ...] = ("kafka", "tidelog")
IMPATIENT = {"fetchOffset.retryIntervalMs": "10"}
"""Spark asks a broker three times for a missing topic. This setting keeps the pauses short."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a read or of a stream's run: rows by partition or batch, or the words of an error."""

    rows: Mapping[str, Any] = field(default_factory=dict)
    words: str = ""


class BothSources(OldestSpark):
    def __init__(self, broker: Broker, directory: Path) -> None:
        """Start the session. ``directory`` takes Spark's own files."""
        super().__init__("spark.differential.session", directory)
        self.reader: str | None = None
        """The reader of the source ``tidelog``. None lets it choose."""
        self._where: Mapping[Source, Mapping[str, str]] = {
            "kafka": {"kafka.bootstrap.servers": broker.bootstrap},
            "tidelog": {"logDirs": str(broker.directory)},
        }

    def read(self, source: Source, options: Mapping[str, str]) -> Outcome:
        return self._try("read", source, options)

    def stream(
        self, source: Source, options: Mapping[str, str], checkpoint: Path, *, available_now: bool = False
    ) -> Outcome:
        """Run the query of this checkpoint once."""
        return self._try("stream", source, options, checkpoint=str(checkpoint), available_now=available_now)

    def _try(self, work: str, source: Source, options: Mapping[str, str], **more: Any) -> Outcome:
        try:
            given = {**self._where[source], **IMPATIENT, **options}
            if source == "tidelog" and self.reader is not None:
                given["reader"] = self.reader
            return Outcome(rows=self.ask(work, source=source, options=given, **more))
        except SparkError as error:
            return Outcome(words=str(error))


def ends(checkpoint: Path) -> list[Any]:
    """Return the end of each batch from the query's checkpoint."""
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[-1]) for path in files]
