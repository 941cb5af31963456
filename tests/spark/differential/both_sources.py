"""Both sources in one session of PySpark 4.0.0: a broker's topics by Spark's Kafka source, its directory by tidelog."""

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
"""Spark asks a broker three times for a topic that is not there, without much of a pause."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a read or of a run of a stream: rows and what they are the rows of, or words of refusal."""

    rows: Mapping[str, Any] = field(default_factory=dict)
    words: str = ""


class BothSources(OldestSpark):
    def __init__(self, broker: Broker, directory: Path) -> None:
        """``directory``: for what Spark leaves."""
        super().__init__("spark.differential.session", directory)
        self._where: Mapping[Source, Mapping[str, str]] = {
            "kafka": {"kafka.bootstrap.servers": broker.bootstrap},
            "tidelog": {"logDirs": str(broker.directory)},
        }

    def read(self, source: Source, options: Mapping[str, str]) -> Outcome:
        return self._try("read", source, options)

    def stream(
        self, source: Source, options: Mapping[str, str], checkpoint: Path, *, available_now: bool = False
    ) -> Outcome:
        """A run of the query that this checkpoint is of."""
        return self._try("stream", source, options, checkpoint=str(checkpoint), available_now=available_now)

    def _try(self, work: str, source: Source, options: Mapping[str, str], **more: Any) -> Outcome:
        try:
            given = {**self._where[source], **IMPATIENT, **options}
            return Outcome(rows=self.ask(work, source=source, options=given, **more))
        except SparkError as error:
            return Outcome(words=str(error))


def ends(checkpoint: Path) -> list[Any]:
    """The end of each batch, as the query's checkpoint has it."""
    files = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    return [json.loads(path.read_text().splitlines()[-1]) for path in files]
