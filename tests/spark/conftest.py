"""The Spark session of all tests that need one: local, or on the master that ``test_clusters`` names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

READER = "spark.tidelog.reader"
FEW = {"spark.sql.shuffle.partitions": "2"}
READERS = ("jvm", "python")
QUIET = FEW | {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "OFF"}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    import tidelog.spark
    from tidelog.spark.session_builder import CONNECT

    master = os.environ.get("SPARK_REMOTE", os.environ.get("TIDELOG_TEST_MASTER", "local[2]"))
    before = {name: os.environ.get(name) for name in ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")}
    for name in before:
        os.environ.pop(name, None)
    session = tidelog.spark.session("tests", master=master, config=FEW if master.startswith(CONNECT) else QUIET)
    yield session
    session.stop()
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value


@pytest.fixture(params=[pytest.param("jvm", marks=pytest.mark.spark), "python"])
def row_reader(request: pytest.FixtureRequest) -> Iterator[str]:
    """Let ``in_process.rows`` read by the JVM reader, and then by Python's, both without Spark."""
    from spark.in_process import CHOICE

    CHOICE.jvm = request.param == "jvm"
    yield request.param
    CHOICE.jvm = False


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    """Let the session's reads be those of the JVM reader, and then Python's."""
    chosen: str = request.param
    spark.conf.set(READER, chosen)
    yield chosen
    spark.conf.unset(READER)
