"""The reporters from a broker's properties file, used with directories under housekeeping."""

from __future__ import annotations

import os
import threading
import urllib.request
from pathlib import Path

import pytest

import tidelog
from new_threads import new_threads
from storage.manager.manager_home import NOW, fill
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError, LockedError
from tidelog.runtime import Scheduler
from tidelog.runtime.metrics.reporters.prometheus import PrometheusReporter
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.writable.managed_directories import ManagedDirectories
from tidelog.testing import ManualClock, ManualScheduler


def kept(directory: Path, clock: ManualClock, scheduler: Scheduler | None, **settings: str) -> ManagedDirectories:
    overrides = {key.replace("_", "."): text for key, text in settings.items()}
    broker = BrokerConfig.load(None, overrides)
    return ManagedDirectories(LOCAL, [directory], clock=clock, broker=broker, scheduler=scheduler)


def served(home: ManagedDirectories) -> str:
    (reporter,) = home.metrics.reporters.reporters
    assert isinstance(reporter, PrometheusReporter)
    host, port = reporter.address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
        return text


def test_csv_files_from_a_properties_file(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    home = kept(
        tmp_path / "data",
        clock,
        ManualScheduler(clock),
        kafka_metrics_reporters="kafka.metrics.KafkaCSVMetricsReporter",
        kafka_csv_metrics_reporter_enabled="true",
        kafka_csv_metrics_dir=str(tmp_path / "csv"),
        kafka_metrics_polling_interval_secs="3",
    )
    log = home.open_log(tmp_path / "data" / "orders-0")
    fill(log.log, 2)
    log.flush()
    clock.now += 4_000
    home.close(tmp_path / "data")
    clock.now += 60_000
    (header, row) = (tmp_path / "csv" / "LogEndOffset,topic=orders,partition=0.csv").read_text().splitlines()
    assert header == "# time,value"
    assert row.endswith(",20")
    assert (tmp_path / "csv" / "LogFlushRateAndTimeMs.csv").exists()
    assert list(home.metrics.registry.samples()) == []


def test_prometheus_serves_until_the_end(tmp_path: Path) -> None:
    before = threading.enumerate()
    home = kept(tmp_path, ManualClock(NOW), None, kafka_metrics_reporters="prometheus", tidelog_prometheus_port="0")
    fill(home.open_log(tmp_path / "orders-0").log, 1)
    text = served(home)
    assert 'kafka_log_log_logendoffset{partition="0",topic="orders"} 10.0' in text
    assert "tidelog_metricregistry_reporterrors 0.0" in text
    home.close(tmp_path)
    assert new_threads(before) == set()


def test_a_forked_child_stops_nothing_of_its_parents(tmp_path: Path) -> None:
    home = kept(tmp_path, ManualClock(NOW), None, kafka_metrics_reporters="prometheus", tidelog_prometheus_port="0")
    child = os.fork()
    if child == 0:
        home.close(tmp_path)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert "kafka_log_logmanager" in served(home)
    home.close(tmp_path)


def test_without_reporters_nothing_runs_but_values_can_be_asked(tmp_path: Path) -> None:
    clock = ManualClock(NOW)
    scheduler = ManualScheduler(clock)
    home = kept(tmp_path, clock, scheduler)
    assert not [name for name in scheduler.names if "metrics" in name]
    assert {sample.name.name for sample in home.metrics.registry.samples()} >= {"OfflineLogDirectoryCount"}
    home.close(tmp_path)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("kafka.metrics.reporters=no.such.Reporter", "cannot import 'no.such' for 'no.such.Reporter'"),
        ("kafka.metrics.reporters=prometheus\ntidelog.prometheus.host=192.0.2.1", "cannot be served"),
    ],
)
def test_a_reporter_that_cannot_be_had_leaves_nothing_behind(tmp_path: Path, lines: str, message: str) -> None:
    before = threading.enumerate()
    (tmp_path / "server.properties").write_text(lines)
    data = tmp_path / "data"
    with pytest.raises(ConfigError, match=message):
        tidelog.open_directory(data, housekeeping=True, server_properties=tmp_path / "server.properties")
    assert new_threads(before) == set()
    tidelog.open_directory(data).close()  # the directory is not locked


def test_a_start_that_fails_ends_the_reporters(tmp_path: Path) -> None:
    before = threading.enumerate()
    properties = tmp_path / "server.properties"
    properties.write_text("kafka.metrics.reporters=prometheus\ntidelog.prometheus.port=0")
    with tidelog.open_directory(tmp_path / "data"), pytest.raises(LockedError):
        tidelog.open_directory(tmp_path / "data", housekeeping=True, server_properties=properties)
    assert new_threads(before) == set()
