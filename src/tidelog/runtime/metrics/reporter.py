"""What carries metrics elsewhere. Users may bring their own: ``kafka.metrics.reporters`` names the class.

State: *made* (without arguments) -> *configured* -> *started* -> *stopped*. Called by: ``reporters.loading``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from tidelog.runtime.metrics.registry import MetricRegistry
from tidelog.runtime.scheduler import Scheduler


class MetricsReporter(Protocol):
    def configure(self, settings: Mapping[str, str]) -> None:
        """``settings``: the broker's, by key, as they are written in its file. ConfigError for what cannot be used."""
        ...

    def start(self, registry: MetricRegistry, scheduler: Scheduler) -> None:
        """Report from now on; what is to be done every so often belongs on ``scheduler``, which is started."""
        ...

    def stop(self) -> None:
        """Report no more; idempotent, also where it was not started."""
        ...
