"""``format("tidelog")`` in real Spark: the table that users see, and the errors that they get."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import GoldenFactory
from golden_sets import CLUSTER, FLIGHTS, FORMATS, SCENARIOS, UNCLEAN_ELECTION, manifest
from log_maker import BASE_TIME, mark_clean, plain, write_segment
from spark.in_process import options_of
from spark.test_java_pattern import PATTERNS, TOPICS
from tidelog.spark.read.java_pattern import compile_java_pattern
from tidelog.spark.session_builder import PUSHDOWN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("reader")]

Load = Callable[..., "DataFrame"]


@pytest.fixture
def load(spark: SparkSession) -> Load:
    def load(log_dir: Path | str, **given: object) -> DataFrame:
        return spark.read.format("tidelog").options(**options_of(log_dir, **given)).load()

    return load


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write ``t-0`` and ``t-1``: three segments of ten batches of ten records. Times are BASE plus the offset in ms."""
    for name in ("t-0", "t-1"):
        for base in (0, 100, 200):
            write_segment(tmp_path / name, base, [plain(base + 10 * number) for number in range(10)])
    mark_clean(tmp_path)
    return tmp_path


def count(frame: DataFrame) -> int:
    counted: int = frame.count()
    return counted


def message(act: Callable[[], object]) -> str:
    with pytest.raises(Exception) as raised:
        act()
    return str(raised.value)


def test_the_schema_is_that_of_sparks_kafka_source(load: Load, root: Path) -> None:
    def columns(frame: DataFrame) -> list[tuple[str, str, bool]]:
        return [(field.name, field.dataType.simpleString(), field.nullable) for field in frame.schema]

    kafka = [
        ("key", "binary", True),
        ("value", "binary", True),
        ("topic", "string", True),
        ("partition", "int", True),
        ("offset", "bigint", True),
        ("timestamp", "timestamp", True),
        ("timestampType", "int", True),
    ]
    assert columns(load(root)) == kafka
    headers = ("headers", "array<struct<key:string,value:binary>>", True)
    assert columns(load(root, includeHeaders="true")) == [*kafka, headers]
    assert columns(load(root, columns="value,headers")) == [kafka[1], headers]


def test_the_reader_that_is_asked_for_reads(load: Load, root: Path, reader: str) -> None:
    """Only the JVM reader gives Spark columns, which Spark then turns into rows."""

    def plan(**given: object) -> str:
        frame = load(root, **given)
        return str(frame._jdf.queryExecution().executedPlan().toString())

    assert ("ColumnarToRow" in plan()) == (reader == "jvm")
    assert "ColumnarToRow" in plan(reader="jvm")
    assert "ColumnarToRow" not in plan(reader="python")
    assert "ColumnarToRow" not in plan(mode="batches")
    said = message(lambda: load(root, mode="batches", reader="jvm"))
    assert "Option 'reader' can't be jvm: only the Python reader reads mode batches" in said
    assert "must be one of auto, jvm, python; got 'java'" in message(lambda: load(root, reader="java"))


def test_only_the_columns_of_the_query_are_read(load: Load, root: Path) -> None:
    frame = load(root, reader="jvm", includeHeaders="true").selectExpr("length(value) size").where("size > 0")
    scan = next(line for line in frame._jdf.queryExecution().executedPlan().toString().splitlines() if "Scan" in line)
    assert "tidelog struct<value:binary>" in scan
    assert frame.distinct().collect() == [(20,)]


def test_rows(load: Load, root: Path) -> None:
    rows = load(root, includeHeaders="true").where("offset in (0, 299)").orderBy("partition", "offset").collect()
    assert [(row.topic, row.partition, row.offset) for row in rows] == [
        ("t", 0, 0),
        ("t", 0, 299),
        ("t", 1, 0),
        ("t", 1, 299),
    ]
    assert (bytes(rows[1].key), bytes(rows[1].value)) == (b"k", b"%020d" % 299)
    assert rows[1].timestampType == 0
    assert rows[1].headers is None


