"""``kafka.metrics.reporters``: the class for each name, and the errors for unavailable ones."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pytest

from tidelog.model import ConfigError
from tidelog.runtime.metrics import MetricRegistry
from tidelog.runtime.metrics.reporters import ReporterSet, load_reporters
from tidelog.runtime.metrics.reporters.csv_files import CsvReporter
from tidelog.runtime.metrics.reporters.prometheus import PrometheusReporter
from tidelog.runtime.scheduler import Scheduler
from tidelog.testing import ManualClock, ManualScheduler

MODULE = """
class Good:
    def configure(self, settings): self.color = settings.get("color")
    def start(self, registry, scheduler): pass
    def stop(self): pass

class Picky(Good):
    def __init__(self, needed): pass

class Half:
    def configure(self, settings): pass

value = 7
"""


@pytest.fixture(autouse=True)
def _modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "users_reporters.py").write_text(MODULE)
    (tmp_path / "users_broken_module.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)


def loaded(names: str, **settings: str) -> ReporterSet:
    return load_reporters({"kafka.metrics.reporters": names, **settings})


def test_none() -> None:
    assert load_reporters({}).reporters == ()
    assert loaded(" , ").reporters == ()


@pytest.mark.parametrize(
    ("names", "classes"),
    [
        ("kafka.metrics.KafkaCSVMetricsReporter", [CsvReporter]),
        (" csv , prometheus,", [CsvReporter, PrometheusReporter]),
        ("csv,csv", [CsvReporter]),
        ("tidelog.runtime.metrics.reporters.csv_files.CsvReporter", [CsvReporter]),
    ],
)
def test_ours(names: str, classes: list[type]) -> None:
    assert [type(reporter) for reporter in loaded(names).reporters] == classes


@pytest.mark.parametrize("name", ["users_reporters.Good", "users_reporters:Good"])
def test_of_users(name: str) -> None:
    (reporter,) = loaded(name, color="blue").reporters
    assert vars(reporter) == {"color": "blue"}


def test_there_is_no_jmx(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tidelog.runtime"):
        assert len(loaded("org.apache.kafka.common.metrics.JmxReporter,csv").reporters) == 1
    (record,) = caplog.records
    assert record.levelno == logging.INFO
    assert "JmxReporter is left out, there is no JMX without a JVM" in record.getMessage()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Nothing", "'Nothing' is neither csv, kafka.metrics.KafkaCSVMetricsReporter, prometheus nor module.Class"),
        ("no.such.Module", "cannot import 'no.such' for 'no.such.Module': No module named 'no'"),
        ("users_broken_module.X", "cannot import 'users_broken_module' for 'users_broken_module.X': division by zero"),
        (".X", "'.X' is neither"),
        ("users_reporters.Missing", "module 'users_reporters' has no class 'Missing'"),
        ("users_reporters.value", "module 'users_reporters' has no class 'value'"),
        ("users_reporters.Half", "users_reporters.Half is no reporter, it lacks start, stop"),
        ("users_reporters.Picky", "users_reporters.Picky cannot be made: TypeError: "),
        ("com.example.MyReporter", "cannot import 'com.example' for 'com.example.MyReporter': No module named 'com'"),
    ],
)
def test_what_cannot_be_had_is_said(name: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        loaded(name)
    assert str(error.value).startswith(f"kafka.metrics.reporters: {message}")


def test_settings_are_checked_when_reporters_are_made() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.metrics\.polling\.interval\.secs is 'x'"):
        loaded("csv", **{"kafka.metrics.polling.interval.secs": "x"})


class Noted:
    """A reporter that notes its calls in ``calls`` and fails in the call ``fails_in``."""

    def __init__(self, name: str, calls: list[str], fails_in: str = "") -> None:
        self._name = name
        self._calls = calls
        self._fails_in = fails_in

    def configure(self, settings: Mapping[str, str]) -> None:
        self._note("configure")

    def start(self, registry: MetricRegistry, scheduler: Scheduler) -> None:
        self._note("start")

    def stop(self) -> None:
        self._note("stop")

    def _note(self, call: str) -> None:
        self._calls.append(f"{call} {self._name}")
        if call == self._fails_in:
            raise ConfigError(f"{self._name} does not {call}")


def test_a_set_is_started_together_or_not_at_all() -> None:
    calls: list[str] = []
    reporters = ReporterSet([Noted("a", calls), Noted("b", calls, "start"), Noted("c", calls)])
    with pytest.raises(ConfigError, match="b does not start"):
        reporters.start(MetricRegistry(), ManualScheduler(ManualClock(0)))
    assert calls == ["start a", "start b", "stop a", "stop b", "stop c"]


def test_one_that_does_not_stop_leaves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []
    ReporterSet([Noted("a", calls, "stop"), Noted("b", calls)]).stop()
    assert calls == ["stop a", "stop b"]
    assert "The metrics reporter Noted does not stop as it should" in caplog.text
