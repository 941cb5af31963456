"""MetricRegistry: the contents of a report, and failing sources that do not affect the others."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tidelog.model import StorageError
from tidelog.runtime.metrics import MetricKind, MetricName, MetricRegistry, Sample


def named(name: str) -> MetricName:
    return MetricName("kafka.log", "Log", name)


def report(registry: MetricRegistry) -> dict[str, dict[str, int | float]]:
    return {sample.name.name: dict(sample.values) for sample in registry.samples()}


def test_each_kind_gives_its_values() -> None:
    registry = MetricRegistry(random=lambda: 0.5)
    registry.gauge(named("Size"), lambda: 42)
    registry.meter(named("BytesIn")).mark(3)
    registry.histogram(named("Batch")).update(7)
    registry.timer(named("Flush")).update(2)
    found = {sample.name.name: sample for sample in registry.samples()}
    assert {name: sample.kind for name, sample in found.items()} == {
        "Size": MetricKind.GAUGE,
        "BytesIn": MetricKind.METER,
        "Batch": MetricKind.HISTOGRAM,
        "Flush": MetricKind.TIMER,
    }
    assert found["Size"].values == {"Value": 42}
    assert found["BytesIn"].values["Count"] == 3
    assert found["Batch"].values["Max"] == 7
    assert set(found["Flush"].values) == set(found["BytesIn"].values) | set(found["Batch"].values)


def test_a_name_is_one_metric() -> None:
    registry = MetricRegistry()
    assert registry.meter(named("A")) is registry.meter(named("A"))
    with pytest.raises(ValueError, match=r"another kind named kafka\.log:type=Log,name=A"):
        registry.timer(named("A"))
    with pytest.raises(ValueError, match="another kind"):
        registry.gauge(named("A"), lambda: 1)
    registry.gauge(named("B"), lambda: 1)
    with pytest.raises(ValueError, match="another kind"):
        registry.histogram(named("B"))
    registry.gauge(named("B"), lambda: 2)
    assert report(registry)["B"] == {"Value": 2}
    registry.remove(named("A"))
    registry.remove(named("A"))
    assert set(report(registry)) == {"B"}


def test_sources_are_asked_at_each_report_until_they_are_removed() -> None:
    registry = MetricRegistry()
    sizes = {"a": 1}
    remove = registry.add_source(lambda: [Sample.gauge(named(name), size) for name, size in sizes.items()])
    assert report(registry) == {"a": {"Value": 1}}
    sizes["b"] = 2
    del sizes["a"]
    assert report(registry) == {"b": {"Value": 2}}
    remove()
    remove()
    assert report(registry) == {}


def test_of_two_samples_of_one_name_the_first_counts() -> None:
    registry = MetricRegistry()
    registry.gauge(named("a"), lambda: 1)
    registry.add_source(lambda: [Sample.gauge(named("a"), 2), Sample.gauge(named("b"), 3), Sample.gauge(named("b"), 4)])
    assert report(registry) == {"a": {"Value": 2}, "b": {"Value": 3}}


def test_a_source_may_bring_meters_up_to_date() -> None:
    registry = MetricRegistry()

    def source() -> list[Sample]:
        registry.meter(named("counted")).mark(5)
        return []

    registry.add_source(source)
    assert report(registry)["counted"]["Count"] == 5
    assert report(registry)["counted"]["Count"] == 10


def test_who_fails_is_left_out_counted_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    registry = MetricRegistry()

    def half_way() -> Iterator[Sample]:
        yield Sample.gauge(named("before"), 1)
        raise StorageError("the disk is gone", path="/d")

    def broken() -> int:
        raise ZeroDivisionError

    registry.gauge(named("broken"), broken)
    registry.add_source(half_way)
    registry.add_source(lambda: [Sample.gauge(named("after"), 2)])
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            assert report(registry) == {"before": {"Value": 1}, "after": {"Value": 2}}
    assert registry.errors == 6
    source, gauge = caplog.records
    assert gauge.getMessage().startswith("The metrics of kafka.log:type=Log,name=broken are missing from reports: ")
    assert gauge.exc_info is not None
    assert "half_way are missing from reports: the disk is gone" in source.getMessage()
    assert source.exc_info is None


def test_a_report_under_way_does_not_keep_others_out() -> None:
    registry = MetricRegistry()
    registry.gauge(named("a"), lambda: 1)
    registry.gauge(named("c"), lambda: 3)
    samples = registry.samples()
    next(samples)
    registry.gauge(named("b"), lambda: 2)
    registry.remove(named("a"))
    registry.remove(named("c"))
    assert [sample.name for sample in samples] == [named("c")]
    assert report(registry) == {"b": {"Value": 2}}
