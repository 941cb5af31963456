"""CsvReporter: the contents of its files, other files in the directory, and failing disks."""

from __future__ import annotations

import logging
import os
import resource
import shutil
import signal
from pathlib import Path

import pytest

from tidelog.config.plugin_keys import REPORTER_KEYS
from tidelog.model import ConfigError
from tidelog.runtime.metrics import MetricName, MetricRegistry, Sample
from tidelog.runtime.metrics.reporters.csv_files import CsvReporter, file_name
from tidelog.testing import ManualClock, ManualScheduler


class Setting:
    """A reporter with its own registry and a manual clock. It polls every 2 s."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.clock = ManualClock(1_700_000_000_123)
        self.registry = MetricRegistry(clock=self.clock)
        self.scheduler = ManualScheduler(self.clock)
        self.scheduler.startup()
        self.reporter = CsvReporter(self.clock)
        self.reporter.configure(
            {
                "kafka.csv.metrics.reporter.enabled": "true",
                "kafka.csv.metrics.dir": str(directory),
                "kafka.metrics.polling.interval.secs": "2",
                **settings,
            }
        )

    def start(self) -> Setting:
        self.reporter.start(self.registry, self.scheduler)
        return self


def size(topic: str, partition: int) -> MetricName:
    return MetricName("kafka.log", "Log", "Size", (("topic", topic), ("partition", str(partition))))


def test_a_file_a_metric_and_a_row_a_poll(tmp_path: Path) -> None:
    setting = Setting(tmp_path / "a" / "b").start()
    sizes = iter([10, 20])
    setting.registry.gauge(size("orders", 0), lambda: next(sizes))
    setting.registry.meter(MetricName("kafka.server", "BrokerTopicMetrics", "BytesInPerSec")).mark(5)
    setting.registry.timer(MetricName("kafka.log", "LogFlushStats", "LogFlushRateAndTimeMs")).update(1.5)
    setting.clock.now += 5_000  # polls after 2 and 4 seconds
    files = {file.name: file.read_text().splitlines() for file in (tmp_path / "a" / "b").iterdir()}
    assert files["Size,topic=orders,partition=0.csv"] == ["# time,value", "1700000002,10", "1700000004,20"]
    assert files["BytesInPerSec.csv"][:2] == [
        "# time,count,1 min rate,mean rate,5 min rate,15 min rate",
        "1700000002,5,0.0,2.5,0.0,0.0",
    ]
    assert files["LogFlushRateAndTimeMs.csv"][:2] == [
        "# time,min,max,mean,median,stddev,95%,99%,99.9%",
        "1700000002,1.5,1.5,1.5,1.5,0.0,1.5,1.5,1.5",
    ]
    setting.reporter.stop()
    setting.reporter.stop()
    setting.clock.now += 10_000
    assert len((tmp_path / "a" / "b" / "BytesInPerSec.csv").read_text().splitlines()) == 3


@pytest.mark.parametrize("settings", [{}, {"kafka.csv.metrics.dir": ""}], ids=["no directory", "an empty one"])
def test_by_default_files_are_in_kafka_metrics_where_the_process_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str]
) -> None:
    """The default is Kafka's, both in the reporter and in the table of keys."""
    monkeypatch.chdir(tmp_path)
    clock, reporter = ManualClock(0), CsvReporter()
    scheduler = ManualScheduler(clock)
    scheduler.startup()
    reporter.configure({"kafka.csv.metrics.reporter.enabled": "true", **settings})
    monkeypatch.chdir("/")
    reporter.start(MetricRegistry(clock=clock), scheduler)
    reporter.stop()
    assert [path.name for path in tmp_path.iterdir()] == ["kafka_metrics"]
    assert REPORTER_KEYS["kafka.csv.metrics.dir"].default == "kafka_metrics"


