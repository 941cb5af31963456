"""docs/metrics.md equals the tables in the code, and its examples run."""

from __future__ import annotations

import importlib
import re
import time
from pathlib import Path
from typing import Any

import pytest

from project.tree import ROOT, load
from tidelog.runtime.metrics import MetricName, MetricRegistry
from tidelog.runtime.metrics.reporters import load_reporters
from tidelog.runtime.metrics.reporters.reporter_set import KNOWN, WITHOUT_JVM
from tidelog.testing import ManualClock, ManualScheduler

METRIC_PAGE = load("scripts/metric_page.py")


def examples() -> list[str]:
    found: list[str] = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "metrics.md").read_text(), re.DOTALL)
    return found


def test_the_page_is_what_the_tables_say() -> None:
    assert METRIC_PAGE.PAGE.read_text() == METRIC_PAGE.page(), "run `make map`"


def test_every_metric_of_every_room_has_a_line() -> None:
    """Every table of descriptions in the code is one of the page's."""
    told = {one for _, rows in METRIC_PAGE.TABLES for one in rows}
    for path in (ROOT / "src").rglob("*_metrics.py"):
        module = importlib.import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
        assert set(module.METRICS) <= told, path


def test_every_reporter_is_named() -> None:
    page = (ROOT / "docs" / "metrics.md").read_text()
    for name in (*KNOWN, *WITHOUT_JVM):
        assert f"`{name}`" in page


def test_the_reporter_of_the_page_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "users_printing.py").write_text(examples()[0])
    monkeypatch.syspath_prepend(tmp_path)
    reporters = load_reporters({"kafka.metrics.reporters": "users_printing.Printing", "printing.seconds": "30"})
    clock = ManualClock(0)
    registry, scheduler = MetricRegistry(), ManualScheduler(clock)
    scheduler.startup()
    registry.gauge(MetricName("g", "T", "N"), lambda: 7)
    reporters.start(registry, scheduler)
    clock.now += 31_000
    reporters.stop()
    clock.now += 60_000
    assert capsys.readouterr().out == "g:type=T,name=N gauge {'Value': 7}\n" * 2


def test_a_directory_of_the_page_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = ("reporters=csv", "polling.interval.secs=1")
    lines = [*(f"kafka.metrics.{setting}" for setting in settings), "kafka.csv.metrics.reporter.enabled=true"]
    Path("server.properties").write_text("\n".join(lines))
    program = examples()[1].replace("/var/lib/", f"{tmp_path}/")
    file = tmp_path / "kafka_metrics" / "LogEndOffset,topic=orders,partition=0.csv"

    def wait() -> None:
        end = time.monotonic() + 60
        while not file.exists() and time.monotonic() < end:
            time.sleep(0.02)

    exec(program + "    wait()\n", {"wait": wait})
    assert file.read_text().splitlines()[1].endswith(",1")


def test_the_program_of_the_page_runs(tmp_path: Path) -> None:
    (tmp_path / "kafka").mkdir()
    program = examples()[2].replace("/var/lib/", f"{tmp_path}/")
    seen: dict[str, Any] = {"look": lambda: None}
    exec(program.replace("...\n", "text = scrape(reporters)\n"), seen | {"scrape": _scrape}, seen)
    assert "kafka_log_logmanager_offlinelogdirectorycount 0.0" in seen["text"]


def _scrape(reporters: Any) -> str:
    import urllib.request

    host, port = reporters.reporters[0].address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=60) as answer:
        text: str = answer.read().decode()
        return text
