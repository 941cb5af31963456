"""A mirror that follows the demo's broker, and a Spark stream that counts in the copy as it grows."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from pyspark.sql import DataFrame, SparkSession
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from sending import FLIGHTS_A_TRANSACTION, Message, Sender
from steps import console, picture

import tidelog
from tidelog.mirroring.run.progress import MirrorResult

PATIENCE_S = 120
WAVES = 3


class Follower:
    """``tidelog.mirror`` in a background thread. Leaving the context ends it cleanly."""

    def __init__(self, bootstrap: str, copy: Path, topic: str) -> None:
        self._copy = copy
        self.result: MirrorResult | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(bootstrap, copy, topic))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)

    def wait_for_topic(self, topic: str) -> None:
        """Return when the copy has the topic's partitions."""
        deadline = time.monotonic() + PATIENCE_S
        while not any(self._copy.glob(f"{topic}-*")):
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise RuntimeError("the mirror has not begun")
            time.sleep(0.02)

    def _run(self, bootstrap: str, copy: Path, topic: str) -> None:
        self.result = tidelog.mirror(bootstrap, copy, topics=topic, groups=False, follow=True, stop=self._stop)


def stream_counts(
    spark: SparkSession, copy: Path, topic: str, sender: Sender, flights: Sequence[Message]
) -> tuple[int, int]:
    """Send flights in waves, and let a stream over the copy count each. Return the count and the micro-batches."""
    counts: list[int] = []
    growing = (
        spark.readStream.format("tidelog")
        .option("logDirs", str(copy))
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("kafka.isolation.level", "read_committed")
        .load()
    )

    def note(rows: DataFrame, _batch: int) -> None:
        counts.append(rows.count())

    query = growing.writeStream.foreachBatch(note).option("checkpointLocation", f"{copy}-stream").start()
    bar = Progress(TextColumn("  {task.description}"), BarColumn(30), MofNCompleteColumn(), console=console)
    sent = bar.add_task("sent to the broker ", total=len(flights))
    counted = bar.add_task("counted in the copy", total=len(flights))
    wave = -(-len(flights) // WAVES)
    with picture(bar):
        for first in range(0, len(flights), wave):
            for start in range(first, min(first + wave, len(flights)), FLIGHTS_A_TRANSACTION):
                chunk = flights[start : min(start + FLIGHTS_A_TRANSACTION, first + wave)]
                sender.begin(topic, chunk)
                sender.commit()
                bar.advance(sent, len(chunk))
            deadline = time.monotonic() + PATIENCE_S
            while sum(counts) < min(first + wave, len(flights)) and query.isActive and time.monotonic() < deadline:
                time.sleep(0.05)
                bar.update(counted, completed=sum(counts))
    query.stop()
    if (error := query.exception()) is not None:
        raise error
    return sum(counts), len([count for count in counts if count])
