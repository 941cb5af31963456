"""The metrics of a log manager and the reporters that a broker's settings name, from before its logs are loaded until
after it has ended.

State: *made* (``on_flush`` goes to the manager) -> ``start`` -> ``stop``. Without reporters nothing runs; ``registry``
can be asked all the same.
Called by: KeptDirectories. Thread rule: ``start`` and ``stop`` by one thread. A forked child may only ``stop``.
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
        """ConfigError for reporters that cannot be had, or do not take their settings."""
        self.reporters = load_reporters({key: setting.text for key, setting in broker.settings.items()})
        self.registry = MetricRegistry(clock=clock)
        self._of_manager = ManagerMetrics(self.registry)
        self._forget_runtime: Callable[[], None] = lambda: None
        self.on_flush = self._of_manager.on_flush

    def start(self, manager: LogManager, scheduler: Scheduler) -> None:
        """``scheduler``: started. ConfigError where a reporter does not start; none is left running then."""
        self._of_manager.watch(manager, scheduler if self.reporters.reporters else None)
        if isinstance(scheduler, ThreadScheduler):
            self._forget_runtime = watch_runtime(self.registry, scheduler)
        self.reporters.start(self.registry, scheduler)

    def stop(self) -> None:
        """Idempotent."""
        self.reporters.stop()
        self._forget_runtime()
        self._of_manager.close()
