"""How far Spark's own work is, a write or a shuffle that no function of ours runs in: by the tasks that have ended.

The bytes to do are shared out over the tasks that are known yet, as if they were alike; what was told is never taken
back where more tasks come to be known.

================  ====================================================================================================
the session       whose tasks
================  ====================================================================================================
its own driver    those of the jobs that the calling thread starts meanwhile, told from a thread of its own
on Spark Connect  those that the server tells of while the calling thread waits for it, told from that thread
================  ====================================================================================================

Called by: the jobs ``export`` and ``restore``, on the driver.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tidelog.spark.jobs.progress import OnProgress
from tidelog.spark.jobs.teller import telling_now_and_then

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_GROUP = "spark.jobGroup.id"


class _Telling:
    """Tells a share of the bytes, never less than the last time."""

    def __init__(self, total_bytes: int, on_progress: OnProgress) -> None:
        self._total_bytes = total_bytes
        self._on_progress = on_progress
        self._told = 0

    def tell(self, stages: Iterable[tuple[int, int]]) -> None:
        """``stages``: of each, how many tasks it has and how many of them have ended."""
        known = list(stages)
        tasks = sum(all_tasks for all_tasks, _ in known)
        share = sum(ended for _, ended in known) / tasks if tasks else 0.0
        self._told = max(self._told, int(share * self._total_bytes))
        self._on_progress(self._told, self._total_bytes)


@contextmanager
def following(spark: SparkSession, total_bytes: int, on_progress: OnProgress | None) -> Iterator[None]:
    """While the caller's block runs; told all of ``total_bytes`` when it ends well."""
    if on_progress is None:
        yield
        return
    on_progress(0, total_bytes)
    telling = _Telling(total_bytes, on_progress)
    context = getattr(spark, "sparkContext", None)
    with _told_by_server(spark, telling) if context is None else _told_by_stages(context, telling):
        yield
    on_progress(total_bytes, total_bytes)


@contextmanager
def _told_by_stages(context: SparkContext, telling: _Telling) -> Iterator[None]:
    group, before = uuid.uuid4().hex, context.getLocalProperty(_GROUP)
    context.setLocalProperty(_GROUP, group)
    try:
        with telling_now_and_then(lambda: telling.tell(_stages(context, group))):
            yield
    finally:
        context.setLocalProperty(_GROUP, before)  # None takes it away


def _stages(context: SparkContext, group: str) -> Iterator[tuple[int, int]]:
    tracker = context.statusTracker()
    for job in map(tracker.getJobInfo, tracker.getJobIdsForGroup(group)):
        for stage in map(tracker.getStageInfo, () if job is None else job.stageIds):
            if stage is not None:
                yield stage.numTasks, stage.numCompletedTasks


@contextmanager
def _told_by_server(spark: SparkSession, telling: _Telling) -> Iterator[None]:
    caller = threading.get_ident()

    def on_stages(stages: Iterable[Any] | None, **_others: object) -> None:
        # The handlers are the session's: another thread's query has its own stages.
        if threading.get_ident() == caller:
            telling.tell((stage.num_tasks, stage.num_completed_tasks) for stage in stages or ())

    spark.registerProgressHandler(on_stages)
    try:
        yield
    finally:
        spark.removeProgressHandler(on_stages)
