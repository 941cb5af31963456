"""The JVM reader gives the Python reader's rows, in the same sequence, or its error, word for word.

Both read the tasks of one plan, without Spark: the directories that real brokers wrote, damaged logs from seeds, and
batches of unusual size. Spark itself is in the suites that run over both readers (``conftest.reader``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from conftest import GoldenFactory
from golden_sets import KRAFT_SETS, SETS
from kernel.batch_bytes import batch, record
from log_maker import BASE_TIME, mark_clean, plain, write_segment
from spark.in_process import reader_of, splits_of
from spark.jvm.damaged_logs import LARGE_BYTES, damaged_log
from spark.jvm.row_printer import jvm_rows, raw_rows
from tidelog.model import TidelogError
from tidelog.record.compression import compress
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.read.split import LogSplit
from tidelog.spark.rows.reader import LogReader

pytestmark = pytest.mark.spark

DIRECTORIES = [
    (set_name, kind) for set_name in SETS for kind in (("clean", "unclean") if set_name in KRAFT_SETS else ("clean",))
]
EVERYTHING: dict[str, Any] = {"includeHeaders": "true", "includeBatchMetadata": "true"}
MIXES: dict[str, dict[str, Any]] = {
    "all": {"includeControlRecords": "true"},
    "committed": {"kafka.isolation.level": "read_committed"},
    "small tasks": {"splitBytes": 5000, "kafka.isolation.level": "read_committed"},
    "one record": {"maxRecordsPerPartition": 1000, "minPartitions": 50},
}
CORRUPT = ("fail", "skip", "report")
_LIBRARY = re.compile(r"(the (?:gzip|snappy|lz4|zstd) data ).*?(?= \(file |$)")
"""The words about data that a codec's library refuses. They are the library's own."""

Outcome = tuple[list[dict[str, Any]], str]


def outcome(rows: Iterator[dict[str, Any]], *, is_complete: bool) -> Outcome:
    """Return the rows and the error's sentence. Only complete reads have the same rows with either reader."""
    found: list[dict[str, Any]] = []
    try:
        found.extend(rows)
    except TidelogError as error:
        return (found if is_complete else []), _LIBRARY.sub(r"\1…", f"{type(error).__name__}: {error}")
    return [_with_common_words(row) for row in found], ""


def _with_common_words(row: dict[str, Any]) -> dict[str, Any]:
    if row.get("corrupt") is not None:
        row["corrupt"] = _LIBRARY.sub(r"\1…", row["corrupt"])
    return row


def python_rows(reader: LogReader, splits: Iterable[LogSplit]) -> Iterator[dict[str, Any]]:
    """Yield the Python reader's rows with timestamps in microseconds: Python has no years above 9999."""
    for split in splits:
        for part in reader.read(split):
            at = part.schema.get_field_index("timestamp")
            micros = part.column("timestamp").cast(pa.int64())
            yield from part.set_column(at, pa.field("timestamp", pa.int64()), micros).to_pylist()


def compare(log_dir: Path, **given: Any) -> Outcome:
    """Check that both readers agree, and return the outcome."""
    reader = reader_of(log_dir, **EVERYTHING, **given)
    splits = splits_of(reader)
    expected = outcome(python_rows(reader, splits), is_complete=False)
    found = outcome(raw_rows(reader, splits), is_complete=False)
    assert found[1] == expected[1]
    assert found[0] == expected[0]
    return found


@pytest.mark.parametrize("mix", MIXES)
@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_directories_of_real_brokers(golden: GoldenFactory, set_name: str, kind: str, mix: str) -> None:
    rows, words = compare(golden(set_name, kind), subscribePattern=".*", **MIXES[mix])
    assert rows
    assert not words


@pytest.mark.parametrize("seed", range(60))
def test_damaged_logs(tmp_path: Path, seed: int) -> None:
    compare_damaged(tmp_path, seed)


@pytest.mark.slow
def test_many_damaged_logs(tmp_path: Path) -> None:
    for seed in range(60, 1000):
        compare_damaged(tmp_path / str(seed), seed)


