"""Aggregates from batch headers are those of the Python reader's rows.

The tests without Spark compare tasks of one plan. Those with Spark compare queries, and look for the pushed
aggregate in the plan.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from conftest import GoldenFactory
from golden_sets import SETS
from kernel.batch_bytes import batch, record
from log_maker import data, mark_clean, marker, plain, write_segment
from spark.conftest import READER
from spark.in_process import options_of, reader_of, splits_of
from spark.jvm.damaged_logs import damaged_log
from spark.jvm.row_printer import partial_aggregates
from spark.jvm.test_both_readers import DIRECTORIES, MIXES, python_rows
from tidelog.model import TidelogError
from tidelog.record.compression import compress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

OF_OFFSETS = ("COUNT(*)", "MIN(offset)", "MAX(offset)")
EVERY = (*OF_OFFSETS, "COUNT(partition)", "MIN(timestamp)", "MAX(timestamp)")
GROUPS: tuple[tuple[str, ...], ...] = ((), ("topic",), ("partition",), ("topic", "partition"))
PUSHED = "of batch headers"

Results = dict[tuple[Any, ...], tuple[Any, ...]]


def merged(rows: Iterable[dict[str, Any]], aggregates: Sequence[str], groups: Sequence[str]) -> Results:
    """Merge rows of partial results, as Spark does."""
    found: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        values = found.setdefault(tuple(row[name] for name in groups), [None] * len(aggregates))
        for number, name in enumerate(aggregates):
            parts = [part for part in (values[number], row[name]) if part is not None]
            values[number] = _merge(name)(parts) if parts else None
    return {group: tuple(values) for group, values in found.items()}


def _merge(name: str) -> Any:
    return {"COU": sum, "MIN": min, "MAX": max}[name[:3]]


def of_rows(rows: Iterable[dict[str, Any]], aggregates: Sequence[str], groups: Sequence[str]) -> Results:
    """Compute the aggregates of records."""
    single = [
        {name: row[name] for name in groups}
        | {name: 1 if name.startswith("COUNT") else row[name[4:-1]] for name in aggregates}
        for row in rows
    ]
    return merged(single, aggregates, groups)


def compare(log_dir: Path, aggregates: Sequence[str] = EVERY, **given: Any) -> Results:
    """Check each aggregate alone, then all of them by each kind of group. Return the aggregates of all records."""
    reader = reader_of(log_dir, **given)
    splits = splits_of(reader)
    records = list(python_rows(reader, splits))
    asked: list[tuple[Sequence[str], Sequence[str]]] = [((name,), ()) for name in aggregates]
    for names, groups in [*asked, *((aggregates, groups) for groups in GROUPS)]:
        found = merged(partial_aggregates(reader, splits, names, groups), names, groups)
        expected = of_rows(records, names, groups)
        if not records and not groups and splits:
            expected = {(): tuple(0 if name.startswith("COUNT") else None for name in names)}
        assert found == expected, (names, groups)
    return of_rows(records, aggregates, ())


def write_batches(log_dir: Path, batches: Sequence[bytes]) -> None:
    write_segment(log_dir / "t-0", 0, batches)
    mark_clean(log_dir)


def compacted(base: int, deltas: Sequence[int], width: int, codec: int = 0) -> bytes:
    """Return a batch of ``width`` offsets that has only the records of ``deltas``."""
    records = b"".join(record(delta, b"k", timestamp_delta=0) for delta in deltas)
    fields = {"last_offset_delta": width - 1, "record_count": len(deltas), "attributes": codec}
    return batch(bytes(compress(codec, records)) if deltas else b"", base_offset=base, **fields)


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_directories_of_real_brokers(golden: GoldenFactory, set_name: str, kind: str, mix: str) -> None:
    found = compare(golden(set_name, kind), subscribePattern=".*", **MIXES[mix])
    assert found[()][0] > 0


@pytest.mark.parametrize("codec", [0, 4])
def test_a_compacted_batch_has_the_offsets_of_its_records(tmp_path: Path, codec: int) -> None:
    write_batches(tmp_path, [compacted(0, [2, 5], 10, codec), compacted(10, [0, 7], 10, codec)])
    assert compare(tmp_path, OF_OFFSETS) == {(): (4, 2, 17)}


def test_an_empty_batch_has_neither_records_nor_offsets(tmp_path: Path) -> None:
    write_batches(tmp_path, [compacted(0, [], 10), compacted(10, [3], 10), compacted(20, [], 10, 4)])
    assert compare(tmp_path, OF_OFFSETS) == {(): (1, 13, 13)}


@pytest.mark.parametrize(("start", "end"), [(0, 25), (5, 30), (5, 25), (12, 18), (10, 20)])
def test_a_batch_counts_with_its_records_in_the_range(tmp_path: Path, start: int, end: int) -> None:
    write_batches(tmp_path, [plain(0), plain(10), plain(20)])
    bounds = {"startingOffsets": f'{{"t": {{"0": {start}}}}}', "endingOffsets": f'{{"t": {{"0": {end}}}}}'}
    assert compare(tmp_path, OF_OFFSETS, **bounds) == {(): (end - start, start, end - 1)}
    compare(tmp_path, **bounds)


@pytest.mark.parametrize("log_append", [0, 8])
def test_timestamps_need_not_ascend(tmp_path: Path, log_append: int) -> None:
    records = [record(number, timestamp_delta=delta) for number, delta in enumerate((40, -30, 7))]
    fields = {"base_timestamp": 1000, "max_timestamp": 1040, "attributes": log_append}
    write_batches(tmp_path, [batch(records, base_offset=0, **fields)])
    least = 1040 if log_append else 970
    assert compare(tmp_path, ("MIN(timestamp)", "MAX(timestamp)")) == {(): (1000 * least, 1_040_000)}


@pytest.mark.parametrize("timestamp", [-1, 2**63 - 1])
def test_a_time_beyond_sparks_microseconds_counts_as_null(tmp_path: Path, timestamp: int) -> None:
    one = batch([record(0, timestamp_delta=0)], base_timestamp=timestamp, max_timestamp=timestamp)
    write_batches(tmp_path, [one])
    least = -1000 if timestamp == -1 else None
    assert compare(tmp_path, ("MIN(timestamp)", "MAX(timestamp)")) == {(): (least, least)}


def test_aborted_transactions_and_markers_do_not_count(tmp_path: Path) -> None:
    batches = [data(0, 3, producer_id=1), data(3, 2, producer_id=2), marker(5, False, producer_id=1)]
    write_segment(
        tmp_path / "t-0", 0, [*batches, marker(6, True, producer_id=2)]
    )  # unclean: aborts are found by a scan
    assert compare(tmp_path, OF_OFFSETS, kafka__isolation__level="read_committed") == {(): (2, 3, 4)}
    assert compare(tmp_path, OF_OFFSETS) == {(): (5, 0, 4)}
    assert compare(tmp_path, OF_OFFSETS, includeControlRecords="true") == {(): (7, 0, 6)}


def test_a_group_without_records_has_no_row(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [data(0, 3, producer_id=1), marker(3, False, producer_id=1)])
    assert compare(tmp_path, OF_OFFSETS, kafka__isolation__level="read_committed") == {}


@pytest.mark.parametrize("seed", range(20))
def test_batches_of_any_size(tmp_path: Path, seed: int) -> None:
    """Small batches are read, and the records of large ones are passed over, except those of opened batches."""
    chance = random.Random(seed)
    batches, offset = [], 0
    for _ in range(60):
        size = chance.choice([0, 10, 3000, 4096, 5000, 70_000]) + chance.randrange(100)
        width = chance.choice([1, 1, 1, 3])
        records = [record(0, b"k", bytes(size), timestamp_delta=0)]
        batches.append(batch(records, base_offset=offset, last_offset_delta=width - 1))
        offset += width
    write_batches(tmp_path, batches)
    assert compare(tmp_path, OF_OFFSETS)[()][0] == 60


@pytest.mark.parametrize("seed", range(30))
def test_logs_of_every_format(tmp_path: Path, seed: int) -> None:
    """Headers need not show the damage that the Python reader finds: the aggregates are results, or an error."""
    damaged_log(tmp_path, seed)
    given: dict[str, Any] = {"kafka__isolation__level": ("read_uncommitted", "read_committed")[seed % 2]}
    reader = reader_of(tmp_path, **given)
    splits = splits_of(reader)
    try:
        list(python_rows(reader, splits))
    except TidelogError:
        with contextlib.suppress(TidelogError):
            list(partial_aggregates(reader, splits, OF_OFFSETS))
    else:
        compare(tmp_path, OF_OFFSETS, **given)


def test_records_without_need_are_not_checked(tmp_path: Path) -> None:
    """A wrong byte in a record is found only if its batch is opened."""
    wrong = bytearray(plain(10))
    wrong[-1] ^= 1
    write_batches(tmp_path, [plain(0), bytes(wrong), plain(20)])
    reader = reader_of(tmp_path)
    splits = splits_of(reader)
    [row] = partial_aggregates(reader, splits, OF_OFFSETS)
    assert list(row.values()) == [30, 0, 29]
    with pytest.raises(TidelogError, match="the CRC of a batch does not match"):
        list(partial_aggregates(reader, splits, ["MIN(timestamp)"]))


def test_damage_of_a_header_is_an_error(tmp_path: Path) -> None:
    wrong = bytearray(plain(10))
    wrong[16] = 9
    write_batches(tmp_path, [plain(0), bytes(wrong), plain(20)])
    reader = reader_of(tmp_path)
    with pytest.raises(TidelogError, match="unknown format version"):
        list(partial_aggregates(reader, splits_of(reader), OF_OFFSETS))


QUERIES = {
    "select count(*) from t": True,
    "select count(*), min(offset), max(offset), min(timestamp), max(timestamp) from t": True,
    "select count(offset), count(1), count(timestampType) from t": True,
    "select topic, partition, count(*), max(offset) from t group by topic, partition": True,
    "select partition, max(timestamp) from t group by partition having count(*) > 1": True,
    "select distinct topic from t": True,
    "select count(*), max(offset) from t where offset >= 15 and offset < 37": True,
    "select count(*), min(offset) from t where partition = 1 and topic in ('t', 'u')": True,
    "select count(*), max(offset) from t where offset > 100000": True,
    "select topic, count(*) from t where offset > 100000 group by topic": True,
    "select count(*) from t where t.offset in (3, 17)": False,
    "select count(*) from t where partition < 1": False,
    "select count(*), max(offset) from t where timestamp > timestamp_millis(1700000000015)": False,
    "select count(*) from t where value is not null": False,
    "select count(value), count(timestamp) from t": False,
    "select count(distinct offset) from t": False,
    "select sum(offset), count(*) from t": False,
    "select timestampType, count(*) from t group by timestampType": False,
    "select offset from t where offset between 15 and 17": False,
}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    for number, base in enumerate((0, 10)):
        write_segment(tmp_path / f"t-{number}", base, [plain(base + 10 * part) for part in range(4)])
    mark_clean(tmp_path)
    return tmp_path


def load(spark: SparkSession, log_dir: Path, **given: str) -> DataFrame:
    return spark.read.format("tidelog").options(**options_of(log_dir, **given)).load()


def plan_of(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_queries_of_both_readers(spark: SparkSession, log_dir: Path) -> None:
    found: dict[str, dict[str, list[Any]]] = {}
    for choice in ("jvm", "python"):
        load(spark, log_dir, reader=choice).createOrReplaceTempView("t")
        found[choice] = {query: sorted(map(tuple, spark.sql(query).collect())) for query in QUERIES}
    assert found["jvm"] == found["python"]


def test_the_plan_shows_aggregates_of_headers(spark: SparkSession, log_dir: Path) -> None:
    load(spark, log_dir, reader="jvm").createOrReplaceTempView("t")
    assert {query: PUSHED in plan_of(spark.sql(query)) for query in QUERIES} == QUERIES


@pytest.mark.parametrize(
    ("given", "is_pushed"),
    [
        ({}, True),
        ({"verifyChecksums": "false"}, True),
        ({"verifyChecksums": "true"}, False),
        ({"onCorrupt": "skip"}, False),
        ({"onCorrupt": "report"}, False),
    ],
)
def test_a_read_that_asks_for_checks_opens_every_batch(
    spark: SparkSession, log_dir: Path, given: dict[str, str], is_pushed: bool
) -> None:
    frame = load(spark, log_dir, reader="jvm", **given).where("offset >= 0").groupBy().count()
    assert (PUSHED in plan_of(frame)) == is_pushed
    assert frame.collect()[0][0] == 80


def test_a_session_chooses_headers_by_default(spark: SparkSession, golden: GoldenFactory) -> None:
    frame = load(spark, golden(SETS[0], "clean"), subscribe="flights")
    counts = []
    for choice in ("jvm", "python"):
        spark.conf.set(READER, choice)
        counts.append(load(spark, golden(SETS[0], "clean"), subscribe="flights").count())
    spark.conf.unset(READER)
    assert frame.count() == counts[0] == counts[1] > 0
