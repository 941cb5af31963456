"""``spark.readStream.format("tidelog")`` in real Spark."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from log_maker import mark_clean, plain, write_segment
from spark.in_process import options_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("reader")]

TELLS_WHERE_A_BATCH_BEGINS = importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None
Stream = Callable[..., "DataFrame"]


@pytest.fixture
def stream(spark: SparkSession) -> Stream:
    def stream(log_dir: Path, **given: object) -> DataFrame:
        return spark.readStream.format("tidelog").options(**options_of(log_dir, **given)).load()

    return stream


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write ``t-0`` with offsets 0 to 100 and ``t-1`` with 0 to 50."""
    write_segment(tmp_path / "logs" / "t-0", 0, [plain(10 * number) for number in range(10)])
    write_segment(tmp_path / "logs" / "t-1", 0, [plain(10 * number) for number in range(5)])
    mark_clean(tmp_path / "logs")
    return tmp_path / "logs"


def run(
    frame: DataFrame, checkpoint: Path, *, available_now: bool
) -> tuple[list[tuple[int, int]], list[dict[str, Any]]]:
    """Run the query over all available data. Return (partition, offset) of rows, and progress of batches with rows."""
    rows: list[tuple[int, int]] = []

    def take(batch: DataFrame, number: int) -> None:
        rows.extend((row.partition, row.offset) for row in batch.select("partition", "offset").collect())

    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    query = (writer.trigger(availableNow=True) if available_now else writer).start()
    try:
        if available_now:
            assert query.awaitTermination(120)
        else:
            query.processAllAvailable()
        progress = [_plain(one) for one in query.recentProgress]
    finally:
        query.stop()
    return sorted(rows), [one for one in progress if one["numInputRows"]]


def test_limits_lag_and_a_restart_that_reads_what_came_since(stream: Stream, root: Path, tmp_path: Path) -> None:
    frame = stream(root, startingOffsets="earliest", maxOffsetsPerTrigger=90)
    rows, batches = run(frame, tmp_path / "checkpoint", available_now=False)
    assert rows == [*((0, offset) for offset in range(100)), *((1, offset) for offset in range(50))]
    assert [progress["numInputRows"] for progress in batches] == [90, 60]
    source = batches[0]["sources"][0]
    assert _offsets(source["endOffset"]) == {"t": {"0": 60, "1": 30}}
    if TELLS_WHERE_A_BATCH_BEGINS:
        assert _offsets(source["latestOffset"]) == {"t": {"0": 100, "1": 50}}
    write_segment(root / "t-0", 100, [plain(100)])
    write_segment(root / "t-2", 0, [plain(0)])
    rows, _ = run(frame, tmp_path / "checkpoint", available_now=True)
    assert rows == [*((0, offset) for offset in range(100, 110)), *((2, offset) for offset in range(10))]
    newest = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))
    assert json.loads(newest.read_text().splitlines()[-1]) == {"t": {"0": 110, "1": 50, "2": 10}}


def _plain(progress: Any) -> dict[str, Any]:
    """Convert progress to a dictionary. Spark 4 returns objects or dictionaries, depending on the release."""
    plain_progress: dict[str, Any] = json.loads(progress.json) if hasattr(progress, "json") else progress
    return plain_progress


def _offsets(value: object) -> object:
    return json.loads(value) if isinstance(value, str) else value