def test_times_and_headers_of_old_formats(load: Load, golden: GoldenFactory) -> None:
    frame = load(golden(FORMATS), subscribePattern=".*", includeHeaders="true")
    untimed = frame.where("timestampType = -1")
    (row,) = untimed.selectExpr("cast(timestamp as string) t", "headers").distinct().collect()
    assert (row.t, row.headers) == ("1969-12-31 23:59:59.999", None)
    assert frame.where("size(headers) = 0").count() == 0


def test_sql_and_paths(spark: SparkSession, load: Load, root: Path) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW events USING tidelog OPTIONS (logDirs '{root}', subscribe 't')")
    assert spark.sql("SELECT count(*), max(offset) FROM events").collect()[0] == (600, 299)
    assert spark.read.format("tidelog").option("subscribe", "t").load(str(root)).count() == 600
    assert load(root.as_uri()).count() == 600
    assert load(os.path.relpath(root)).count() == 600


def test_tables_of_batches_and_segments(load: Load, golden: GoldenFactory) -> None:
    for kind in ("clean", "unclean"):
        log_dir = golden(FLIGHTS, kind)
        everything = {"subscribePattern": "flights.*", "includeControlRecords": "true"}
        records = load(log_dir, includeBatchMetadata="true", **everything)
        by_batch = records.groupBy("topic", "partition", "batchBaseOffset").agg({"*": "count"})
        batches = load(log_dir, mode="batches", **everything)
        assert batches.where("not crcOk").count() == 0
        assert batches.selectExpr("sum(recordCount)").collect()[0][0] == records.count()
        assert batches.where("recordCount > 0").count() == by_batch.count()
        segments = load(log_dir, mode="segments", **everything)
        on_disk = list(log_dir.glob("flights*/*.log"))
        assert segments.count() == len(on_disk)
        assert segments.where("isActive").count() == segments.select("topic", "partition").distinct().count()


def test_replicas_of_several_brokers(load: Load, golden: GoldenFactory) -> None:
    """Records of the new leader are read after an unclean election, and with ``replica`` those of the old one."""
    root = golden(CLUSTER, UNCLEAN_ELECTION)
    dirs = ",".join(str(root / f"broker{node}") for node in (1, 2, 3))
    counts = {
        choice: load(dirs, subscribe="lossy,plain", replica=choice).groupBy("topic").count().collect()
        for choice in ("leader", "2")
    }
    assert {choice: {row["topic"]: row["count"] for row in found} for choice, found in counts.items()} == {
        "leader": {"lossy": 50, "plain": 1250},
        "2": {"lossy": 70, "plain": 1250},
    }


def test_batch_metadata_and_control_records(load: Load, golden: GoldenFactory) -> None:
    frame = load(golden(FLIGHTS), subscribe="flights-eos", includeBatchMetadata="true", includeControlRecords="true")
    assert frame.where("isControl and not isTransactional").count() == 0
    data = sum(manifest(FLIGHTS)[f"flights-eos-{number}"]["read_uncommitted"]["count"] for number in (0, 1))
    assert frame.where("not isControl").count() == data
    assert frame.where("producerId >= 0 and producerEpoch >= 0").count() == frame.count()
    assert frame.select("compression").distinct().count() >= 1


def test_hints_for_splitting(load: Load, root: Path) -> None:
    assert load(root).rdd.getNumPartitions() == 1
    assert load(root, minPartitions=7).rdd.getNumPartitions() >= 7
    assert load(root, maxRecordsPerPartition=50).rdd.getNumPartitions() >= 12
    assert load(root, minPartitions=3, maxRecordsPerPartition=250).count() == 600


FILTERS = (
    "offset >= 105 and offset < 118",
    "partition = 1 and offset = 7",
    f"timestamp >= timestamp_millis({BASE_TIME + 250})",
    "topic = 'u'",
    "offset in (1, 150, 299) or partition = 0",
    "offset is null",
    "partition <=> 1 and timestamp < timestamp_millis(0)",
)


