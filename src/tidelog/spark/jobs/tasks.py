"""Python work as Spark tasks: values out, values back, an error of one piece of work for that piece alone.

The works are rows of a table with a partition for each, and what runs is a function of Spark's SQL, so a session of any
kind does it: one that is its own driver, and one that talks to a Spark Connect server, which has no ``SparkContext``.
Progress moves when a task ends (``task_progress``). Called by: jobs, on the driver. What is run is a function of a
module, as the executors import it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tidelog.model import TidelogError
from tidelog.spark.jobs.task_progress import Advance, telling
from tidelog.spark.worker.speaking_up import speaking_reduce
from tidelog.spark.worker.zip_finders import forget_zip_finders

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
    """What ``run`` returned for each of ``works``, or the TidelogError that it raised; a task each.

    ``size``: what a piece of work adds to the progress, in bytes.
    """
    from pyspark.sql.functions import udf

    if not works:
        return []
    sizes = [size(work) for work in works]
    with telling(spark, sizes, advance) as done:
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
    """``id`` and ``work``: a range has as many partitions as it is asked for; a join with a broadcast keeps them."""
    from pyspark.sql.functions import broadcast

    rows = [(number, pickle.dumps(value)) for number, value in enumerate(values)]
    table = spark.createDataFrame(rows, "id bigint, work binary")
    return spark.range(0, len(rows), 1, len(rows)).join(broadcast(table), "id")


class _Task:
    """What an executor calls with a row; one that lacks tidelog says so."""

    def __init__(self, run: Callable[[Any], object], done: Accumulator[int] | None) -> None:
        self._run = run
        self._done = done

    def __call__(self, pickled: bytes) -> bytes:
        work, size = pickle.loads(pickled)
        found = outcome(self._run, work)
        if self._done is not None:
            self._done.add(size)
        forget_zip_finders()
        return pickle.dumps(found)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return speaking_reduce(type(self), self._run, self._done)
