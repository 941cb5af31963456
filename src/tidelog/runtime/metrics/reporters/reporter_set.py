"""The reporters of a process: their creation from the settings, and their common start and stop.

``kafka.metrics.reporters`` names them:

=================================================  ==================================================================
name                                               reporter
=================================================  ==================================================================
``csv``, ``kafka.metrics.KafkaCSVMetricsReporter``  CSV files
``prometheus``                                     Prometheus, over HTTP
``org.apache.kafka.common.metrics.JmxReporter``    none, and a line in the log: there is no JMX without a JVM
``module.Class``, ``module:Class``                 a user's: a class with the methods of MetricsReporter
=================================================  ==================================================================

Thread rule: one thread at a time. Source: Kafka's ``KafkaMetricsReporter.startReporters``.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping, Sequence

from tidelog.model.errors import ConfigError, TidelogError
from tidelog.runtime.metrics.registry import MetricRegistry
from tidelog.runtime.metrics.reporter import MetricsReporter
from tidelog.runtime.scheduler import Scheduler

KEY = "kafka.metrics.reporters"

_CSV = "tidelog.runtime.metrics.reporters.csv_files:CsvReporter"
KNOWN = {
    "csv": _CSV,
    "kafka.metrics.KafkaCSVMetricsReporter": _CSV,
    "prometheus": "tidelog.runtime.metrics.reporters.prometheus:PrometheusReporter",
}
WITHOUT_JVM = ("org.apache.kafka.common.metrics.JmxReporter",)
METHODS = ("configure", "start", "stop")

_log = logging.getLogger(__name__)


class ReporterSet:
    """Reporters that start and stop together, even if one of them fails."""

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


def load_reporters(settings: Mapping[str, str]) -> ReporterSet:
    """Create the reporters from the broker's settings. Raise ConfigError if a class is missing or refuses them."""
    names = [name for part in settings.get(KEY, "").split(",") if (name := part.strip())]
    reporters = []
    for name in dict.fromkeys(names):
        if name in WITHOUT_JVM:
            _log.info("%s: %s is left out, there is no JMX without a JVM; csv and prometheus report too", KEY, name)
        else:
            reporters.append(_made(name, settings))
    return ReporterSet(reporters)


def _made(name: str, settings: Mapping[str, str]) -> MetricsReporter:
    try:
        reporter: MetricsReporter = _class_of(name)()
        reporter.configure(settings)
    except TidelogError:
        raise
    except Exception as error:
        raise ConfigError(f"{KEY}: {name} cannot be made: {type(error).__name__}: {error}") from error
    return reporter


def _class_of(name: str) -> type[MetricsReporter]:
    module_name, _, class_name = KNOWN.get(name, name).replace(":", ".").rpartition(".")
    if not module_name:
        raise ConfigError(f"{KEY}: {name!r} is neither {', '.join(KNOWN)} nor module.Class")
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # the module's own code runs, and may raise anything
        raise ConfigError(f"{KEY}: cannot import {module_name!r} for {name!r}: {error}") from error
    found = getattr(module, class_name, None)
    if not isinstance(found, type):
        raise ConfigError(f"{KEY}: module {module_name!r} has no class {class_name!r}")
    missing = [method for method in METHODS if not callable(getattr(found, method, None))]
    if missing:
        raise ConfigError(f"{KEY}: {name} is no reporter, it lacks {', '.join(missing)}")
    return found
