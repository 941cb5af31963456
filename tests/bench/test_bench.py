"""`make bench` runs on a little data, and the published table matches the published results. No test judges times."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SLACK = 1.5
"""The allowed growth of the cost of a byte on a busy machine. A quadratic cost would grow tenfold."""
FEW = ("--runs", "1", "--warm-ups", "0", "--scale", "0.01")


def run_bench(results: Path, rows: str) -> dict[str, dict[str, object]]:
    command = [sys.executable, "-m", "benchmarks", "--rows", rows, *FEW, "--results", str(results)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return {path.stem: json.loads(path.read_text()) for path in results.glob("*.json")}


@pytest.mark.kafka
def test_the_rows_beside_kafka_run(tmp_path: Path) -> None:
    results = run_bench(tmp_path, "append,scan,decode,recover,load,compact,dump,verify,startup")
    assert set(results) == {"append", "scan", "decode", "recover", "load", "compact", "dump", "verify", "startup"}
    for row, result in results.items():
        cases = result["cases"]
        assert isinstance(cases, list)
        assert cases
        for case in cases:
            assert case["tidelog"]["seconds"]
            assert case["peer"]["seconds"]
            assert case["bytes"] > 0 or row in ("load", "startup")


@pytest.mark.kafka
def test_the_steps_are_timed() -> None:
    command = [sys.executable, "-m", "benchmarks.steps", "--scale", "0.01"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    published = (ROOT / "benchmarks" / "README.md").read_text().partition("<!-- steps: begin -->")[2]
    for line in done.stdout.splitlines():
        assert line.partition("|")[2].partition("|")[0] in published, "run make bench-steps"


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.slow
def test_the_rows_of_spark_run(tmp_path: Path) -> None:
    rows = run_bench(tmp_path, "spark,audits")
    spark, audits = rows["spark"]["cases"], rows["audits"]["cases"]
    assert isinstance(spark, list)
    assert [(case["records"], case["peer"] is not None) for case in spark] == [
        *[(48_000, True)] * 3,
        *[(48_000, False)] * 3,
    ]
    assert isinstance(audits, list)
    assert len({case["bytes"] for case in audits}) == 1
    assert all(case["bytes"] > 0 for case in audits)


@pytest.mark.spark
@pytest.mark.slow
def test_the_cost_of_a_read_grows_no_faster_than_the_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test compares sizes by their fastest runs. It judges no absolute time."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--runs", "3", "--results", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    monkeypatch.syspath_prepend(ROOT)
    scaling = importlib.import_module("benchmarks.scaling")
    result = json.loads((tmp_path / "scaling.json").read_text())
    assert [(point["cores"], point["gigabytes"]) for point in result["points"]] == [
        (cores, gigabytes) for cores in (1, 2) for gigabytes in (1, 4, 10)
    ]
    for point in result["points"]:
        assert point["bytes"] >= point["gigabytes"] * 10**9
        assert scaling.cost_of_a_byte(result, point) < SLACK, done.stdout


@pytest.mark.kafka
@pytest.mark.slow
def test_the_rows_of_the_broker_run(tmp_path: Path) -> None:
    rows = run_bench(
        tmp_path, "produce,consume,librdkafka,records,producers,partitions,tls,start,idle,mirror,replicate,failover"
    )
    figures = {row: [set(case["tidelog"]) for case in result["cases"]] for row, result in rows.items()}  # type: ignore[attr-defined]
    assert figures == {
        "produce": [{"seconds"}] * 4,
        "consume": [{"seconds"}] * 2,
        "librdkafka": [{"seconds"}, {"cpu_seconds_a_gb"}] * 5,
        "records": [{"seconds"}] * 2,
        "producers": [{"seconds"}, {"cpu_seconds_a_gb"}],
        "partitions": [{"seconds"}] * 3,
        "tls": [{"seconds"}] * 4,
        "start": [{"seconds"}, {"seconds"}, {"megabytes"}],
        "idle": [{"megabytes"}, {"percent"}] * 2,
        "mirror": [{"seconds"}] * 4,
        "replicate": [{"seconds"}, {"cpu_seconds_a_gb"}] * 3 + [{"seconds"}, {"megabytes"}],
        "failover": [{"seconds"}],
    }


@pytest.mark.kafka
@pytest.mark.slow
def test_the_row_of_the_pages_runs(tmp_path: Path) -> None:
    cases = run_bench(tmp_path, "web")["web"]["cases"]
    assert isinstance(cases, list)
    names = [case["name"] for case in cases]
    assert names[0].startswith("first page of a new process, 100 partitions, 1,002 segments")
    assert "/: /" in names
    assert [name.partition(",")[0] for name in names[-5:]] == [
        "memory after all of these pages",
        *["ProducerPerformance"] * 4,
    ]
    assert [set(case["tidelog"]) for case in cases[-5:]] == [
        {"megabytes"},
        *[{"seconds"}, {"cpu_seconds_a_gb"}] * 2,
    ]


def test_the_published_table_is_made_from_the_published_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT)
    report = importlib.import_module("benchmarks.report")
    rows = importlib.import_module("benchmarks.__main__").ROWS
    copy = tmp_path / "README.md"
    copy.write_text(report.README.read_text())
    report.write_table(rows, readme=copy)
    assert copy.read_text() == report.README.read_text()
    scaling = importlib.import_module("benchmarks.scaling")
    assert scaling.published() in copy.read_text()
