"""The planning of directories, one task each, for jobs that change directories.

The jobs ``recover`` and ``compact`` run it on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from tidelog.model import TidelogError, TopicPartition
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.log.view.partitions import live_partitions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
