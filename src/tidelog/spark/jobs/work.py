"""Work for Spark's tasks over many log directories, made by the driver.

==============  =======================================================================================================
``works_of``    partitions of one directory, together about a task's worth, for jobs that read each partition on its
                own (``audit``, ``count``)
``plan_each``   a directory to plan, one task each, for jobs that change directories (``recover``, ``compact``)
==============  =======================================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tidelog.model import FileMissingError, TidelogError, TopicPartition
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.spark.read.whole_partition import PARTITION_BYTES
from tidelog.storage.fs import BY_PATH, LOCAL, FileSystem, path_of
from tidelog.storage.log.view.partitions import live_partitions, require_log_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

TASK_BYTES = 128 * 1024 * 1024
"""A task's worth: seconds of reading, against the milliseconds that a task costs. A partition is never divided."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsWork:
    path: Path
    partitions: tuple[TopicPartition, ...]
    log_bytes: int
    """The bytes of ``.log`` files, as the progress counts them."""


def require_directories(directories: str | Path | Iterable[str | Path]) -> list[Path]:
    """Return the paths. Raise DirectoryError or FileMissingError for a path that is no log directory."""
    given = [directories] if isinstance(directories, str | Path) else list(directories)
    paths = [path_of(path) for path in given]
    for path in paths:
        require_log_directory(BY_PATH, path)
    return paths


def works_of(paths: Iterable[Path], topics: Collection[str] | None = None) -> list[PartitionsWork]:
    """Return work for all partitions, or those of ``topics``, largest first, so that no long work begins last."""
    works = []
    for path in paths:
        partitions = [part for part in live_partitions(BY_PATH, path) if topics is None or part.topic in topics]
        sizes = {partition: _log_bytes(path / partition.directory_name) for partition in partitions}
        works += [
            PartitionsWork(path=path, partitions=together, log_bytes=sum(sizes[part] for part in together))
            for together in in_tasks(partitions, sizes.__getitem__)
        ]
    return sorted(works, key=lambda work: -work.log_bytes)


def in_tasks(partitions: Iterable[T], size: Callable[[T], int]) -> Iterator[tuple[T, ...]]:
    """Group neighbours as long as they are no more than a task's worth. ``size`` is in bytes."""
    pending: list[T] = []
    cost = 0
    for partition in partitions:
        own = PARTITION_BYTES + size(partition)
        if pending and cost + own > TASK_BYTES:
            yield tuple(pending)
            pending, cost = [], 0
        pending.append(partition)
        cost += own
    if pending:
        yield tuple(pending)


def _log_bytes(directory: Path) -> int:
    try:
        sizes = BY_PATH.list_sizes(directory)
    except FileMissingError:
        return 0  # deleted since it was listed, and its task reports it
    return sum(max(0, size) for name, size in sizes.items() if name.endswith(".log"))


Options = TypeVar("Options", contravariant=True)
Plan = TypeVar("Plan", covariant=True)


class MakePlan(Protocol[Options, Plan]):
    """A module-level function, since executors import it. ``only`` names the partitions, None for all."""

    def __call__(
        self,
        fs: FileSystem,
        path: Path,
        options: Options,
        *,
        only: Sequence[TopicPartition] | None,
        held_here: bool,
    ) -> Plan: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planning:
    """The input of a task that plans a directory."""

    make: MakePlan[Any, Any]
    path: Path
    options: Any
    topics: frozenset[str] | None
    held_here: bool


def plan_each(
    spark: SparkSession,
    make: MakePlan[Options, Plan],
    options: Mapping[Path, Options],
    *,
    topics: frozenset[str] | None = None,
    held_here: bool,
) -> dict[Path, Plan | TidelogError]:
    """Plan each directory that has ``options``. ``held_here`` is True if the driver holds their locks."""
    works = [
        _Planning(make=make, path=path, options=of, topics=topics, held_here=held_here) for path, of in options.items()
    ]
    return dict(zip(options, run_tasks(spark, works, _plan), strict=True))


def _plan(work: _Planning) -> Any:
    """Plan a directory inside a Spark task."""
    only = None
    if work.topics is not None:
        only = [part for part in live_partitions(LOCAL, work.path) if part.topic in work.topics]
    return work.make(LOCAL, work.path, work.options, only=only, held_here=work.held_here)
