"""Python work as Spark tasks: values in, values out, and an error affects only its own piece of work.

The works are rows of a table with one partition each, and a function of Spark's SQL runs them. So any session works:
with its own driver, or on a Spark Connect server, which has no ``SparkContext``. Progress moves when a task ends
(``task_progress``). The function must be a module's, since executors import it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.model import TidelogError
from tidelog.runtime.progress import Advance
from tidelog.spark.jobs.progress import task_progress
from tidelog.spark.worker import clear_zipimport_cache, reduce_with_import_hint

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import DataFrame, SparkSession

W = TypeVar("W")
R = TypeVar("R")


def run_tasks(
    spark: SparkSession,
    works: Sequence[W],
    run: Callable[[W], R],
    *,
    size: Callable[[W], int] = lambda _work: 0,
    advance: Advance | None = None,
) -> list[R | TidelogError]:
    """Return, for each of ``works``, the result of ``run`` or the TidelogError it raised. Each work is a task.

    ``size`` is the number of bytes that a piece of work adds to the progress.
    """
    from pyspark.sql.functions import udf

    if not works:
        return []
    sizes = [size(work) for work in works]
    with task_progress(spark, sizes, advance) as done:
        task = udf(_Task(run, done), "binary", useArrow=False).asNondeterministic()
        rows = one_a_partition(spark, list(zip(works, sizes, strict=True))).select("id", task("work")).collect()
    found = {number: pickle.loads(pickled) for number, pickled in rows}
    return [found[number] for number in range(len(works))]


def outcome(run: Callable[[W], R], work: W) -> R | TidelogError:
    try:
        return run(work)
    except TidelogError as error:
        return error


def one_a_partition(spark: SparkSession, values: Sequence[object]) -> DataFrame:
    """Return rows of ``id`` and ``work``, one per partition. A range gets the requested number of partitions, and a
    broadcast join keeps them."""
    from pyspark.sql.functions import broadcast

    rows = [(number, pickle.dumps(value)) for number, value in enumerate(values)]
    table = spark.createDataFrame(rows, "id bigint, work binary")
    return spark.range(0, len(rows), 1, len(rows)).join(broadcast(table), "id")


class _Task:
    """The function that an executor calls with a row. An executor without tidelog reports that it is missing."""

    def __init__(self, run: Callable[[Any], object], done: Accumulator[int] | None) -> None:
        self._run = run
        self._done = done

    def __call__(self, pickled: bytes) -> bytes:
        work, size = pickle.loads(pickled)
        found = outcome(self._run, work)
        if self._done is not None:
            self._done.add(size)
        clear_zipimport_cache()
        return pickle.dumps(found)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return reduce_with_import_hint(type(self), self._run, self._done)
