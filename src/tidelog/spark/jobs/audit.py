"""``tidelog verify`` over many log directories as a Spark job: every CRC, index, snapshot and checkpoint, as a table.

A row's ``kind``:

=============  =======================================================================================================
``finding``    what contradicts itself or the log, by severity; of a partition, or of the files beside the partitions
``outlook``    a partition's one, always: what a broker would do with it at its next start, and where its log ends
``error``      what could not be looked at: a partition, or a directory
=============  =======================================================================================================

Partitions are read by tasks, about 128 MiB of them together; a partition is one task's, however large. The driver holds
the checkpoints against what the tasks found. Nothing is written, and the directories may be a live broker's; they have
to be visible under the same path to the driver and to every executor.

    python -m tidelog.spark.jobs.audit DIR... [--topic NAME]
    spark-submit …/tidelog/spark/jobs/audit.py DIR…
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.inspect.verify import Finding, Severity, verify_directory
from tidelog.inspect.verify.directory_check import VerifiedPartition, check_small_files
from tidelog.model import TidelogError, TopicPartition
from tidelog.spark.jobs.command import job_parser, print_rows
from tidelog.spark.jobs.partitions import PartitionsWork, require_directories, works_of
from tidelog.spark.jobs.progress import OnProgress, advancing
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.spark.session_builder import session
from tidelog.storage.fs import BY_PATH, ReadOnlyFileSystem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "directory string, kind string, severity string, topic string, partition int, file string, position bigint,"
    " offset bigint, message string, nextGoodPosition bigint, nextGoodOffset bigint, logStartOffset bigint,"
    " logEndOffset bigint"
)
FINDING = "finding"
OUTLOOK = "outlook"
ERROR = "error"

_SOUND = (None, Severity.NOTE.value)
Cells = tuple[Any, ...]
_Verified = tuple[VerifiedPartition, ...]


def audit(
    spark: SparkSession,
    directories: str | Path | Iterable[str | Path],
    *,
    topics: Collection[str] | None = None,
    on_progress: OnProgress | None = None,
) -> DataFrame:
    """Rows by directory, those of its own files last. With ``topics`` only their partitions, and no such files.

    DirectoryError for a path that is no log directory.
    """
    paths = require_directories(directories)
    works = works_of(paths, topics)
    advance = advancing(on_progress, sum(work.log_bytes for work in works))
    found = run_tasks(spark, works, _verify, size=lambda work: work.log_bytes, advance=advance)
    rows = [row for path in paths for row in _rows(path, works, found, is_whole=topics is None)]
    return spark.createDataFrame(rows, SCHEMA)


def finds_anything(rows: Iterable[Any]) -> bool:
    """Whether there is more than notes and outlooks among collected rows, or dictionaries of them."""
    return any(row["kind"] == ERROR or row["severity"] not in _SOUND for row in rows)


def _verify(work: PartitionsWork) -> _Verified:
    """In a task."""
    return verify_directory(BY_PATH, work.path, only=work.partitions, threads=1).partitions


def _rows(
    path: Path, works: Sequence[PartitionsWork], found: Sequence[_Verified | TidelogError], *, is_whole: bool
) -> Iterator[Cells]:
    verified: dict[TopicPartition, VerifiedPartition] = {}
    failed: dict[TopicPartition, TidelogError] = {}
    for work, outcome in zip(works, found, strict=True):
        if work.path != path:
            continue
        if isinstance(outcome, TidelogError):
            failed |= dict.fromkeys(work.partitions, outcome)
            continue
        verified |= {part.partition: part for part in outcome}
    for partition in sorted([*verified, *failed]):
        if partition in failed:
            yield _row(path, partition, kind=ERROR, message=str(failed[partition]))
            continue
        part = verified[partition]
        yield from (_finding(path, part, finding) for finding in part.findings)
        yield _row(path, part, kind=OUTLOOK, file=str(part.directory), message=part.outlook)
    if not is_whole:
        return
    try:
        known = {partition: _unknown(path, partition) for partition in failed} | verified
        for finding in check_small_files(ReadOnlyFileSystem(BY_PATH), path, known):
            yield _finding(path, None, finding)
    except TidelogError as error:
        yield _row(path, None, kind=ERROR, message=str(error))


def _unknown(path: Path, partition: TopicPartition) -> VerifiedPartition:
    """Of a partition that is there, and more is not known."""
    return VerifiedPartition(
        partition=partition,
        directory=path / partition.directory_name,
        findings=(),
        log_start=None,
        log_end=None,
        outlook="",
    )


def _finding(path: Path, part: VerifiedPartition | None, finding: Finding) -> Cells:
    return _row(
        path,
        part,
        kind=FINDING,
        severity=finding.severity.value,
        file=str(finding.path),
        position=finding.position,
        offset=finding.offset,
        message=finding.message,
        next_good=(finding.next_good_position, finding.next_good_offset),
    )


def _row(
    path: Path,
    part: VerifiedPartition | TopicPartition | None,
    *,
    kind: str,
    message: str,
    severity: str | None = None,
    file: str | None = None,
    position: int | None = None,
    offset: int | None = None,
    next_good: tuple[int | None, int | None] = (None, None),
) -> Cells:
    known = part if isinstance(part, VerifiedPartition) else None
    partition = part.partition if isinstance(part, VerifiedPartition) else part
    name = (None, None) if partition is None else (partition.topic, partition.partition)
    ends = (None, None) if known is None else (known.log_start, known.log_end)
    return (str(path), kind, severity, *name, file, position, offset, message, *next_good, *ends)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a JSON object a row. Exit code: 0, or 1 where there is more than notes."""
    given = job_parser("audit", "tidelog verify as a Spark job: prints a JSON object a row.").parse_args(arguments)
    rows = audit(session("tidelog audit", master=given.master), given.directories, topics=given.topic or None).collect()
    print_rows(rows)
    return int(finds_anything(rows))


if __name__ == "__main__":
    # What is sent to executors has to be of a module that they can import, which __main__ is not.
    from tidelog.spark.jobs.audit import main as run_main

    sys.exit(run_main())
