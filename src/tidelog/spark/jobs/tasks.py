"""Python work as Spark tasks: values out, values back, an error of one piece of work for that piece alone.

Called by: jobs, on the driver. What is run is a function of a module, as the executors import it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tidelog.model import TidelogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

W = TypeVar("W")
R = TypeVar("R")


def run_tasks(spark: SparkSession, works: Sequence[W], run: Callable[[W], R]) -> list[R | TidelogError]:
    """What ``run`` returned for each of ``works``, or the TidelogError that it raised; a task each."""
    if not works:
        return []
    found: list[R | TidelogError] = (
        spark.sparkContext.parallelize(works, len(works)).map(lambda work: outcome(run, work)).collect()
    )
    return found


def outcome(run: Callable[[W], R], work: W) -> R | TidelogError:
    try:
        return run(work)
    except TidelogError as error:
        return error
