"""Run by an interpreter that has PySpark: reads partitions of log directories through Spark, prints manifest entries.

Arguments: a JSON list of [log directory, {partition: [isolation levels]}]. Prints one JSON object on the last line:
log directory -> partition -> isolation level -> low, high, count, first, last, sha256; and PySpark's version.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pyspark
from pyspark.sql import SparkSession

import tidelog.spark
from record_lines import manifest_entry
from tidelog import Record, TimestampType
from tidelog.spark.options import ReadOptions
from tidelog.spark.planner import plan
from tidelog.spark.pruning import Pruning


def main() -> None:
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", "spark.log.level": "ERROR"}
    spark = tidelog.spark.session("manifest", master="local[2]", config=quiet)
    result: dict[str, Any] = {"version": pyspark.__version__}
    for log_dir, partitions in json.loads(sys.argv[1]):
        result[log_dir] = {partition: {} for partition in partitions}
        for isolation in ("read_uncommitted", "read_committed"):
            wanted = sorted(partition for partition, levels in partitions.items() if isolation in levels)
            if wanted:
                for partition, entry in entries(spark, log_dir, wanted, isolation).items():
                    result[log_dir][partition][isolation] = entry
    spark.stop()
    print(json.dumps(result))


def entries(spark: SparkSession, log_dir: str, partitions: list[str], isolation: str) -> dict[str, Any]:
    assigned: dict[str, list[int]] = {}
    for partition in partitions:
        topic, _, number = partition.rpartition("-")
        assigned.setdefault(topic, []).append(int(number))
    options = {
        "logDirs": log_dir,
        "assign": json.dumps(assigned),
        "includeHeaders": "true",
        "kafka.isolation.level": isolation,
        "until": "high_watermark",
    }
    rows = spark.read.format("tidelog").options(**options).load()
    table = rows.selectExpr(
        "concat(topic, '-', partition) name",
        "offset",
        "unix_millis(timestamp) ts",
        "timestampType",
        "key",
        "value",
        "headers",
    )
    found: dict[str, list[Record]] = {partition: [] for partition in partitions}
    for row in table.collect():
        headers = tuple((header.key, header.value and bytes(header.value)) for header in row.headers or ())
        found[row.name].append(
            Record(
                row.offset,
                row.ts,
                TimestampType(row.timestampType),
                _bytes(row.key),
                _bytes(row.value),
                headers,  # type: ignore[arg-type]
            )
        )
    ends = dict(_ends(ReadOptions.parse(options)))
    result = {}
    for partition, records in found.items():
        low, high = ends.get(partition, (0, 0))
        result[partition] = manifest_entry(sorted(records), low=low, high=high)
    return result


def _ends(options: ReadOptions) -> Iterator[tuple[str, tuple[int, int]]]:
    """Where the planner begins and ends each partition: ``low`` and ``high``."""
    pieces = [piece for split in plan(options, Pruning()) for piece in split.pieces]
    for partition in {piece.partition for piece in pieces}:
        own = [piece for piece in pieces if piece.partition == partition]
        yield str(partition), (min(piece.start for piece in own), max(piece.end for piece in own))


def _bytes(value: bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


if __name__ == "__main__":
    main()
