"""Metrics of the runtime: errors that are logged once and then only counted. Kafka lacks these names.

Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.runtime.metrics.description import MetricDescription, MetricFamily
from tidelog.runtime.metrics.registry import MetricRegistry
from tidelog.runtime.metrics.sample import Sample
from tidelog.runtime.scheduler import ThreadScheduler

TASK_ERRORS = MetricFamily("tidelog", "Scheduler").gauge(
    "TaskErrors",
    "errors",
    "Errors of a background task since the start; each text is logged once. Present if a task has failed.",
    "task",
)
REPORT_ERRORS = MetricFamily("tidelog", "MetricRegistry").gauge(
    "ReportErrors",
    "errors",
    "Errors of sources and gauges, which reports left out, since the start; each text is logged once.",
)

METRICS: tuple[MetricDescription, ...] = (TASK_ERRORS, REPORT_ERRORS)


def watch_runtime(registry: MetricRegistry, scheduler: ThreadScheduler) -> Callable[[], None]:
    """Report the errors of both. The returned function ends it."""

    def samples() -> Iterator[Sample]:
        for task, count in list(scheduler.errors.items()):
            yield Sample.gauge(TASK_ERRORS.named(task), count)
        yield Sample.gauge(REPORT_ERRORS.named(), registry.errors)

    return registry.add_source(samples)
