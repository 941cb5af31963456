"""The restore job in real Spark: it restores exported records, and gives a reason if that is impossible."""

from __future__ import annotations

import datetime
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import tidelog
from cli.runner import rows as printed
from cli.runner import run as command
from conftest import GoldenFactory
from golden_sets import SCENARIOS, footprint
from log_maker import mark_clean, plain, write_segment
from real_kafka.broker import Broker
from real_kafka.tools import kafka_consume
from tidelog.model import ConfigError, DirectoryError, LockedError, TopicPartition
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.spark.jobs.export import ExportOptions, export
from tidelog.spark.jobs.restore import read_table, restore
from tidelog.spark.jobs.staging import new_staging
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SOME = "append-time|compacted|trimmed|txn|zstd"
COLUMNS = "topic string, partition int, offset bigint, timestamp timestamp, value string"
NOON = datetime.datetime(2001, 1, 1, 12, tzinfo=datetime.UTC)


def read(spark: SparkSession, path: Path, topics: str = ".*") -> list[dict[str, Any]]:
    reader = spark.read.format("tidelog").option("logDirs", str(path)).option("subscribePattern", topics)
    table = reader.option("includeHeaders", "true").load().orderBy("topic", "partition", "offset")
    return [row.asDict(recursive=True) for row in table.collect()]


def table_of(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), COLUMNS)


def rows_of(table: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in table.collect()]


@pytest.mark.parametrize("topics", [SOME, pytest.param(".*", marks=pytest.mark.slow)])
def test_what_was_exported_is_there_again(
    spark: SparkSession, golden: GoldenFactory, tmp_path: Path, topics: str
) -> None:
    """Codecs, compacted and trimmed logs, transactions, broker times and headers are restored."""
    source, out, target = golden(SCENARIOS), tmp_path / "out", tmp_path / "target"
    exported = export(spark, source, ExportOptions(path=str(out), read={"subscribePattern": topics})).collect()
    table = read_table(spark, str(out))
    planned = rows_of(restore(spark, table, target))
    assert not target.exists()
    told: list[tuple[int, int]] = []
    done = rows_of(restore(spark, table, target, apply=True, on_progress=lambda *now: told.append(now)))
    assert {row["error"] for row in (*planned, *done)} == {None}
    assert sum(row["records"] for row in done) == sum(row["records"] for row in exported)
    assert told[-1] == (sum(row["dataBytes"] for row in planned),) * 2
    assert read(spark, target) == read(spark, source, topics)
    assert {row["message"] for row in printed("verify", target)} == {"loads it as it is"}
    assert {row["condition"] for row in printed("info", target)} == {"clean"}
    ends = {(row["topic"], row["partition"]): row["lastOffset"] + 1 for row in planned}
    assert {(row["topic"], row["partition"]): row["logEndOffset"] for row in done} == ends
    assert not list(target.glob("*-delete"))


