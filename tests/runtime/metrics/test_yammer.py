"""Names, values and CSV files compared with Kafka's: Yammer's metrics and ours get the same numbers."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from real_kafka.java import run_java
from tidelog.runtime.metrics import MetricKind, MetricName, MetricRegistry, Sample
from tidelog.runtime.metrics.reporters.csv_files import CsvReporter
from tidelog.testing import ManualClock, ManualScheduler

pytestmark = pytest.mark.kafka

RATES = ("MeanRate", "OneMinuteRate", "FiveMinuteRate", "FifteenMinuteRate")
"""Rates, which depend on the elapsed time."""


def ours(values: list[int], clock: ManualClock) -> MetricRegistry:
    registry = MetricRegistry(clock=clock)
    registry.gauge(MetricName("kafka.test", "Test", "AGauge"), lambda: values[-1])
    meter = registry.meter(MetricName("kafka.test", "Test", "AMeter"))
    histogram = registry.histogram(MetricName("kafka.test", "Test", "AHistogram"))
    timer = registry.timer(MetricName("kafka.test", "Test", "ATimer"))
    for value in values:
        meter.mark(value)
        histogram.update(value)
        timer.update(value)
    return registry


def test_the_same_numbers_give_the_same_files_and_attributes(tmp_path: Path) -> None:
    values = [random.Random(3).randrange(1, 10**6) for _ in range(900)]
    (tmp_path / "values").write_text("\n".join(map(str, values)))
    theirs, mine = tmp_path / "theirs", tmp_path / "mine"
    theirs.mkdir()
    printed = [line.split("\t") for line in run_java("YammerMetrics", tmp_path / "values", theirs).splitlines()]

    clock = ManualClock(1_700_000_000_000)
    registry, scheduler = ours(values, clock), ManualScheduler(clock)
    scheduler.startup()
    reporter = CsvReporter(clock)
    reporter.configure({"kafka.csv.metrics.reporter.enabled": "true", "kafka.csv.metrics.dir": str(mine)})
    reporter.start(registry, scheduler)
    clock.now += 10_000

    assert sorted(file.name for file in mine.iterdir()) == sorted(file.name for file in theirs.iterdir())
    for file in mine.iterdir():
        header, row = file.read_text().splitlines()
        their_header, their_row, *_blank = (theirs / file.name).read_text().splitlines()
        assert header == their_header
        for column, found, expected in zip(header.split(","), row.split(","), their_row.split(","), strict=True):
            if column != "# time" and "rate" not in column:
                assert float(found) == pytest.approx(float(expected)), (file.name, column)
    _compare_attributes({sample.name.name: sample for sample in registry.samples()}, printed)
    names = [line[1:] for line in printed if line[0] == "name"]
    for value, name in names:
        tags = (("partition", ""), ("topic", value.replace("\\t", "\t")))
        assert str(MetricName("kafka.log", "Log", "Size", tags)).replace("\t", "\\t") == name
    assert len(names) == 15


def _compare_attributes(samples: dict[str, Sample], printed: list[list[str]]) -> None:
    """Compare each kind's attributes with its MBean's, except names of units."""
    found = {line[1].strip('"'): {} for line in printed if line[0] == "attribute"}  # type: dict[str, dict[str, str]]
    for line in printed:
        if line[0] == "attribute" and not line[2].endswith(("Unit", "EventType")):
            found[line[1].strip('"')][line[2]] = line[3]
    assert set(found) == set(samples)
    for name, attributes in found.items():
        values = samples[name].values
        assert set(attributes) == set(values), name
        for attribute, value in attributes.items():
            if attribute not in RATES:
                assert values[attribute] == pytest.approx(float(value)), (name, attribute)
    assert samples["ATimer"].kind is MetricKind.TIMER
