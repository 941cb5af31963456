"""The progress of a job in bytes. ``OnProgress`` receives the bytes done and the total.

================  ================================================  ==================================================
the session       tasks of ours (``task_progress``)                 Spark's own work, such as a write or a shuffle
                                                                    (``stage_progress``)
================  ================================================  ==================================================
its own driver    an accumulator, to which each task adds its size  tasks of jobs that the calling thread starts
                                                                    meanwhile, reported from a background thread
on Spark Connect  the server's count of ended tasks; they are       tasks that the server reports while the calling
                  assumed to be the first ones, since Spark starts  thread waits for it, reported from that thread
                  tasks in that sequence
================  ================================================  ==================================================

No tidelog function runs in Spark's own work. So its bytes are divided equally among the tasks known so far, and the
reported progress never decreases when more tasks become known.

Thread rule: on the driver, one call at a time.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from tidelog.runtime.progress import Advance

if TYPE_CHECKING:
    from pyspark import Accumulator, SparkContext
    from pyspark.sql import SparkSession

OnProgress = Callable[[int, int], None]
"""A function that receives the bytes done and the total, first with 0 bytes done."""

_STEP_SECONDS = 0.5
_GROUP = "spark.jobGroup.id"


def advancing(on_progress: OnProgress | None, total_bytes: int) -> Advance | None:
    """Return the callback that ``run_tasks`` calls after each step, or None without ``on_progress``."""
    if on_progress is None:
        return None
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, total_bytes)

    advance(0)
    return advance


@contextmanager
def task_progress(
    spark: SparkSession, sizes: Sequence[int], advance: Advance | None
) -> Iterator[Accumulator[int] | None]:
    """Report progress while tasks of these sizes run. Yield the accumulator for their sizes if there is one."""
    if advance is None:
        yield None
    elif hasattr(spark, "sparkContext"):
        with _accumulated(spark, advance) as done:
            yield done
    else:
        with _counted_by_server(spark, sizes, advance):
            yield None


@contextmanager
def stage_progress(spark: SparkSession, total_bytes: int, on_progress: OnProgress | None) -> Iterator[None]:
    """Report progress while the caller's block runs. If it ends without an error, report all of ``total_bytes``."""
    if on_progress is None:
        yield
        return
    on_progress(0, total_bytes)
    share = _Share(total_bytes, on_progress)
    context = getattr(spark, "sparkContext", None)
    with _stages_of_server(spark, share) if context is None else _stages_of_context(context, share):
        yield
    on_progress(total_bytes, total_bytes)


@contextmanager
def _reporting(report: Callable[[], None]) -> Iterator[None]:
    """Call ``report`` at intervals in a background thread while the block runs, and never after it."""
    ended = threading.Event()

    def report_until_ended() -> None:
        while not ended.wait(_STEP_SECONDS):
            report()

    reporter = threading.Thread(target=report_until_ended, name="progress", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join()


@contextmanager
def _accumulated(spark: SparkSession, advance: Advance) -> Iterator[Accumulator[int]]:
    done = spark.sparkContext.accumulator(0)
    reported = 0

    def report() -> None:
        nonlocal reported
        now = done.value
        advance(now - reported)
        reported = now

    try:
        with _reporting(report):
            yield done
    finally:
        report()


@contextmanager
def _counted_by_server(spark: SparkSession, sizes: Sequence[int], advance: Advance) -> Iterator[None]:
    bytes_by_tasks = list(accumulate(sizes, initial=0))
    reported = 0

    def report(tasks_done: int) -> None:
        nonlocal reported
        now = max(reported, bytes_by_tasks[tasks_done])
        advance(now - reported)
        reported = now

    def on_stages(stages: Iterable[Any] | None, **_others: object) -> None:
        ours = [stage for stage in stages or () if stage.num_tasks == len(sizes)]
        report(max((stage.num_completed_tasks for stage in ours), default=0))

    spark.registerProgressHandler(on_stages)
    try:
        yield
        report(len(sizes))
    finally:
        spark.removeProgressHandler(on_stages)


class _Share:
    """The reporter of a share of the bytes, which never decreases."""

    def __init__(self, total_bytes: int, on_progress: OnProgress) -> None:
        self._total_bytes = total_bytes
        self._on_progress = on_progress
        self._reported = 0

    def report(self, stages: Iterable[tuple[int, int]]) -> None:
        """Report progress. ``stages`` holds, for each stage, the number of its tasks and of its ended tasks."""
        known = list(stages)
        tasks = sum(all_tasks for all_tasks, _ in known)
        share = sum(ended for _, ended in known) / tasks if tasks else 0.0
        self._reported = max(self._reported, int(share * self._total_bytes))
        self._on_progress(self._reported, self._total_bytes)


@contextmanager
def _stages_of_context(context: SparkContext, share: _Share) -> Iterator[None]:
    group, before = uuid.uuid4().hex, context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, group)
    try:
        with _reporting(lambda: share.report(_stages(context, group))):
            yield
    finally:
        context.setLocalProperty(_GROUP, before)  # None removes the property


def _stages(context: SparkContext, group: str) -> Iterator[tuple[int, int]]:
    tracker = context.statusTracker()
    for job in map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)):
        for stage in map(tracker.getStageInfo, () if job is None else job.stageIds):
            if stage is not None:
                yield stage.numTasks, stage.numCompletedTasks


@contextmanager
def _stages_of_server(spark: SparkSession, share: _Share) -> Iterator[None]:
    caller = threading.get_ident()

    def on_stages(stages: Iterable[Any] | None, **_others: object) -> None:
        # The session has the handlers, so ignore the stages of other threads' queries.
        if threading.get_ident() == caller:
            share.report((stage.num_tasks, stage.num_completed_tasks) for stage in stages or ())

    spark.registerProgressHandler(on_stages)
    try:
        yield
    finally:
        spark.removeProgressHandler(on_stages)
