"""How far Spark's own work is, a write or a shuffle that no function of ours runs in: by the tasks that have ended.

The bytes to do are shared out over the tasks of the jobs that the calling thread starts meanwhile, as if they were
alike; they are told from a thread of its own. A Spark Connect session does not say, so nothing is told there.

Called by: the jobs ``export`` and ``restore``, on the driver.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tidelog.spark.jobs.progress import OnProgress

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

_STEP_SECONDS = 0.5
_GROUP = "spark.jobGroup.id"


@contextmanager
def following(spark: SparkSession, total_bytes: int, on_progress: OnProgress | None) -> Iterator[None]:
    """While the caller's block runs; told all of ``total_bytes`` when it ends well."""
    if on_progress is None:
        yield
        return
    on_progress(0, total_bytes)
    context = getattr(spark, "sparkContext", None)
    if context is None:
        yield
    else:
        with _told_by_stages(context, total_bytes, on_progress):
            yield
    on_progress(total_bytes, total_bytes)


@contextmanager
def _told_by_stages(context: SparkContext, total_bytes: int, on_progress: OnProgress) -> Iterator[None]:
    group, before = uuid.uuid4().hex, context.getLocalProperty(_GROUP)
    ended = threading.Event()

    def tell_now_and_then() -> None:
        told = 0
        while not ended.wait(_STEP_SECONDS):
            told = max(told, int(_share_done(context, group) * total_bytes))
            on_progress(told, total_bytes)

    teller = threading.Thread(target=tell_now_and_then, name="progress", daemon=True)
    context.setLocalProperty(_GROUP, group)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()
        context.setLocalProperty(_GROUP, before)  # None takes it away


def _share_done(context: SparkContext, group: str) -> float:
    """0 to 1, of the tasks that are known yet."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
    known = [stage for stage in stages if stage is not None]
    tasks = sum(stage.numTasks for stage in known)
    return sum(stage.numCompletedTasks for stage in known) / tasks if tasks else 0.0
