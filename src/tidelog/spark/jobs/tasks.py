"""Python work as Spark tasks: values out, values back, an error of one piece of work for that piece alone.

Progress moves when a task ends, as Spark's accumulators do; it is told from a thread of its own, one call at a time.
Called by: jobs, on the driver. What is run is a function of a module, as the executors import it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from tidelog.model import TidelogError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

W = TypeVar("W")
R = TypeVar("R")

Advance = Callable[[int], None]
"""Told how many bytes were done since the last call."""

_STEP_SECONDS = 0.5


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
    if not works:
        return []
    context = spark.sparkContext
    done = context.accumulator(0)

    def run_one(sized: tuple[W, int]) -> R | TidelogError:
        found = outcome(run, sized[0])
        done.add(sized[1])
        return found

    tasks = context.parallelize([(work, size(work)) for work in works], len(works)).map(run_one)
    with _telling(lambda: done.value, advance):
        found: list[R | TidelogError] = tasks.collect()
    return found


def outcome(run: Callable[[W], R], work: W) -> R | TidelogError:
    try:
        return run(work)
    except TidelogError as error:
        return error


@contextmanager
def _telling(bytes_done: Callable[[], int], advance: Advance | None) -> Iterator[None]:
    if advance is None:
        yield
        return
    told = 0
    ended = threading.Event()

    def tell() -> None:
        nonlocal told
        now = bytes_done()
        advance(now - told)
        told = now

    def tell_now_and_then() -> None:
        while not ended.wait(_STEP_SECONDS):
            tell()

    teller = threading.Thread(target=tell_now_and_then, name="progress", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        tell()
