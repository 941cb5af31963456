"""The metrics of a process: named metrics, and sources that are read when a report is made.

A source costs nothing between reports, and its samples of a thing (a deleted partition) disappear with the thing. A
failing source or gauge leaves its samples out. The error is counted, and each text is logged once. Of two samples with
one name, the first is reported. Thread rule: any thread. A report holds no lock while it reads.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.runtime.metrics.histogram import Histogram
from tidelog.runtime.metrics.meter import Meter
from tidelog.runtime.metrics.metric_name import MetricName
from tidelog.runtime.metrics.sample import MetricKind, Sample
from tidelog.runtime.metrics.timer import Timer
from tidelog.runtime.repeated_errors import RepeatedErrors

Source = Callable[[], Iterable[Sample]]
Measured = TypeVar("Measured", Meter, Histogram, Timer)

_KINDS = {Meter: MetricKind.METER, Histogram: MetricKind.HISTOGRAM, Timer: MetricKind.TIMER}

_log = logging.getLogger(__name__)


class MetricRegistry:
    def __init__(self, *, clock: Clock = SYSTEM_CLOCK, random: Callable[[], float] = random.random) -> None:
        """``random`` gives numbers in [0, 1), for the reservoirs of histograms and timers."""
        self._clock = clock
        self._random = random
        self._lock = threading.Lock()
        self._named: dict[MetricName, Callable[[], int | float] | Meter | Histogram | Timer] = {}
        self._sources: dict[object, Source] = {}
        self._errors = RepeatedErrors(_log, "The metrics of %s are missing from reports: %s")

    def add_source(self, source: Source) -> Callable[[], None]:
        """Read ``source`` at each report, before the named metrics, which it may update. The result removes it."""
        key = object()
        with self._lock:
            self._sources[key] = source

        def remove() -> None:
            with self._lock:
                self._sources.pop(key, None)

        return remove

    def gauge(self, name: MetricName, read: Callable[[], int | float]) -> None:
        """Call ``read`` at each report. Replace a gauge of this name. Raise ValueError if another kind has the name."""
        with self._lock:
            if isinstance(self._named.get(name), Meter | Histogram | Timer):
                raise _already_there(name)
            self._named[name] = read

    def meter(self, name: MetricName) -> Meter:
        """Return the meter of this name, and create it if missing. Raise ValueError if another kind has the name."""
        return self._keep(name, Meter, lambda: Meter(self._clock))

    def histogram(self, name: MetricName) -> Histogram:
        """Return a histogram; see ``meter``."""
        return self._keep(name, Histogram, lambda: Histogram(self._clock, self._random))

    def timer(self, name: MetricName) -> Timer:
        """Return a timer; see ``meter``."""
        return self._keep(name, Timer, lambda: Timer(self._clock, self._random))

    def remove(self, name: MetricName) -> None:
        """Remove a metric. A missing one is a no-op."""
        with self._lock:
            self._named.pop(name, None)

    @property
    def errors(self) -> int:
        """The number of failures of sources and gauges so far."""
        return self._errors.counts.total()

    def samples(self) -> Iterator[Sample]:
        """Yield the current sample of every metric."""
        seen: set[MetricName] = set()
        for sample in self._all():
            if sample.name not in seen:
                seen.add(sample.name)
                yield sample

    def measured(self) -> list[Sample]:
        """Return the samples of meters, histograms and timers alone. Sources, which may be long, are not read."""
        with self._lock:
            named = list(self._named.items())
        return [
            Sample(name, _KINDS[type(metric)], metric.values())
            for name, metric in named
            if isinstance(metric, Meter | Histogram | Timer)
        ]

    def _all(self) -> Iterator[Sample]:
        with self._lock:
            sources = list(self._sources.values())
        for source in sources:
            try:
                yield from source()
            except Exception as error:
                self._errors.note(getattr(source, "__qualname__", type(source).__name__), error)
        with self._lock:
            named = list(self._named.items())
        for name, metric in named:
            if (sample := self._read(name, metric)) is not None:
                yield sample

    def _keep(self, name: MetricName, kind: type[Measured], make: Callable[[], Measured]) -> Measured:
        with self._lock:
            metric = self._named.get(name)
            if metric is None:
                metric = self._named[name] = make()
            if not isinstance(metric, kind):
                raise _already_there(name)
            return metric

    def _read(self, name: MetricName, metric: Callable[[], int | float] | Meter | Histogram | Timer) -> Sample | None:
        if isinstance(metric, Meter | Histogram | Timer):
            return Sample(name, _KINDS[type(metric)], metric.values())
        try:
            return Sample.gauge(name, metric())
        except Exception as error:
            self._errors.note(str(name), error)
            return None


def _already_there(name: MetricName) -> ValueError:
    return ValueError(f"there is a metric of another kind named {name}")
