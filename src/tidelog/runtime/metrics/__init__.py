"""Metrics under Kafka's names: gauges, meters, histograms and timers, and their reporters."""

from tidelog.runtime.metrics.description import MetricDescription, MetricFamily
from tidelog.runtime.metrics.histogram import Histogram
from tidelog.runtime.metrics.meter import Meter
from tidelog.runtime.metrics.metric_name import MetricName
from tidelog.runtime.metrics.registry import MetricRegistry
from tidelog.runtime.metrics.reporter import MetricsReporter
from tidelog.runtime.metrics.sample import MetricKind, Sample
from tidelog.runtime.metrics.timer import Timer

__all__ = [
    "Histogram",
    "Meter",
    "MetricDescription",
    "MetricFamily",
    "MetricKind",
    "MetricName",
    "MetricRegistry",
    "MetricsReporter",
    "Sample",
    "Timer",
]
