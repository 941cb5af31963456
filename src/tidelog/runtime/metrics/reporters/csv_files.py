"""A reporter to CSV files, one for each metric, with a row for each poll.

The settings have defaults: ``kafka.csv.metrics.reporter.enabled`` (false), ``kafka.csv.metrics.dir``
(``kafka_metrics``), ``kafka.metrics.polling.interval.secs`` (10).

A file's name is the metric's name with its tags (``Size,topic=orders,partition=0.csv``). Yammer leaves tags out, and so
has only the first partition's file. Columns are Yammer's, by the metric's kind. ``time`` is in seconds since 1970,
because files grow over restarts. Yammer's files begin again and count from the start. **Nothing in the directory is
ever deleted or overwritten.** Kafka's reporter deletes the directory with its contents when it starts.

No file stays open between polls. A row is written completely or not at all. A full disk or a missing directory causes
one line in the log, and one more when it works again. The rows in between are missing. Thread rule: two threads never
call ``report`` at once. Source: Kafka's ``KafkaCSVMetricsReporter``.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tidelog.model.errors import ConfigError
from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.runtime.metrics.metric_name import MetricName
from tidelog.runtime.metrics.registry import MetricRegistry
from tidelog.runtime.metrics.reporters.settings import flag, whole_number
from tidelog.runtime.metrics.sample import MetricKind, Sample
from tidelog.runtime.scheduler import ScheduledTask, Scheduler

_SPREAD = {
    "min": "Min",
    "max": "Max",
    "mean": "Mean",
    "median": "50thPercentile",
    "stddev": "StdDev",
    "95%": "95thPercentile",
    "99%": "99thPercentile",
    "99.9%": "999thPercentile",
}
COLUMNS: dict[MetricKind, dict[str, str]] = {
    MetricKind.GAUGE: {"value": "Value"},
    MetricKind.METER: {
        "count": "Count",
        "1 min rate": "OneMinuteRate",
        "mean rate": "MeanRate",
        "5 min rate": "FiveMinuteRate",
        "15 min rate": "FifteenMinuteRate",
    },
    MetricKind.HISTOGRAM: _SPREAD,
    MetricKind.TIMER: _SPREAD,
}
"""The sample's value for each column, by kind. ``time`` stands before them."""

_LONGEST_NAME = 255
"""The longest file name in bytes, on every file system that a broker runs on."""

_log = logging.getLogger(__name__)


class CsvReporter:
    """A MetricsReporter."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._enabled = False
        self._directory = Path("kafka_metrics")
        self._interval_ms = 10_000
        self._registry: MetricRegistry | None = None
        self._task: ScheduledTask | None = None
        self._files: dict[MetricName, str] = {}  # the names of the last report
        self._failures: set[int | None] = set()

    def configure(self, settings: Mapping[str, str]) -> None:
        self._enabled = flag(settings, "kafka.csv.metrics.reporter.enabled", default=False)
        self._directory = Path(settings.get("kafka.csv.metrics.dir") or "kafka_metrics").absolute()
        self._interval_ms = whole_number(settings, "kafka.metrics.polling.interval.secs", default=10) * 1000

    def start(self, registry: MetricRegistry, scheduler: Scheduler) -> None:
        if not self._enabled:
            _log.info("Metrics do not go to CSV files: kafka.csv.metrics.reporter.enabled is false")
            return
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"kafka.csv.metrics.dir: {error.strerror}", path=self._directory) from error
        self._registry = registry
        self._task = scheduler.schedule(
            "csv-metrics", self.report, delay_ms=self._interval_ms, period_ms=self._interval_ms
        )
        _log.info("Metrics go to CSV files in %s every %d s", self._directory, self._interval_ms // 1000)

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None

    def report(self) -> None:
        """Append a row for each metric."""
        if self._registry is None:
            return
        failures: dict[int | None, OSError] = {}  # the first of each kind
        files: dict[MetricName, str] = {}
        taken = set(self._files.values())
        seconds = self._clock.now_ms() // 1000
        for sample in self._registry.samples():
            name = sample.name
            file = files[name] = self._files.get(name) or _new_file(name, taken)
            try:
                _append(os.path.join(self._directory, file), sample, seconds)
            except OSError as error:
                failures.setdefault(error.errno, error)
        self._files = files
        self._tell(failures)

    def _tell(self, failures: dict[int | None, OSError]) -> None:
        """Log new failures, and the end of failures."""
        for number, failure in failures.items():
            if number not in self._failures:
                _log.error("Metrics are missing from CSV files: %s (%s)", failure.strerror, failure.filename)
        if self._failures and not failures:
            _log.info("Metrics go to CSV files in %s again", self._directory)
        self._failures = set(failures)


def _new_file(name: MetricName, taken: set[str]) -> str:
    """Return the short name, or the name with group and type if another metric has the short one. Mark it as taken."""
    file = file_name(name)
    if file in taken:
        file = file_name(name, with_type=True)
    taken.add(file)
    return file


def file_name(name: MetricName, *, with_type: bool = False) -> str:
    """Return a name of letters, digits, ``_ . - ~ , =`` and escapes like ``%2F``. A name too long ends in a digest."""
    parts = [f"{name.group}.{name.type}.{name.name}" if with_type else name.name or name.type]
    parts += [f"{key}={quote(value, safe='')}" for key, value in name.tags]
    text = quote(",".join(parts), safe=",=%")
    if len(text) + len(".csv") > _LONGEST_NAME:
        text = f"{text[:200]}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    return f"{text}.csv"


def _append(path: str, sample: Sample, seconds: int) -> None:
    columns = COLUMNS[sample.kind]
    row = ",".join([str(seconds), *(str(sample.values[value]) for value in columns.values())])
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(file).st_size
        header = "" if size else f"# time,{','.join(columns)}\n"
        _write(file, f"{header}{row}\n".encode(), size)
    except OSError as error:
        error.filename = path
        raise
    finally:
        os.close(file)


def _write(file: int, data: bytes, size: int) -> None:
    """Write all of ``data``, or truncate the file to ``size`` bytes."""
    written = os.write(file, data)
    try:
        while written < len(data):  # a short write on a full disk: the next call fails
            written += os.write(file, data[written:])
    except OSError:
        os.ftruncate(file, size)
        raise
