"""The interface of a metrics reporter. ``kafka.metrics.reporters`` may also name a user's class.

A reporter is *made* (without arguments), then *configured*, *started* and *stopped*.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tidelog.runtime.metrics.registry import MetricRegistry
from tidelog.runtime.scheduler import Scheduler


class MetricsReporter(Protocol):
    def configure(self, settings: Mapping[str, str]) -> None:
        """Apply the broker's settings, by key, as written in its file. Raise ConfigError for an unusable one."""
        ...

    def start(self, registry: MetricRegistry, scheduler: Scheduler) -> None:
        """Begin to report. Periodic work belongs on ``scheduler``, which is started."""
        ...

    def stop(self) -> None:
        """End all reports. This is idempotent, and allowed before ``start``."""
        ...