def test_filters_find_the_same_with_and_without_pushdown(
    spark: SparkSession, load: Load, root: Path, reader: str
) -> None:
    def frame(text: str) -> DataFrame:
        return load(root, splitBytes=3000).where(text)

    def answers() -> list[Any]:
        """Run all filters in one query, which marks each record with the filter's number."""
        parts = [frame(text).selectExpr(f"{number} n", "partition", "offset") for number, text in enumerate(FILTERS)]
        return sorted(reduce(lambda left, right: left.union(right), parts).collect())

    before = spark.conf.get(PUSHDOWN)
    try:
        with_pushdown, fewer = answers(), frame(FILTERS[0]).rdd.getNumPartitions()
        spark.conf.set(PUSHDOWN, "false")
        without = answers() if has_pushdown() else with_pushdown
        all_tasks = frame(FILTERS[0]).rdd.getNumPartitions()
    finally:
        spark.conf.set(PUSHDOWN, before)
    assert with_pushdown == without
    found = Counter(row.n for row in without)
    assert [found[number] for number in range(len(FILTERS))] == [26, 1, 100, 0, 303, 0, 0]
    # The switch is that of Python's data sources: the JVM reader has filters pushed in any case.
    assert all_tasks == (2 if reader == "jvm" else 6)
    assert fewer == (2 if reader == "jvm" or has_pushdown() else all_tasks)


def has_pushdown() -> bool:
    import pyspark.sql.datasource as datasource

    return hasattr(datasource, "EqualTo")


def _planned(load: Load, root: Path, given: dict[str, str]) -> object:
    return load(root, **given).count()


def test_an_error_while_planning_is_a_sentence(load: Load, root: Path) -> None:
    for given, sentence in (
        ({"subscribe": "nope"}, f"nope not found in {root}; set failOnDataLoss to false"),
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'?"),
        ({"startingOffsets": "latest"}, "can't be latest in a batch read"),
        ({"endingOffsets": '{"t":{"0":1}}'}, "must name exactly the partitions that are read"),
    ):
        said = message(partial(_planned, load, root, given))
        assert sentence in said
        assert len(said[: said.index(sentence)].splitlines()) <= 4, said
        assert "planner.py" not in said


def test_a_schema_cannot_be_chosen(spark: SparkSession, root: Path) -> None:
    reader = spark.read.format("tidelog").options(**options_of(root))
    assert reader.schema("value binary, key binary").options(columns="value,key").load().count() == 600
    said = message(lambda: reader.schema("value string").options(columns="value").load().count())
    assert "fixed schema" in said


def test_damage(load: Load, root: Path) -> None:
    size = len(plain(0))
    log = root / "t-1" / f"{100:020d}.log"
    content = bytearray(log.read_bytes())
    content[5 * size - 3] ^= 0xFF
    log.write_bytes(content)
    for read in (load(root).collect, load(root, verifyChecksums="true").count):
        said = message(read)
        assert "the CRC of a batch does not match" in said
        assert f"file {log}, position {4 * size}, offset 140" in said
    assert load(root, onCorrupt="skip").count() == 590
    told = load(root, onCorrupt="report", includeHeaders="true").where("corrupt is not null").collect()
    assert [(row.topic, row.partition, row.offset, row.value) for row in told] == [("t", 1, 140, None)]
    assert load(root, mode="batches").where("not crcOk").select("baseOffset", "position").collect() == [(140, 4 * size)]


def test_patterns_match_as_in_java(spark: SparkSession) -> None:
    for pattern in PATTERNS:
        java = spark._jvm.java.util.regex.Pattern.compile(pattern)
        ours = [topic for topic in TOPICS if compile_java_pattern(pattern).search(topic)]
        assert ours == [topic for topic in TOPICS if java.matcher(topic).find()], pattern


def test_committed_reads_of_an_open_transaction(load: Load, golden: GoldenFactory) -> None:
    wanted = manifest(SCENARIOS)["txn-0"]
    for level, entry in wanted.items():
        frame = load(golden(SCENARIOS, "unclean"), subscribe="txn", kafka__isolation__level=level)
        assert frame.count() == entry["count"]


def test_nothing_to_read(load: Load, root: Path) -> None:
    frame = load(root, subscribePattern="nothing.*")
    assert frame.count() == 0
    assert frame.columns[:2] == ["key", "value"]
