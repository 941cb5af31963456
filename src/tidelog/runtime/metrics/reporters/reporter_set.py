"""The reporters of a process, which start and stop together even if one of them fails.

Thread rule: one thread at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from tidelog.runtime.metrics.registry import MetricRegistry
from tidelog.runtime.metrics.reporter import MetricsReporter
from tidelog.runtime.scheduler import Scheduler

_log = logging.getLogger(__name__)


class ReporterSet:
    def __init__(self, reporters: Sequence[MetricsReporter] = ()) -> None:
        self.reporters = tuple(reporters)

    def start(self, registry: MetricRegistry, scheduler: Scheduler) -> None:
        """Start all reporters. If one fails, stop them and raise its error."""
        try:
            for reporter in self.reporters:
                reporter.start(registry, scheduler)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all reporters and log their failures. Idempotent."""
        for reporter in self.reporters:
            try:
                reporter.stop()
            except Exception:
                _log.exception("The metrics reporter %s does not stop as it should", type(reporter).__name__)