def test_what_is_in_the_directory_stays_and_files_grow(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    (tmp_path / "N.csv").write_text("# time,value\n1,1\n")
    (tmp_path / "sub").mkdir()
    setting = Setting(tmp_path).start()
    setting.registry.gauge(MetricName("g", "T", "N"), lambda: 2)
    setting.clock.now += 2_000
    assert (tmp_path / "N.csv").read_text() == "# time,value\n1,1\n1700000002,2\n"
    assert (tmp_path / "precious.txt").read_text() == "mine"
    assert (tmp_path / "sub").is_dir()


def test_it_must_be_enabled(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    setting = Setting(tmp_path / "never", **{"kafka.csv.metrics.reporter.enabled": "false"})
    with caplog.at_level(logging.INFO, "tidelog.runtime"):
        setting.start()
    assert caplog.messages == ["Metrics do not go to CSV files: kafka.csv.metrics.reporter.enabled is false"]
    assert setting.scheduler.tasks == []
    setting.reporter.report()
    setting.reporter.stop()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kafka.csv.metrics.reporter.enabled", "yes"),
        ("kafka.metrics.polling.interval.secs", "0"),
        ("kafka.metrics.polling.interval.secs", "ten"),
        ("kafka.metrics.polling.interval.secs", str(2**31)),
    ],
)
def test_settings_that_cannot_be_used(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{key} is '{value}'; it is"):
        CsvReporter().configure({key: value})


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"kafka\.csv\.metrics\.dir: Not a directory"):
        Setting(tmp_path / "file" / "below").start()


def test_names_are_names_of_files() -> None:
    assert file_name(MetricName("g", "T", "N")) == "N.csv"
    assert file_name(MetricName("g", "T", "", (("client-id", "c"),))) == "T,client-id=c.csv"
    assert file_name(MetricName("g", "T", "N", (("logDirectory", "/d/k 1%"),))) == "N,logDirectory=%2Fd%2Fk%201%25.csv"
    assert file_name(MetricName("g", "T", "../N")) == "..%2FN.csv"
    long = [file_name(MetricName("g", "T", "N", (("topic", "t" * 248 + end),))) for end in "ab"]
    assert long[0] != long[1]
    assert max(map(len, long)) <= 255


def test_two_metrics_of_one_short_name_have_a_file_each(tmp_path: Path) -> None:
    setting = Setting(tmp_path).start()
    setting.registry.gauge(MetricName("kafka.log", "A", "N"), lambda: 1)
    setting.registry.gauge(MetricName("kafka.log", "B", "N"), lambda: 2)
    setting.clock.now += 4_000
    assert (tmp_path / "N.csv").read_text().splitlines()[1:] == ["1700000002,1", "1700000004,1"]
    assert (tmp_path / "kafka.log.B.N.csv").read_text().splitlines()[1:] == ["1700000002,2", "1700000004,2"]


def test_a_directory_that_vanishes_costs_a_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    directory = tmp_path / "csv"
    setting = Setting(directory).start()
    setting.registry.add_source(lambda: [Sample.gauge(size("t", number), number) for number in range(3)])
    setting.clock.now += 2_000
    shutil.rmtree(directory)
    with caplog.at_level(logging.INFO, "tidelog.runtime"):
        setting.clock.now += 6_000
        missing = directory / "Size,topic=t,partition=0.csv"
        assert caplog.messages == [f"Metrics are missing from CSV files: No such file or directory ({missing})"]
        assert not directory.exists()  # the directory may be a mount, so nothing is created in its place
        directory.mkdir()
        setting.clock.now += 4_000
    assert caplog.messages[1:] == [f"Metrics go to CSV files in {directory} again"]
    assert missing.read_text().splitlines() == ["# time,value", "1700000010,0", "1700000012,0"]


def test_one_file_that_cannot_be_written_leaves_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "Size,topic=t,partition=0.csv").mkdir()
    setting = Setting(tmp_path).start()
    setting.registry.add_source(lambda: [Sample.gauge(size("t", number), number) for number in range(2)])
    setting.clock.now += 4_000
    assert len(caplog.messages) == 1
    assert "Is a directory" in caplog.text
    assert len((tmp_path / "Size,topic=t,partition=1.csv").read_text().splitlines()) == 3


def test_a_disk_that_runs_full_leaves_whole_rows(tmp_path: Path) -> None:
    child = os.fork()  # the limit would apply to the test run's own files too
    if child == 0:
        os._exit(_fill_up(tmp_path))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert (tmp_path / "N.csv").read_text() == "# time,value\n1700000002,1\n1700000004,1\n"


def _fill_up(directory: Path) -> int:
    """Simulate a disk that runs full: a write beyond byte 40 of a file is shortened, and the next one fails."""
    logging.disable()
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    setting = Setting(directory).start()
    setting.registry.gauge(MetricName("g", "T", "N"), lambda: 1)
    setting.clock.now += 8_000
    return 0
