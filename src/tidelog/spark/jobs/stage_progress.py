"""The progress of Spark's own work (a write, a shuffle), measured by the tasks that have ended.

No tidelog function runs in that work. The bytes are divided equally among the tasks known so far. The reported progress
never decreases when more tasks become known.

================  ====================================================================================================
the session       the tasks counted
================  ====================================================================================================
its own driver    tasks of jobs that the calling thread starts meanwhile, reported from a separate thread
on Spark Connect  tasks that the server reports while the calling thread waits for it, reported from that thread
================  ====================================================================================================

The jobs ``export`` and ``restore`` use it on the driver.
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
    """The reporter of a share of the bytes, which never decreases."""

    def __init__(self, total_bytes: int, on_progress: OnProgress) -> None:
        self._total_bytes = total_bytes
        self._on_progress = on_progress
        self._told = 0

    def tell(self, stages: Iterable[tuple[int, int]]) -> None:
        """Report progress. ``stages`` holds, for each stage, the number of its tasks and of its ended tasks."""
        known = list(stages)
        tasks = sum(all_tasks for all_tasks, _ in known)
        share = sum(ended for _, ended in known) / tasks if tasks else 0.0
        self._told = max(self._told, int(share * self._total_bytes))
        self._on_progress(self._told, self._total_bytes)


@contextmanager
def following(spark: SparkSession, total_bytes: int, on_progress: OnProgress | None) -> Iterator[None]:
    """Report progress while the caller's block runs. If it ends without an error, report all of ``total_bytes``."""
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
        context.setLocalProperty(_GROUP, before)  # None removes the property


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
        # The session has the handlers, so ignore the stages of other threads' queries.
        if threading.get_ident() == caller:
            telling.tell((stage.num_tasks, stage.num_completed_tasks) for stage in stages or ())

    spark.registerProgressHandler(on_stages)
    try:
        yield
    finally:
        spark.removeProgressHandler(on_stages)
