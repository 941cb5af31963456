"""PrometheusReporter: names, text and OpenMetrics as prometheus_client parses them, over HTTP."""

from __future__ import annotations

import builtins
import logging
import os
import threading
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from new_threads import new_threads
from tidelog.model import ConfigError
from tidelog.runtime.metrics import MetricKind, MetricName, MetricRegistry, Sample
from tidelog.runtime.metrics.reporters.prometheus import PrometheusReporter, families, family_name
from tidelog.testing import ManualClock, ManualScheduler

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def registry() -> MetricRegistry:
    clock = ManualClock(0)
    registry = MetricRegistry(clock=clock)
    orders = (("topic", 'or"de\\rs\n'), ("partition", "0"))
    registry.gauge(MetricName("kafka.log", "Log", "Size", orders), lambda: 42)
    registry.gauge(MetricName("kafka.log", "Log", "Size", (*orders, ("is-future", "true"))), lambda: 43)
    registry.meter(MetricName("kafka.server", "BrokerTopicMetrics", "BytesRejectedPerSec")).mark(7)
    timer = registry.timer(MetricName("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs"))
    for duration_ms in range(1, 101):
        timer.update(duration_ms)
    registry.histogram(MetricName("kafka.log", "LogCleaner", "Spread")).update(3)
    return registry


@pytest.fixture
def served(registry: MetricRegistry) -> Iterator[PrometheusReporter]:
    reporter = PrometheusReporter()
    reporter.configure({"tidelog.prometheus.port": "0"})
    reporter.start(registry, ManualScheduler(ManualClock(0)))
    yield reporter
    reporter.stop()


def scrape(reporter: PrometheusReporter, accept: str = "text/plain") -> str:
    host, port = reporter.address
    request = urllib.request.Request(f"http://{host}:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def samples_of(found: Any) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in found
        for sample in family.samples
    }


EXPECTED: dict[tuple[str, tuple[tuple[str, str], ...]], object] = {
    ("kafka_log_log_size", (("partition", "0"), ("topic", 'or"de\\rs\n'))): 42,
    ("kafka_log_log_size", (("is_future", "true"), ("partition", "0"), ("topic", 'or"de\\rs\n'))): 43,
    ("kafka_server_brokertopicmetrics_bytesrejected_total", ()): 7,
    ("kafka_log_logflushstats_logflushrateandtimems_count", ()): 100,
    ("kafka_log_logflushstats_logflushrateandtimems_sum", ()): pytest.approx(5050),
    ("kafka_log_logflushstats_logflushrateandtimems", (("quantile", "0.50"),)): 50.5,
    ("kafka_log_logflushstats_logflushrateandtimems", (("quantile", "0.999"),)): 100,
    ("kafka_log_logcleaner_spread_count", ()): 1,
}


@pytest.mark.parametrize(
    ("accept", "parse"), [("text/plain", parse_text), ("application/openmetrics-text", parse_openmetrics)]
)
def test_both_formats_over_http(served: PrometheusReporter, accept: str, parse: Any) -> None:
    found = list(parse(scrape(served, accept)))
    assert [(family.name.removesuffix("_total"), family.type) for family in found] == [
        ("kafka_log_log_size", "gauge"),
        ("kafka_server_brokertopicmetrics_bytesrejected", "counter"),
        ("kafka_log_logflushstats_logflushrateandtimems", "summary"),
        ("kafka_log_logcleaner_spread", "summary"),
    ]
    values = samples_of(found)
    assert {key: values[key] for key in EXPECTED} == EXPECTED
    size = next(family for family in found if family.name == "kafka_log_log_size")
    assert size.documentation == "Kafka's kafka.log:type=Log,name=Size"


