"""A reporter to Prometheus over HTTP, in its text format or OpenMetrics, as the scraper requests.

The settings are ``tidelog.prometheus.host`` (127.0.0.1) and ``tidelog.prometheus.port`` (9404; 0 for any free port).
Names follow the usual rules of Prometheus' JMX exporter for Kafka, so its dashboards work:

=======================  ==========================================================================================
metric                   becomes
=======================  ==========================================================================================
gauge                    ``kafka_log_log_size{topic="orders",partition="0"}``
meter                    a counter, without ``PerSec``: ``kafka_server_brokertopicmetrics_bytesrejected_total``
histogram, timer         a summary: ``…_count``, ``…_sum``, and ``{quantile="0.50"}`` up to ``0.999``
=======================  ==========================================================================================

Each scrape reads the registry. ``start`` imports the package ``prometheus-client`` (extra ``metrics``). Thread rule: a
scrape has its own thread. A forked child does not serve, and frees the port when it calls ``stop``.
"""

from __future__ import annotations

import functools
import logging
import re
import threading
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIServer

from tidelog.model.errors import ConfigError
from tidelog.runtime.metrics.metric_name import MetricName
from tidelog.runtime.metrics.registry import MetricRegistry
from tidelog.runtime.metrics.reporters.settings import whole_number
from tidelog.runtime.metrics.sample import MetricKind, Sample
from tidelog.runtime.scheduler import Scheduler

if TYPE_CHECKING:
    from prometheus_client import Metric

HOST = "tidelog.prometheus.host"
PORT = "tidelog.prometheus.port"

_TYPES = {
    MetricKind.GAUGE: "gauge",
    MetricKind.METER: "counter",
    MetricKind.HISTOGRAM: "summary",
    MetricKind.TIMER: "summary",
}
_QUANTILES = {
    "50thPercentile": "0.50",
    "75thPercentile": "0.75",
    "95thPercentile": "0.95",
    "98thPercentile": "0.98",
    "99thPercentile": "0.99",
    "999thPercentile": "0.999",
}

_log = logging.getLogger(__name__)


class PrometheusReporter:
    """A MetricsReporter."""

    def __init__(self) -> None:
        self._host = "127.0.0.1"
        self._port = 9404
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    def configure(self, settings: Mapping[str, str]) -> None:
        self._host = settings.get(HOST) or self._host
        self._port = whole_number(settings, PORT, default=self._port, least=0, most=65_535)

    def start(self, registry: MetricRegistry, scheduler: Scheduler) -> None:
        """Serve the metrics. Raise ConfigError if the address cannot be served or the package is missing."""
        try:
            import prometheus_client
        except ImportError as error:
            raise ConfigError("metrics for Prometheus need a package: pip install 'tidelog[metrics]'") from error
        served = prometheus_client.CollectorRegistry(auto_describe=False)
        served.register(_Collector(registry))
        try:
            self._server, self._thread = prometheus_client.start_http_server(self._port, self._host, served)
        except (OSError, OverflowError) as error:
            raise ConfigError(f"{HOST}, {PORT}: {self._host}:{self._port} cannot be served: {error}") from error
        _log.info("Metrics for Prometheus at http://%s:%d/metrics", *self.address)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port. After ``start`` with port 0, the port is the chosen one."""
        return (self._host, self._server.server_port) if self._server is not None else (self._host, self._port)

    def stop(self) -> None:
        server, self._server = self._server, None
        if server is None:
            return
        if self._thread is not None and self._thread.is_alive():  # a forked child has no thread
            server.shutdown()
            self._thread.join()
        server.server_close()


class _Collector:
    """The collector that prometheus_client calls at each scrape."""

    def __init__(self, registry: MetricRegistry) -> None:
        self._registry = registry

    def describe(self) -> list[Metric]:
        """Return nothing, because the names are not known beforehand."""
        return []

    def collect(self) -> Iterator[Metric]:
        yield from families(self._registry.samples())


def families(samples: Iterator[Sample]) -> list[Metric]:
    """Group samples by their Prometheus name. Of samples with one name and labels, the first counts."""
    from prometheus_client import Metric

    found: dict[str, Metric] = {}
    taken: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for sample in samples:
        name = family_name(sample.name.group, sample.name.type, sample.name.name, sample.kind)
        family = found.get(name)
        if family is None:
            mbean = MetricName(sample.name.group, sample.name.type, sample.name.name)
            family = found[name] = Metric(name, f"Kafka's {mbean}", _TYPES[sample.kind])
        labels = {_label_name(key): value for key, value in sample.name.tags}
        key = (name, tuple(sorted(labels.items())))
        if key in taken or family.type != _TYPES[sample.kind]:
            continue
        taken.add(key)
        _add(family, labels, sample)
    return list(found.values())


@functools.lru_cache(maxsize=4096)
def family_name(group: str, kind_name: str, name: str, kind: MetricKind) -> str:
    """Return a name such as ``kafka_log_log_size``. A meter's has no ``PerSec`` and no ``_total`` of its counter."""
    if kind is MetricKind.METER:
        name = re.sub(r"PerSec\w*$", "", name)
    return _legal("_".join(part for part in (group, kind_name, name) if part)).lower()


def _label_name(key: str) -> str:
    return _legal(key)


@functools.lru_cache(maxsize=4096)
def _legal(text: str) -> str:
    text = re.sub(r"[^a-zA-Z0-9]+", "_", text)
    return f"_{text}" if text[:1].isdigit() else text


def _add(family: Metric, labels: dict[str, str], sample: Sample) -> None:
    values = sample.values
    if sample.kind is MetricKind.GAUGE:
        family.add_sample(family.name, labels, values["Value"])
    elif sample.kind is MetricKind.METER:
        family.add_sample(f"{family.name}_total", labels, values["Count"])
    else:
        for percentile, quantile in _QUANTILES.items():
            family.add_sample(family.name, labels | {"quantile": quantile}, values[percentile])
        family.add_sample(f"{family.name}_count", labels, values["Count"])
        family.add_sample(f"{family.name}_sum", labels, values["Count"] * values["Mean"])
