"""Spark's part of a stream in this process: the calls of ``MicroBatchExecution`` to a Python reader, in its order.

The offset log and the commit log outlive a run, as a checkpoint does. ``die_at`` ends a run where a driver may die.
Each task's pieces are pickled, as on their way to an executor. There are two protocols: that of PySpark 4.2 and later
(``passes_start``), and the earlier protocol, in which a reader does not receive the start of a batch.
"""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import cloudpickle

from spark.in_process import options_of
from tidelog.spark.read.split import LogSplit
from tidelog.spark.stream.stream_offsets import from_json, to_json
from tidelog.spark.stream.stream_options import StreamOptions
from tidelog.spark.stream.stream_progress import StreamProgress
from tidelog.spark.stream.stream_reader import LogStreamReader


class DriverDiedError(Exception):
    """A run ended before its batch was committed."""


@dataclass
class Checkpoint:
    """The state that outlives a run: ``ends`` by batch as JSON, and the number of ``committed`` batches."""

    ends: list[str] = field(default_factory=list)
    committed: int = 0
    rows: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    """The content of a sink that knows its batches: topic, partition, offset. A repeated batch replaces itself."""

    def start(self, batch: int) -> str | None:
        return self.ends[batch - 1] if batch else None

    def all_rows(self) -> list[tuple[str, int, int]]:
        return [row for batch in sorted(self.rows) for row in self.rows[batch]]

    def sizes(self) -> list[int]:
        return [len(self.rows[batch]) for batch in sorted(self.rows)]


class Run:
    """A run of a query. A new run on the same checkpoint is a restart."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        log_dir: Path | str,
        *,
        passes_start: bool = True,
        available_now: bool = False,
        now_ms: list[int] | None = None,
        **given: object,
    ) -> None:
        options = StreamOptions.parse(options_of(log_dir, **given))
        self.warnings: list[str] = []
        self.checkpoint = checkpoint
        self.reader = LogStreamReader(options)
        clock = [0] if now_ms is None else now_ms
        self.reader.progress = StreamProgress(options, clock=lambda: clock[0], warn=self.warnings.append)
        self._passes_start = passes_start
        self._initial: str | None = None
        if available_now:
            self.reader.progress.stop_at_present()
        if not passes_start and checkpoint.ends:
            last = json.loads(checkpoint.ends[-1])
            assert list(self.reader.partitions(last, last)) == []
        if len(checkpoint.ends) > checkpoint.committed:
            self._read(checkpoint.committed, None)

    def trigger(self, die_at: str | None = None) -> bool:
        """Run a trigger. Return False if there was nothing new. ``die_at`` is ``planned`` or ``read``."""
        batch = len(self.checkpoint.ends)
        end = json.dumps(self._end(batch))
        if end == self.checkpoint.start(batch):
            return False
        self.checkpoint.ends.append(end)
        if die_at == "planned":
            raise DriverDiedError
        self._read(batch, die_at)
        return True

    def all_available(self, most: int = 100) -> None:
        """Run triggers until there is nothing new."""
        for _ in range(most):
            if not self.trigger():
                return
        raise AssertionError(f"still something new after {most} batches")

    def _end(self, batch: int) -> dict[str, Any]:
        if not self._passes_start:
            return self.reader.latestOffset()
        return to_json(self.reader.progress.next_end(from_json(json.loads(self._start(batch)))))

    def _start(self, batch: int) -> str:
        known = self.checkpoint.start(batch)
        if known is not None:
            return known
        if self._initial is None:
            self._initial = json.dumps(self.reader.initialOffset())
        return self._initial

    def _read(self, batch: int, die_at: str | None) -> None:
        splits = self.reader.partitions(json.loads(self._start(batch)), json.loads(self.checkpoint.ends[batch]))
        worker = pickle.loads(cloudpickle.dumps(self.reader)) if splits else self.reader
        rows = []
        for split in pickle.loads(pickle.dumps(splits)):
            assert isinstance(split, LogSplit)
            for part in worker.read(split):
                rows += [(row["topic"], row["partition"], row["offset"]) for row in part.to_pylist()]
        self.checkpoint.rows[batch] = rows
        if die_at == "read":
            raise DriverDiedError
        self.checkpoint.committed = batch + 1
