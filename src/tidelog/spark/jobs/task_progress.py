"""The progress of a job's tasks in bytes, reported as they end.

Thread rule: one call at a time, from a thread other than the job's.

================  ============================================================================================
the session       the source
================  ============================================================================================
its own driver    an accumulator, to which each task adds its size
on Spark Connect  the server's count of ended tasks; they are assumed to be the first ones, since Spark starts
                  tasks in that sequence
================  ============================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tidelog.runtime.progress import Advance
from tidelog.spark.jobs.teller import telling_now_and_then

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession


@contextmanager
def telling(spark: SparkSession, sizes: Sequence[int], advance: Advance | None) -> Iterator[Accumulator[int] | None]:
    """Report progress while tasks of these sizes run. Yield the accumulator for their sizes if there is one."""
    if advance is None:
        yield None
    elif hasattr(spark, "sparkContext"):
        with _told_by_tasks(spark, advance) as done:
            yield done
    else:
        with _told_by_server(spark, sizes, advance):
            yield None


@contextmanager
def _told_by_tasks(spark: SparkSession, advance: Advance) -> Iterator[Accumulator[int]]:
    done = spark.sparkContext.accumulator(0)
    told = 0

    def tell() -> None:
        nonlocal told
        now = done.value
        advance(now - told)
        told = now

    try:
        with telling_now_and_then(tell):
            yield done
    finally:
        tell()


@contextmanager
def _told_by_server(spark: SparkSession, sizes: Sequence[int], advance: Advance) -> Iterator[None]:
    bytes_by_tasks = list(accumulate(sizes, initial=0))
    told = 0

    def tell(tasks_done: int) -> None:
        nonlocal told
        now = max(told, bytes_by_tasks[tasks_done])
        advance(now - told)
        told = now

    def on_progress(stages: Iterable[Any] | None, **_others: object) -> None:
        ours = [stage for stage in stages or () if stage.num_tasks == len(sizes)]
        tell(max((stage.num_completed_tasks for stage in ours), default=0))

    spark.registerProgressHandler(on_progress)
    try:
        yield
        tell(len(sizes))
    finally:
        spark.removeProgressHandler(on_progress)