def compare_damaged(tmp_path: Path, seed: int) -> None:
    damaged_log(tmp_path, seed)
    isolation = ("read_uncommitted", "read_committed")[seed % 2]
    cut: dict[str, Any] = [{}, {"splitBytes": 300}, {"maxRecordsPerPartition": 3}][seed % 3]
    for on_corrupt in CORRUPT:
        try:
            compare(tmp_path, onCorrupt=on_corrupt, kafka__isolation__level=isolation, **cut)
        except TidelogError:
            continue  # the planner, which both share, refuses the directory


def test_damaged_logs_are_read_and_refused(tmp_path: Path) -> None:
    """Show that the seeds have every outcome, so that the comparison is one of something."""
    sentences, rows, reported = set(), 0, 0
    for seed in range(60):
        log_dir = tmp_path / str(seed)
        damaged_log(log_dir, seed)
        for on_corrupt in ("fail", "report"):
            try:
                found, words = compare(log_dir, onCorrupt=on_corrupt)
            except TidelogError:
                continue
            sentences.add(words.partition(" (file ")[0])
            rows += len(found)
            reported += sum(row.get("corrupt") is not None for row in found)
    assert "" in sentences
    assert len(sentences) > 8
    assert rows > 1000
    assert reported > 30


@pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("large_at", [0, 1, 5])
def test_a_batch_larger_than_the_buffer(tmp_path: Path, codec: int, large_at: int) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    content = b""
    for number in range(6):
        values = [b"%07d" % (3 * number + part) for part in range(3)]
        if number == large_at:
            values[1] = bytes(range(256)) * (LARGE_BYTES // 256)
        records = b"".join(record(part, b"k", value) for part, value in enumerate(values))
        fields = {"attributes": codec, "last_offset_delta": 2, "record_count": 3, "base_offset": 3 * number}
        content += batch(bytes(compress(codec, records)), **fields)
    (directory / f"{0:020d}.log").write_bytes(content)
    mark_clean(tmp_path)
    rows, _ = compare(tmp_path)
    assert [row["offset"] for row in rows] == list(range(18))
    assert len(rows[3 * large_at + 1]["value"]) == LARGE_BYTES // 256 * 256


def test_only_the_named_columns_are_filled(golden: GoldenFactory) -> None:
    reader = reader_of(golden(SETS[0], "clean"), subscribePattern=".*", **EVERYTHING)
    splits = splits_of(reader)
    expected = list(python_rows(reader, splits))
    names = reader.options.arrow_schema.names
    for columns in ([], ["value"], ["key", "offset"], ["timestamp", "topic"], ["headers"], ["compression"], names):
        found = list(raw_rows(reader, splits, columns=columns))
        assert found == [{name: row[name] for name in columns} for row in expected], columns


def test_a_limit_ends_a_task_early(golden: GoldenFactory) -> None:
    reader = reader_of(golden(SETS[0], "clean"), subscribe="flights")
    splits = splits_of(reader)
    every = sum(1 for _ in jvm_rows(reader, splits))
    assert 0 < sum(1 for _ in jvm_rows(reader, splits, limit=1)) < every / 2


def test_a_batch_is_recent_by_its_newest_record(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(10 * number) for number in range(5)])
    mark_clean(tmp_path)
    reader = reader_of(tmp_path, pruning=Pruning(min_timestamp_ms=BASE_TIME + 25))
    splits = splits_of(reader)
    found = list(raw_rows(reader, splits))
    assert found == list(python_rows(reader, splits))
    assert [row["offset"] for row in found] == list(range(20, 50))


@pytest.mark.parametrize("timestamp", [2**63 - 1, -(2**63), (2**63 - 1) // 1000, (2**63 - 1) // 1000 + 1])
def test_a_time_beyond_sparks_microseconds_is_null(tmp_path: Path, timestamp: int) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    made = batch([record(0, timestamp_delta=0)], base_timestamp=timestamp, max_timestamp=timestamp)
    (directory / f"{0:020d}.log").write_bytes(made)
    mark_clean(tmp_path)
    rows, _ = compare(tmp_path)
    assert (rows[0]["timestamp"] is None) == (abs(timestamp) > (2**63 - 1) // 1000)
