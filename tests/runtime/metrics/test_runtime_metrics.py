"""A metric counts the errors that are logged once."""

from __future__ import annotations

import threading

import pytest

from tidelog.model import StorageError
from tidelog.runtime import ThreadScheduler
from tidelog.runtime.metrics import MetricName, MetricRegistry
from tidelog.runtime.metrics.runtime_metrics import METRICS, watch_runtime


def test_errors_are_told(caplog: pytest.LogCaptureFixture) -> None:
    registry, scheduler = MetricRegistry(), ThreadScheduler(1)
    remove = watch_runtime(registry, scheduler)
    scheduler.startup()
    runs, done = [0], threading.Event()

    def fails() -> None:
        runs[0] += 1
        if runs[0] <= 3:
            raise StorageError("no space left", path="/d")
        done.set()

    scheduler.schedule("flush", fails, period_ms=1)
    assert done.wait(60)
    scheduler.shutdown()
    registry.gauge(MetricName("g", "T", "broken"), lambda: 1 // 0)
    list(registry.samples())
    found = {str(sample.name): sample for sample in registry.samples()}
    values = {name: sample.values["Value"] for name, sample in found.items()}
    assert values == {
        "tidelog:type=Scheduler,name=TaskErrors,task=flush": 3,
        "tidelog:type=MetricRegistry,name=ReportErrors": 1,
    }
    assert [one.kind for one in METRICS] == [sample.kind for sample in found.values()]
    assert len(caplog.records) == 2
    remove()
    assert list(registry.samples()) == []
