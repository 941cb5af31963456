"""Every manifest entry of the golden directories, read through real Spark."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import GoldenFactory
from golden_sets import KRAFT_SETS, SETS, manifest
from record_lines import manifest_entry
from spark.in_process import reader_of, splits_of
from tidelog import Record, TimestampType

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIRECTORIES = [
    (set_name, kind) for set_name in SETS for kind in (("clean", "unclean") if set_name in KRAFT_SETS else ("clean",))
]
ISOLATION = ("read_uncommitted", "read_committed")


@pytest.mark.spark
@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_every_entry(spark: SparkSession, golden: GoldenFactory, set_name: str, kind: str) -> None:
    wanted = manifest(set_name)
    found: dict[str, dict[str, Any]] = {partition: {} for partition in wanted}
    for level in ISOLATION:
        partitions = [partition for partition, levels in wanted.items() if level in levels]
        if not partitions:
            continue
        for partition, entry in entries(spark, golden(set_name, kind), partitions, level):
            found[partition][level] = entry
    assert found == wanted


def entries(
    spark: SparkSession, log_dir: Path, partitions: list[str], isolation: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield all entries from one query. A manifest's ``high`` is the end of a consumer's read."""
    assigned: dict[str, list[int]] = {}
    for partition in partitions:
        topic, _, number = partition.rpartition("-")
        assigned.setdefault(topic, []).append(int(number))
    options: dict[str, Any] = {
        "assign": json.dumps(assigned),
        "includeHeaders": "true",
        "kafka.isolation.level": isolation,
        "until": "high_watermark",
    }
    rows = spark.read.format("tidelog").option("logDirs", str(log_dir)).options(**options).load()
    records: dict[str, list[Record]] = {partition: [] for partition in partitions}
    millis = "unix_millis(timestamp) ms"
    for row in rows.selectExpr(
        "topic", "partition", "offset", millis, "timestampType", "key", "value", "headers"
    ).collect():
        headers = tuple((header.key, _bytes(header.value)) for header in row.headers or ())
        kind = TimestampType(row.timestampType)
        record = Record(row.offset, row.ms, kind, _bytes(row.key), _bytes(row.value), headers)  # type: ignore[arg-type]
        records[f"{row.topic}-{row.partition}"].append(record)
    bounds: dict[str, tuple[int, int]] = {}
    for split in splits_of(reader_of(log_dir, **options)):
        for piece in split.pieces:
            low, high = bounds.get(str(piece.partition), (piece.start, piece.end))
            bounds[str(piece.partition)] = (min(low, piece.start), max(high, piece.end))
    for partition, found in records.items():
        low, high = bounds.get(partition, (0, 0))
        yield partition, manifest_entry(sorted(found), low=low, high=high)


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)