def test_an_empty_log_is_replaced_and_others_stay(spark: SparkSession, tmp_path: Path) -> None:
    for number in range(3):
        with tidelog.open_log(tmp_path / f"t-{number}") as log:
            if number == 1:
                log.append(b"mine")
    (tmp_path / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw")
    table = table_of(spark, *(("t", number, 5, NOON, f"value {number}") for number in range(2)))
    planned = rows_of(restore(spark, table, tmp_path))
    assert [(row["partition"], row["replacesEmpty"]) for row in planned] == [(0, True), (1, False)]
    assert "has records: offsets 0 to 0" in planned[1]["error"]
    rows = rows_of(restore(spark, table, tmp_path, apply=True, settings={"t": {"compression.type": "zstd"}}))
    assert [(row["partition"], row["error"]) for row in rows] == [(0, None), (1, planned[1]["error"])]
    assert [(row["partition"], row["offset"], row["value"]) for row in read(spark, tmp_path)] == [
        (0, 5, b"value 0"),
        (1, 0, b"mine"),
    ]
    assert "AAAAAAAAAAAAAAAAAAAABw" in (tmp_path / "t-0" / "partition.metadata").read_text()
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["t-0", "t-1", "t-2"]
    assert CleanShutdownFile(LOCAL, tmp_path).exists()


def test_what_no_log_can_be_made_of(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(
        spark,
        ("good", 0, 1, NOON, "v"),
        ("twice", 0, 1, NOON, "v"),
        ("twice", 0, 1, NOON, "w"),
        ("timeless", 0, 0, None, "v"),
        ("nowhere", 0, None, NOON, "v"),
        ("below", 0, -1, NOON, "v"),
        ("no topic!", 0, 0, NOON, "v"),
        ("t", -1, 0, NOON, "v"),
        (None, 0, 0, NOON, "v"),
    )
    (tmp_path / "data").mkdir()
    for apply in (False, True):
        errors = {row["topic"]: row["error"] for row in rows_of(restore(spark, table, tmp_path / "data", apply=apply))}
        assert errors == {
            "good": None,
            "twice": "rows with an offset that another row has: 1",
            "timeless": "rows without a timestamp: 1",
            "nowhere": "rows without an offset: 1",
            "below": "a row has the offset -1",
            "no topic!": "no topic!-0 is not a partition",
            "t": "t--1 is not a partition",
            None: "rows without a topic or a partition: 1",
        }
    assert sorted(path.name for path in (tmp_path / "data").iterdir() if path.is_dir()) == ["good-0"]


def test_what_is_refused_at_once(spark: SparkSession, tmp_path: Path) -> None:
    table = table_of(spark, ("t", 0, 1, NOON, "v"))
    for wrong, sentence in (
        (table.drop("offset", "value"), "no column offset, value"),
        (table.withColumn("value", table["offset"]), "the column value is bigint; it must be binary or string"),
        (table.withColumn("topic", table["offset"]), "the column topic is bigint"),
    ):
        with pytest.raises(ConfigError, match=sentence):
            restore(spark, wrong, tmp_path)
    (tmp_path / "letters").mkdir()
    with pytest.raises(DirectoryError):
        restore(spark, table, tmp_path)
    held = tmp_path / "held"
    write_segment(held / "u-0", 0, [plain(0)])
    lock = LOCAL.lock(held / ".lock")
    with pytest.raises(LockedError):
        restore(spark, table, held, apply=True)
    lock.release()


def test_what_a_killed_job_leaves_is_rubbish(spark: SparkSession, tmp_path: Path) -> None:
    """A staged log, complete or not, is no partition, and the next job restores."""
    write_segment(tmp_path / "u-0", 0, [plain(0)])
    staged = new_staging(tmp_path, TopicPartition("t", 0), "0" * 16)
    write_segment(staged, 7, [plain(7)])
    (tmp_path / "tidelog-sink-checkpoint").write_text("0\n0\n")
    assert [row["topic"] for row in printed("info", tmp_path)] == ["u"]
    table = table_of(spark, ("t", 0, 1, NOON, "v"))
    before = footprint(tmp_path)
    assert [row["error"] for row in rows_of(restore(spark, table, tmp_path))] == [None]
    assert footprint(tmp_path) == before
    assert [row["error"] for row in rows_of(restore(spark, table, tmp_path, apply=True))] == [None]
    assert [(row["topic"], row["offset"]) for row in read(spark, tmp_path)] == [
        ("t", 1),
        *(("u", at) for at in range(10)),
    ]
    assert not CleanShutdownFile(LOCAL, tmp_path).exists()  # it was unclean before, so its broker must recover it


def test_the_command(spark: SparkSession, tmp_path: Path) -> None:
    out, data = tmp_path / "out", tmp_path / "data"
    table = table_of(spark, ("007", 0, 1, NOON, "v"), ("t", 0, 0, NOON, "v"))
    table.write.partitionBy("topic").parquet(str(out))
    assert "Nothing was changed" in command("spark", "restore", out, data).stdout
    (row,) = printed("spark", "restore", out, data, "--apply", "--topic", "007")
    assert (row["topic"], row["logEndOffset"], row["segments"]) == ("007", 2, 1)
    rows = printed("spark", "restore", out, data, "--apply", code=3)
    assert {row["topic"]: row["error"] is None for row in rows} == {"t": True, "007": False}
    table.createOrReplaceTempView("records")
    assert "has records" in command("spark", "restore", "records", data, "--catalog", code=3).stdout


def test_without_pandas(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PySpark names the missing library before anything is written."""
    write_segment(tmp_path / "u-0", 0, [plain(0)])
    mark_clean(tmp_path)
    table = table_of(spark, ("t", 0, 1, NOON, "v"))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"Pandas >= .* must be installed"):
        restore(spark, table, tmp_path, apply=True)
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["u-0"]
    assert CleanShutdownFile(LOCAL, tmp_path).exists()


@pytest.mark.kafka
@pytest.mark.slow
def test_a_broker_goes_on_with_what_was_restored(spark: SparkSession, tmp_path: Path) -> None:
    """Kafka accepts gaps, removes staged files of a killed job, and the topic keeps its id."""
    now = datetime.datetime.fromtimestamp(SYSTEM_CLOCK.now_ms() // 1000, datetime.UTC)
    rows = [("t", number, 3 * at, now, f"value {at}") for number in range(2) for at in range(5000)]
    data = tmp_path / "data"
    with Broker(data, work=tmp_path / "work") as broker:
        broker.format()
        broker.start()
        broker.create_topic("t", partitions=2)
        broker.stop()
        staged = new_staging(data, TopicPartition("t", 0), "0" * 16)
        write_segment(staged, 7, [plain(7)])
        done = rows_of(restore(spark, table_of(spark, *rows), data, apply=True))
        assert [(row["replacesEmpty"], row["error"]) for row in done] == [(True, None)] * 2
        broker.start()
        found = kafka_consume(broker.bootstrap, ["t-0", "t-1"])
        broker.stop()
    for records in found.values():
        assert [(one[0], one[4]) for one in records] == [(3 * at, b"value %d" % at) for at in range(5000)]
    assert {row["error"] for row in printed("count", data)} == {None}
