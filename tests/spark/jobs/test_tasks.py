"""Python work as Spark tasks, in real Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.inspect.durations import parse_duration
from tidelog.model import ConfigError
from tidelog.spark.jobs.tasks import one_a_partition, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_values_and_errors_come_back_in_order(spark: SparkSession) -> None:
    told: list[int] = []
    found = run_tasks(spark, ["1s", "nonsense", "2m"], parse_duration, size=len, advance=told.append)
    assert (found[0], found[2]) == (1000, 120_000)
    assert isinstance(found[1], ConfigError)
    assert "nonsense" in str(found[1])
    assert sum(told) == len("1snonsense2m")
    assert run_tasks(spark, [], parse_duration) == []


def test_no_two_share_a_task(spark: SparkSession) -> None:
    from pyspark.sql.functions import spark_partition_id

    numbered = one_a_partition(spark, range(7)).select("id", spark_partition_id()).collect()
    assert len({partition for _, partition in numbered}) == len(numbered) == 7
