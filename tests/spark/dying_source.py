"""The data source ``dying``, which dies once at the point that the environment names, and ``dying_rows``.

``DYING_AT`` is one of these points:

- ``planned``: the driver dies after it has recorded the end of a batch and planned its tasks.
- ``reading``: a worker dies in the middle of a task.
- ``read``: the driver dies after a task has returned all its records.

It dies in the batch with offset ``DYING_OFFSET`` of a partition, and creates the file ``DYING_MARK``. ``DYING_GROUP``
is the driver's process group. The JVM reader runs no Python, so there the task's next step dies: ``dying_rows``.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from tidelog.spark.read.split import LogSplit
from tidelog.spark.source import TidelogDataSource
from tidelog.spark.stream.stream_reader import LogStreamReader


class DyingDataSource(TidelogDataSource):
    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        reader = super().streamReader(schema)
        assert isinstance(reader, LogStreamReader)
        reader.__class__ = type("Dying", (Dying, type(reader)), {})
        return reader


class Dying(LogStreamReader):
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        splits = super().partitions(start, end)
        if any(_has_the_offset(split) for split in splits):
            _die("planned", driver=True)
        return splits

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        for batch in super().read(partition):
            yield batch.slice(0, 1)
            if _has_the_offset(partition):
                _die("reading", driver=False)
            yield batch.slice(1)
        if _has_the_offset(partition):
            _die("read", driver=True)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _dying, (self.options,)


def _dying(options: Any) -> LogStreamReader:
    reader = LogStreamReader(options)
    reader.__class__ = Dying
    return reader


def dying_rows(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the rows of a task, for ``mapInArrow``. Die at the point, as a source would."""
    found = False
    for batch in rows:
        if not found and int(os.environ["DYING_OFFSET"]) in batch.column("offset").to_pylist():
            found = True
            _die("planned", driver=True)
            yield batch.slice(0, 1)
            _die("reading", driver=False)
            yield batch.slice(1)
        else:
            yield batch
    if found:
        _die("read", driver=True)


def _has_the_offset(split: InputPartition) -> bool:
    assert isinstance(split, LogSplit)
    return any(piece.start <= int(os.environ["DYING_OFFSET"]) < piece.end for piece in split.pieces)


def _die(point: str, *, driver: bool) -> None:
    mark = Path(os.environ["DYING_MARK"])
    if os.environ["DYING_AT"] != point or mark.exists():
        return
    mark.touch()
    if driver:
        os.killpg(int(os.environ["DYING_GROUP"]), signal.SIGKILL)
        signal.pause()  # until Spark ends its workers, so that the batch never completes
    os.kill(os.getpid(), signal.SIGKILL)
