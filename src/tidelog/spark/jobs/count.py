"""The Spark job for ``tidelog count`` over many log directories, with one row per partition.

Tasks count the partitions, about 128 MiB per task. A partition is never divided, however large. If a partition cannot
be counted, its row has the error and the others go on. Nothing is written, and a live broker may hold the directories.
They must be visible under the same path to the driver and to every executor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.inspect.count import PartitionCount, count_directory
from tidelog.model import TidelogError, TopicPartition
from tidelog.spark.jobs.progress import OnProgress, advancing
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.spark.jobs.work import PartitionsWork, require_directories, works_of
from tidelog.storage.fs import BY_PATH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "directory string, topic string, partition int, records bigint, committed bigint, aborted bigint, heldBack bigint,"
    " control bigint, tombstones bigint, recordsAboveHighWatermark bigint, offsetsAboveHighWatermark bigint,"
    " batches bigint, sizeBytes bigint, logStartOffset bigint, highWatermark bigint, lastStableOffset bigint,"
    " logEndOffset bigint, error string"
)
"""Numbers are null if there is an error. ``tombstones`` is also null with ``headers_only``."""

_NUMBERS = SCHEMA.count("bigint")
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counting:
    """The input of a task."""

    work: PartitionsWork
    headers_only: bool


def count(
    spark: SparkSession,
    directories: str | Path | Iterable[str | Path],
    *,
    topics: Collection[str] | None = None,
    headers_only: bool = False,
    on_progress: OnProgress | None = None,
) -> DataFrame:
    """Return one row per partition, by directory, topic and partition. ``headers_only`` decodes records only where
    headers do not give the counts. Raise DirectoryError for a path that is no log directory."""
    paths = require_directories(directories)
    works = [_Counting(work=work, headers_only=headers_only) for work in works_of(paths, topics)]
    advance = advancing(on_progress, sum(one.work.log_bytes for one in works))
    found = run_tasks(spark, works, _count, size=lambda one: one.work.log_bytes, advance=advance)
    rows: list[Row] = []
    for one, counts in zip(works, found, strict=True):
        if isinstance(counts, TidelogError):
            rows += [_failed(one.work.path, partition, counts) for partition in one.work.partitions]
        else:
            rows += [_row(one.work.path, counted) for counted in counts]
    order = {str(path): number for number, path in enumerate(paths)}
    return spark.createDataFrame(sorted(rows, key=lambda row: (order[row[0]], row[1], row[2])), SCHEMA)


def _count(work: _Counting) -> list[PartitionCount]:
    """Count partitions inside a Spark task."""
    only = work.work.partitions
    return count_directory(BY_PATH, work.work.path, only=only, headers_only=work.headers_only, threads=1)


def _row(path: Path, counted: PartitionCount) -> Row:
    if counted.error is not None:
        return _failed(path, counted.partition, counted.error)
    return (
        str(path),
        *counted.partition,
        counted.records,
        counted.committed,
        counted.aborted,
        counted.held_back,
        counted.control,
        counted.tombstones,
        counted.records_above_hw,
        counted.offsets_above_hw,
        counted.batches,
        counted.bytes,
        counted.log_start,
        counted.high_watermark,
        counted.last_stable,
        counted.log_end,
        None,
    )


def _failed(path: Path, partition: TopicPartition, error: TidelogError) -> Row:
    return (str(path), *partition, *(None,) * _NUMBERS, str(error))
