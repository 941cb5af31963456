"""Tests of real Spark repeated on the oldest supported PySpark, in its own environment.

``make test`` runs the tests that depend on the release: sources, sinks, streams, errors, filters. ``make soak`` runs
all of them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from spark_jvm import plain_environment

ROOT = Path(__file__).resolve().parents[2]
INTERPRETER = ROOT / ".venv-spark40" / "bin" / "python"
VERSION = "4.0.0"

ROOMS = (
    "tests/spark/test_source.py",
    "tests/spark/test_stream_source.py",
    "tests/spark/test_from_avro.py",
    "tests/spark/write/test_sinks.py",
)
QUICK = (
    "schema_is_that or test_rows or pushdown or error_while_planning or test_damage"
    " or test_limits_lag or what_is_written_is_read or TestStreams or test_from_avro"
)
AVRO_JAR = ROOT / ".cache" / "spark-kafka-4.0.0" / "spark-avro_2.13-4.0.0.jar"
OWN_SESSIONS = (str(Path(__file__).relative_to(ROOT)), "tests/spark/clusters")


@pytest.mark.spark
@pytest.mark.timeout(2400)
def test_sources_and_sinks() -> None:
    run_tests_there(*ROOMS, "-k", QUICK)


@pytest.mark.spark
def test_avro_by_sparks_own_package() -> None:
    """Only this release's package is fetched. PySpark takes the jar from the variable."""
    assert AVRO_JAR.exists(), "`make spark-kafka-jars` fetches it"
    run_tests_there("tests/spark/test_from_avro.py", PYSPARK_SUBMIT_ARGS=f"--jars {AVRO_JAR} pyspark-shell")


@pytest.mark.slow
@pytest.mark.spark
def test_every_spark_test() -> None:
    run_tests_there("tests/spark", *(f"--ignore={path}" for path in OWN_SESSIONS))


@pytest.mark.slow
@pytest.mark.spark
def test_the_examples_of_the_docs() -> None:
    run_tests_there("tests/spark/test_spark_docs.py", marked="spark")


def run_tests_there(*arguments: str, marked: str = "spark and not slow", **more: str) -> None:
    """Run tests, with ``more`` variables in their environment."""
    assert INTERPRETER.exists(), "`make spark40` makes its environment"
    environment = plain_environment() | more
    version = subprocess.run(
        [INTERPRETER, "-c", "import pyspark; print(pyspark.__version__)"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert version.stdout.strip() == VERSION
    command = [str(INTERPRETER), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marked, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-1000:]
