"""The cases that ``test_clusters`` runs on Spark Connect and on a cluster, in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cli.runner import rows as printed
from conftest import GoldenFactory
from dirty_directory import EVERY_LOG, TOPIC, make_dirty
from golden_sets import FLIGHTS
from log_maker import BASE_TIME, mark_clean, plain, write_segment
from spark.in_process import options_of
from spark.in_process import rows as rows_in_process
from spark.schema_topic_maker import encoded, registered, write_schema_topic
from tidelog.runtime.clock import FixedClock
from tidelog.spark import from_avro
from tidelog.spark.jobs.compact import JobOptions, compact
from tidelog.spark.jobs.count import count
from tidelog.spark.jobs.export import ExportOptions, export
from tidelog.spark.jobs.restore import read_table, restore
from tidelog.spark.read.table_columns import Mode
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.compact.compact import compact_directory
from tidelog.storage.manager.compact.compact_plan import CompactOptions
from tidelog.storage.manager.survey.setting_sources import SettingSources

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EVERYTHING = {"subscribePattern": ".*", "includeControlRecords": "true"}
SETTINGS = {TOPIC: EVERY_LOG | {"segment.bytes": "4096", "min.cleanable.dirty.ratio": "0"}}
NOW_MS = BASE_TIME + 1_000_000


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize("modes", [(Mode.RECORDS, Mode.GROUPS), tuple(Mode)], ids=["some", "every"])
def test_tables(spark: SparkSession, golden: GoldenFactory, modes: tuple[Mode, ...]) -> None:
    for mode in modes:
        options = options_of(golden(FLIGHTS), mode=mode, **EVERYTHING)
        spark.read.format("tidelog").options(**options).load().createOrReplaceTempView(f"{mode}_table")
    found = spark.sql(" UNION ALL ".join(f"SELECT '{mode}', count(*) FROM {mode}_table" for mode in modes)).collect()
    counts = {mode: len(rows_in_process(golden(FLIGHTS), mode=mode, **EVERYTHING)) for mode in modes}
    assert dict(map(tuple, found)) == counts


@pytest.mark.usefixtures("reader")
def test_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("t-0", "t-1"):
        write_segment(tmp_path / "logs" / name, 0, [plain(10 * number) for number in range(10)])
    mark_clean(tmp_path / "logs")
    options = options_of(tmp_path / "logs", startingOffsets="earliest")
    frame = spark.readStream.format("tidelog").options(**options).load().select("partition", "offset")
    writer = frame.writeStream.format("json").option("path", str(tmp_path / "sink"))
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    lines = [line for file in (tmp_path / "sink").glob("*.json") for line in file.read_text().splitlines()]
    found = sorted((row["partition"], row["offset"]) for row in map(json.loads, lines))
    assert found == [(partition, offset) for partition in (0, 1) for offset in range(100)]


def test_sinks(spark: SparkSession, tmp_path: Path) -> None:
    """Tasks in several processes stage the rows of a batch and a stream, and the driver commits them."""
    log_dir = str(tmp_path / "copy")
    rows = spark.range(100).selectExpr("cast(id as string) key", "cast(id as string) value")
    rows.write.format("tidelog").option("logDirs", log_dir).option("topic", "t").mode("append").save()
    given = options_of(tmp_path / "copy", startingOffsets="earliest")
    stream = spark.readStream.format("tidelog").options(**given).load().select("value")
    writer = stream.writeStream.format("tidelog").option("logDirs", log_dir).option("topic", "u")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    for topic in ("t", "u"):
        values = [int(row["value"]) for row in rows_in_process(tmp_path / "copy", subscribe=topic)]
        assert sorted(values) == list(range(100))


def test_decoded_values(spark: SparkSession, tmp_path: Path) -> None:
    from pyspark.sql import functions

    schema = {"type": "record", "name": "Flight", "fields": [{"name": "number", "type": "long"}]}
    write_schema_topic(tmp_path, [registered("flights-value", 1, 7, schema)])
    values = [encoded(7, schema, {"number": number}) for number in range(100)]
    frame = spark.createDataFrame([(value,) for value in values], "value binary").repartition(4)
    rows = frame.select(from_avro("value", tmp_path).alias("flight")).select("flight.number").collect()
    assert sorted(row["number"] for row in rows) == list(range(100))
    unreadable = spark.range(1).select(from_avro(functions.lit(b"no prefix"), tmp_path))
    with pytest.raises(Exception, match="a value of 9 bytes is not in the wire format"):
        unreadable.collect()


def test_jobs_that_read(spark: SparkSession, golden: GoldenFactory) -> None:
    told: list[tuple[int, int]] = []
    rows = count(spark, golden(FLIGHTS), on_progress=lambda *now: told.append(now)).collect()
    assert {(row["topic"], row["partition"]): row["records"] for row in rows} == {
        (row["topic"], row["partition"]): row["records"] for row in printed("count", golden(FLIGHTS))
    }
    assert told[-1][0] == told[-1][1] > 0
    assert {row["kind"] for row in printed("spark", "audit", golden(FLIGHTS), "--topic", "flights")} == {"outlook"}


def test_what_was_exported_is_restored(spark: SparkSession, golden: GoldenFactory, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    options = ExportOptions(path=str(tmp_path / "out"))
    export(spark, golden(FLIGHTS), options, topics=["flights"], on_progress=lambda *now: told.append(now))
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] > 0
    told.clear()
    table = read_table(spark, str(tmp_path / "out"))
    done = restore(spark, table, tmp_path / "data", apply=True, on_progress=lambda *now: told.append(now)).collect()
    assert {row["error"] for row in done} == {None}
    assert told == sorted(told)
    assert told[-1][0] == told[-1][1] == sum(row["dataBytes"] for row in done)
    expected = rows_in_process(golden(FLIGHTS), subscribe="flights")
    assert rows_in_process(tmp_path / "data", subscribe="flights") == expected


def test_a_log_over_many_tasks(spark: SparkSession, tmp_path: Path) -> None:
    dirty = make_dirty(tmp_path / "data", partitions=1)
    expected = shutil.copytree(dirty, tmp_path / "expected")
    sources = SettingSources(topic_overrides=SETTINGS)
    compact_directory(LOCAL, expected, CompactOptions(sources=sources, clock=FixedClock(NOW_MS)))
    options = JobOptions(topic_settings=SETTINGS, now_ms=NOW_MS, spread_bytes=0)
    [row] = compact(spark, dirty, options, apply=True).collect()
    assert (row["error"], row["tasks"] > 1) == (None, True)
    assert {path.name: path.read_bytes() for path in (dirty / "t-0").iterdir()} == {
        path.name: path.read_bytes() for path in (expected / "t-0").iterdir()
    }


def test_object_storage(spark: SparkSession, golden: GoldenFactory) -> None:
    options = options_of(os.environ["TIDELOG_TEST_BACKUP"], subscribe="flights")
    found = spark.read.format("tidelog").options(**options).load().selectExpr("count(*)", "sum(offset)").collect()
    offsets = [row["offset"] for row in rows_in_process(golden(FLIGHTS), subscribe="flights")]
    assert found == [(len(offsets), sum(offsets))]
