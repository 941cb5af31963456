"""docs/spark-audits.md is correct: its tables equal the code's, and its queries run on real brokers' directories."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, SCENARIOS, manifest
from spark.in_process import reader_of, splits_of
from tidelog.spark.read.schema import TABLES, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark-audits.md").read_text()
VIEWS = re.findall(r"^```python\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
QUERIES = re.findall(r"^([^\n]+):\n\n```sql\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)

PLAIN = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
}
"""Settings without compilation, which would take most of the time of many queries over few rows."""


def test_every_table_has_its_columns() -> None:
    for mode, schema in TABLES.items():
        table = PAGE.partition(f"\n### {mode}\n")[2].partition("\n#")[0]
        rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in table.splitlines() if line[:3] == "| `"]
        assert [row[0].strip("`") for row in rows] == schema.names, mode
        assert [row[1] for row in rows] == [field.dataType.simpleString() for field in spark_schema(schema)], mode
    assert set(re.findall(r"^### (\w+)$", PAGE, flags=re.MULTILINE)) == {mode.value for mode in TABLES}


@pytest.mark.spark
def test_the_queries_run(spark: SparkSession, golden: GoldenFactory, golden_copy: GoldenFactory) -> None:
    """The queries run on the directories of two brokers, one of them with a broken batch."""
    copied = golden_copy(SCENARIOS)
    broken = copied / "zstd-0" / f"{0:020d}.log"
    content = bytearray(broken.read_bytes())
    content[100] ^= 1
    broken.write_bytes(content)
    (views,) = VIEWS
    log_dirs = f"{golden(FLIGHTS)},{copied}"
    exec(compile(views.replace("/var/lib/kafka", log_dirs), "docs", "exec"), {})
    assert spark.table("transactions").count() == 1
    for mode in TABLES:
        # These are the same rows without Spark's workers, whose start would take most of this test's time.
        reader = reader_of(log_dirs, subscribePattern=".*", onCorrupt="report", mode=mode)
        batches = [batch for split in splits_of(reader) for batch in reader.read(split)]
        frame = spark.createDataFrame(pa.Table.from_batches(batches, reader.options.arrow_schema))
        assert frame.schema == spark.table(mode).schema
        frame.createOrReplaceTempView(mode)
    for setting, value in PLAIN.items():
        spark.conf.set(setting, value)
    try:
        check({title: spark.sql(query).collect() for title, query in QUERIES})
    finally:
        for setting in PLAIN:
            spark.conf.unset(setting)


def check(found: dict[str, list[Row]]) -> None:
    def starting(title: str) -> list[Any]:
        (rows,) = [rows for name, rows in found.items() if name.startswith(title)]
        return rows

    assert len(found) == len(QUERIES) >= 16
    largest = starting("The largest topics")
    assert {row.topic: row.partitions for row in largest}["flights"] == 4
    assert {row.compression for row in starting("By codec")} == {"none", "gzip", "snappy", "lz4", "zstd"}
    (crc,) = starting("Segments with batches that fail")
    assert (crc.topic, crc.segmentBaseOffset, crc.batches) == ("zstd", 0, 1)
    assert starting("What could not be read") == []
    assert {row.topic for row in starting("Records that compaction")} >= {"compacted"}
    assert {row.topic for row in starting("Gaps")} <= {"compacted", "airports", "delays", "zstd"}
    (hanging,) = starting("Transactions that hang")
    assert (hanging.topic, hanging.startOffset, hanging.heldBackRecords) == ("txn", 516, 45)
    left = starting("What groups have still to read")
    assert {row.group for row in left} == {"billing", "dashboards"}
    assert len(left) == 7
    ends = {name: levels["read_uncommitted"]["high"] for name, levels in manifest(FLIGHTS).items()}
    for row in left:
        assert (row.bytesLeft > 0) == (row.offset < ends[f"{row.topic}-{row.partition}"]), row
    assert starting("Groups whose next record") == []
    assert {row.topic for row in starting("Partitions with many producers")} >= {"txn", "flights"}
    assert {row.topic for row in starting("Aborted transactions")} == {"txn", "flights-eos"}
