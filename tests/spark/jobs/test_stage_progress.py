"""Progress of Spark's own work in real Spark. ``test_clusters`` also runs this on Spark Connect."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from tidelog.spark.jobs.progress import stage_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PATIENCE_S = 120
TOTAL = 1000


def test_a_task_that_has_ended_is_told_while_another_runs(spark: SparkSession, tmp_path: Path) -> None:
    seen, end = tmp_path / "seen", time.time() + PATIENCE_S
    told: list[tuple[int, int]] = []

    def on_progress(done: int, total: int) -> None:
        told.append((done, total))
        if 0 < done < total:
            seen.touch()

    def one_waits(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            while batch.column("id")[0].as_py() == 1 and not seen.exists() and time.time() < end:
                time.sleep(0.05)
            yield batch

    with stage_progress(spark, TOTAL, on_progress):
        assert spark.range(0, 2, 1, 2).mapInArrow(one_waits, "id bigint").collect() == [(0,), (1,)]
    assert (TOTAL // 2, TOTAL) in told
    assert (told[0], told[-1]) == ((0, TOTAL), (TOTAL, TOTAL))
    assert told == sorted(told)