def test_each_scrape_asks_anew(served: PrometheusReporter, registry: MetricRegistry) -> None:
    remove = registry.add_source(lambda: [Sample.gauge(MetricName("kafka.log", "LogManager", "X"), 1)])
    assert "kafka_log_logmanager_x 1.0" in scrape(served)
    remove()
    assert "kafka_log_logmanager_x" not in scrape(served)


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        (("kafka.log", "Log", "NumLogSegments"), MetricKind.GAUGE, "kafka_log_log_numlogsegments"),
        (("kafka.log", "Cleaner", "last-run-ms"), MetricKind.GAUGE, "kafka_log_cleaner_last_run_ms"),
        (("kafka.server", "X", ""), MetricKind.GAUGE, "kafka_server_x"),
        (("kafka.server", "X", "HitsPerSec"), MetricKind.GAUGE, "kafka_server_x_hitspersec"),
        (("kafka.server", "X", "HitsPerSec"), MetricKind.METER, "kafka_server_x_hits"),
        (("kafka.server", "X", "Hits"), MetricKind.METER, "kafka_server_x_hits"),
        (("1st", "Ä", "b"), MetricKind.GAUGE, "_1st_b"),
    ],
)  # fmt: skip
def test_names(name: tuple[str, str, str], kind: MetricKind, expected: str) -> None:
    assert family_name(*name, kind) == expected


def test_of_two_that_are_one_for_prometheus_the_first_is_taken() -> None:
    found = families(
        iter(
            [
                Sample.gauge(MetricName("g", "T", "a-b", (("x-y", "1"),)), 1),
                Sample.gauge(MetricName("g", "T", "a_b", (("x_y", "1"),)), 2),
                Sample(MetricName("g", "T", "a.b"), MetricKind.METER, {"Count": 3}),
            ]
        )
    )
    assert [(family.name, [sample.value for sample in family.samples]) for family in found] == [("g_t_a_b", [1])]


def test_it_stops_and_starts_again(registry: MetricRegistry, caplog: pytest.LogCaptureFixture) -> None:
    before = threading.enumerate()
    reporter = PrometheusReporter()
    reporter.configure({"tidelog.prometheus.port": "0"})
    reporter.stop()
    scheduler = ManualScheduler(ManualClock(0))
    with caplog.at_level(logging.INFO, "tidelog"):
        reporter.start(registry, scheduler)
    host, port = reporter.address
    assert caplog.messages == [f"Metrics for Prometheus at http://{host}:{port}/metrics"]
    assert "kafka_log" in scrape(reporter)
    reporter.stop()
    reporter.stop()
    for thread in new_threads(before):
        if "process_request_thread" in thread.name:
            thread.join(60)  # the scrape's response has arrived before its thread ends
    assert new_threads(before) == set()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60)
    reporter.start(registry, scheduler)
    assert "kafka_log" in scrape(reporter)
    reporter.stop()


def test_a_forked_child_lets_go_of_the_port(served: PrometheusReporter) -> None:
    child = os.fork()
    if child == 0:
        served.stop()  # would wait forever for a thread that does not exist
        os._exit(0 if served.address[1] == 0 else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "kafka_log" in scrape(served)


def test_an_address_that_is_taken(served: PrometheusReporter, registry: MetricRegistry) -> None:
    other = PrometheusReporter()
    other.configure({"tidelog.prometheus.port": str(served.address[1])})
    with pytest.raises(ConfigError, match=r"tidelog\.prometheus\.port: 127\.0\.0\.1:\d+ cannot be served: .*in use"):
        other.start(registry, ManualScheduler(ManualClock(0)))
    other.stop()


def test_a_host_that_is_not_ours(registry: MetricRegistry) -> None:
    reporter = PrometheusReporter()
    reporter.configure({"tidelog.prometheus.host": "192.0.2.1", "tidelog.prometheus.port": "0"})
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1:0 cannot be served"):
        reporter.start(registry, ManualScheduler(ManualClock(0)))


@pytest.mark.parametrize("port", ["http", "-1", "65536", ""])
def test_ports_that_are_none(port: str) -> None:
    with pytest.raises(ConfigError, match=r"tidelog\.prometheus\.port is '.*'; it is a whole number from 0 to 65535"):
        PrometheusReporter().configure({"tidelog.prometheus.port": port})


def test_without_the_package(registry: MetricRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    found = builtins.__import__

    def without(name: str, *arguments: Any, **named: Any) -> Any:
        if name == "prometheus_client":
            raise ModuleNotFoundError(name)
        return found(name, *arguments, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'tidelog\[metrics\]'"):
        PrometheusReporter().start(registry, ManualScheduler(ManualClock(0)))
