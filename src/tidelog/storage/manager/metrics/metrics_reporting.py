"""A log manager's metrics with the reporters named in a broker's settings.

They run from before the logs are loaded until after the manager's shutdown. State: *made* (the manager receives
``on_flush``) -> ``start`` -> ``stop``. Without reporters nothing runs, and ``registry`` can still be read. Thread rule:
the same thread calls ``start`` and ``stop``. A forked child may only call ``stop``.
"""

from __future__ import annotations

from collections.abc import Callable

from tidelog.config.broker_config import BrokerConfig
from tidelog.runtime import Clock, Scheduler, ThreadScheduler
from tidelog.runtime.metrics import MetricRegistry
from tidelog.runtime.metrics.reporters import load_reporters
from tidelog.runtime.metrics.runtime_metrics import watch_runtime
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.metrics.manager_metrics import ManagerMetrics


class MetricsReporting:
    def __init__(self, broker: BrokerConfig, clock: Clock) -> None:
        """The reporters are loaded here. A reporter that cannot be loaded or rejects its settings is a ConfigError."""
        self.reporters = load_reporters({key: setting.text for key, setting in broker.settings.items()})
        self.registry = MetricRegistry(clock=clock)
        self._of_manager = ManagerMetrics(self.registry)
        self._forget_runtime: Callable[[], None] = lambda: None
        self.on_flush = self._of_manager.on_flush

    def start(self, manager: LogManager, scheduler: Scheduler) -> None:
        """Start reporting with a started ``scheduler``. Raise ConfigError if a reporter fails; then none runs."""
        self._of_manager.watch(manager, scheduler if self.reporters.reporters else None)
        if isinstance(scheduler, ThreadScheduler):
            self._forget_runtime = watch_runtime(self.registry, scheduler)
        self.reporters.start(self.registry, scheduler)

    def stop(self) -> None:
        """Stop reporting. The call is idempotent."""
        self.reporters.stop()
        self._forget_runtime()
        self._of_manager.close()
