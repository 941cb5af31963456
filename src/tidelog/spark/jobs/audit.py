"""The Spark job for ``tidelog verify`` over many log directories, with a table as the result.

It checks every CRC, index, snapshot and checkpoint. A row's ``kind``:

=============  =======================================================================================================
``finding``    a finding with its severity, in a partition or in the log directory's own files
``outlook``    one row for each partition: a broker's actions on it at the next start, and its log end
``error``      a partition or a directory that could not be checked
=============  =======================================================================================================

Tasks read the partitions, about 128 MiB per task. A partition is never divided, however large. The driver compares the
checkpoints with the tasks' results. Nothing is written, and a live broker may hold the directories. They must be
visible under the same path to the driver and to every executor.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.inspect.verify import Finding, Severity, verify_directory
from tidelog.inspect.verify.directory_check import VerifiedPartition, check_small_files
from tidelog.model import TidelogError, TopicPartition
from tidelog.spark.jobs.progress import OnProgress, advancing
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.spark.jobs.work import PartitionsWork, require_directories, works_of
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
    """Check the directories and return rows by directory, with the rows of its own files last. With ``topics``, only
    the partitions of those topics are checked. Raise DirectoryError for a path that is no log directory."""
    paths = require_directories(directories)
    works = works_of(paths, topics)
    advance = advancing(on_progress, sum(work.log_bytes for work in works))
    found = run_tasks(spark, works, _verify, size=lambda work: work.log_bytes, advance=advance)
    rows = [row for path in paths for row in _rows(path, works, found, is_whole=topics is None)]
    return spark.createDataFrame(rows, SCHEMA)


def finds_anything(rows: Iterable[Any]) -> bool:
    """Return True if collected rows, or dictionaries of them, hold more than notes and outlooks."""
    return any(row["kind"] == ERROR or row["severity"] not in _SOUND for row in rows)


def _verify(work: PartitionsWork) -> _Verified:
    """Check partitions inside a Spark task."""
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
    """Return a stand-in for a partition that exists but could not be checked."""
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
