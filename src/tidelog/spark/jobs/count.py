"""``tidelog count`` over many log directories as a Spark job: the same numbers, a row a partition.

Partitions are counted by tasks, about 128 MiB of them together; a partition is one task's, however large. A partition
that cannot be counted says why in its row, and the others go on. Nothing is written, and the directories may be a live
broker's; they have to be visible under the same path to the driver and to every executor.

    python -m tidelog.spark.jobs.count DIR... [--topic NAME] [--headers-only]
    spark-submit …/tidelog/spark/jobs/count.py DIR…
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.inspect.count import PartitionCount, count_directory
from tidelog.model import TidelogError, TopicPartition
from tidelog.spark.jobs.command import job_parser, print_rows
from tidelog.spark.jobs.partitions import PartitionsWork, require_directories, works_of
from tidelog.spark.jobs.progress import OnProgress, advancing
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.spark.session_builder import session
from tidelog.storage.fs import BY_PATH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "directory string, topic string, partition int, records bigint, committed bigint, aborted bigint, heldBack bigint,"
    " control bigint, tombstones bigint, recordsAboveHighWatermark bigint, offsetsAboveHighWatermark bigint,"
    " batches bigint, sizeBytes bigint, logStartOffset bigint, highWatermark bigint, lastStableOffset bigint,"
    " logEndOffset bigint, error string"
)
"""Numbers are null where there is an error; ``tombstones`` with ``headers_only``."""

_NUMBERS = SCHEMA.count("bigint")
Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counting:
    """What a task needs."""

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
    """A row a partition, by directory, topic and partition. ``headers_only`` decodes no record.

    DirectoryError for a path that is no log directory.
    """
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
    """In a task."""
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a JSON object a row. Exit code: 0, or 3 where a partition cannot be counted."""
    parser = job_parser("count", "tidelog count as a Spark job: prints a JSON object a partition.")
    parser.add_argument("--headers-only", action="store_true", help="decode no record: faster, without tombstones")
    given = parser.parse_args(arguments)
    spark = session("tidelog count", master=given.master)
    rows = count(spark, given.directories, topics=given.topic or None, headers_only=given.headers_only).collect()
    print_rows(rows)
    return 3 if any(row["error"] is not None for row in rows) else 0


if __name__ == "__main__":
    # What is sent to executors has to be of a module that they can import, which __main__ is not.
    from tidelog.spark.jobs.count import main as run_main

    sys.exit(run_main())
