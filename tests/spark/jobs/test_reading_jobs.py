"""The reading jobs in real Spark give the results of ``tidelog verify`` and ``tidelog count`` on many directories."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cli.runner import rows as printed
from cli.runner import run
from conftest import GoldenFactory
from golden_sets import FLIGHTS, SCENARIOS
from log_maker import mark_clean, plain, write_checkpoint, write_segment
from tidelog.model import DirectoryError
from tidelog.spark.jobs.audit import audit
from tidelog.spark.jobs.count import count
from tidelog.spark.jobs.work import TASK_BYTES, works_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAMEL = {
    "nextGoodPosition": "next_good_position",
    "nextGoodOffset": "next_good_offset",
    "logStartOffset": "log_start",
    "logEndOffset": "log_end",
    "heldBack": "held_back",
    "recordsAboveHighWatermark": "records_above_hw",
    "offsetsAboveHighWatermark": "offsets_above_hw",
    "sizeBytes": "bytes",
    "highWatermark": "high_watermark",
    "lastStableOffset": "last_stable",
}


def rows_of(table: DataFrame) -> list[dict[str, Any]]:
    return [{CAMEL.get(name, name): value for name, value in row.asDict().items()} for row in table.collect()]


def in_order(rows: list[dict[str, Any]]) -> list[str]:
    """Sort the rows. The jobs have no columns for the replicas of several brokers, which the commands have."""
    return sorted(
        json.dumps({name: value for name, value in row.items() if name not in ("role", "lag")}, sort_keys=True)
        for row in rows
    )


@pytest.fixture
def damaged(golden_copy: GoldenFactory) -> Path:
    directory = golden_copy(SCENARIOS)
    log = directory / "zstd-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    content[100] ^= 1
    log.write_bytes(content)
    (directory / "recovery-point-offset-checkpoint").write_text("0\n1\nmissing 0 5\n")
    return directory


@pytest.mark.spark
def test_audit_finds_what_verify_finds(spark: SparkSession, golden: GoldenFactory, damaged: Path) -> None:
    paths = (golden(FLIGHTS, "unclean"), damaged)
    told: list[tuple[int, int]] = []
    rows = rows_of(audit(spark, paths, on_progress=lambda *now: told.append(now)))
    assert in_order(rows) == in_order(printed("verify", *paths, code=1))
    assert {row["severity"] for row in rows} >= {"error", "warning", None}
    total = sum(work.log_bytes for work in works_of(paths))
    assert (told[0], told[-1]) == ((0, total), (total, total))
    only = rows_of(audit(spark, damaged, topics=["zstd"]))
    assert in_order(only) == in_order(printed("verify", damaged, "zstd", code=1))


@pytest.mark.spark
def test_count_counts_what_count_counts(spark: SparkSession, golden: GoldenFactory, damaged: Path) -> None:
    paths = (golden(FLIGHTS, "unclean"), damaged)
    rows = rows_of(count(spark, paths))
    assert in_order(rows) == in_order(printed("count", *paths, code=3))
    assert [row["topic"] for row in rows if row["error"] is not None] == ["zstd"]
    (row,) = rows_of(count(spark, str(paths[0]), topics={"airports"}, headers_only=True))
    assert (row["records"], row["tombstones"]) == (3304, None)


@pytest.mark.spark
def test_as_commands(spark: SparkSession, damaged: Path, tmp_path: Path) -> None:
    assert "zstd" in run("spark", "audit", damaged, "-t", "zstd", code=1).stdout
    found = printed("spark", "audit", damaged, "--topic", "plain")
    assert {row["kind"] for row in found} == {"outlook"}
    assert printed("spark", "count", damaged, code=3) == [row.asDict() for row in count(spark, damaged).collect()]
    missing = tmp_path / "missing"
    assert str(missing) in run("spark", "count", missing, code=3).stderr
    assert "KEY=VALUE" in run("spark", "count", damaged, "--conf", "x", code=2).stderr


def test_partitions_share_tasks_and_large_ones_come_first(tmp_path: Path) -> None:
    for number in range(5):
        write_segment(tmp_path / f"small-{number}", 0, [plain(0)])
    large = write_segment(tmp_path / "large-0", 0, [plain(0)])
    with large.open("r+b") as file:
        file.truncate(TASK_BYTES)
    mark_clean(tmp_path)
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {})
    first, second = works_of([tmp_path])
    assert [part.directory_name for part in first.partitions] == ["large-0"]
    assert first.log_bytes == TASK_BYTES
    assert len(second.partitions) == 5
    assert [part.topic for work in works_of([tmp_path], ["large"]) for part in work.partitions] == ["large"]
    (tmp_path / "none").mkdir()
    assert works_of([tmp_path], ["none"]) == []


def test_what_is_no_log_directory(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(DirectoryError):
        audit(None, tmp_path)
