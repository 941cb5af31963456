"""Table rows written to logs as a restore task does it: offsets, gaps, times, batches. No Spark is needed."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog
from cli.runner import rows as printed
from log_maker import mark_clean
from tidelog.model import TopicPartition
from tidelog.spark.jobs.restoring_task import Target, write_logs
from tidelog.spark.read.schema import HEADERS
from tidelog.storage.log.state.log_config import LogConfig

SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
    ]
)
SMALL = LogConfig.from_properties({"segment.bytes": "2000", "compression.type": "lz4"})
FAR = 2**31


def row(offset: int, **others: Any) -> dict[str, Any]:
    bare = {"topic": "t", "partition": 0, "timestamp": 1000 * offset, "timestampType": 0, "value": b"v"}
    return bare | {"offset": offset} | others


def write(path: Path, *batches: Iterable[dict[str, Any]], config: LogConfig = SMALL) -> list[dict[str, Any]]:
    """Write into a cleanly stopped directory. Return the task's reports, with the logs moved to their places."""
    path.mkdir(exist_ok=True)
    configs, topic_id = {"t": config, "u": config}, uuid.UUID(int=7)
    target = Target(log_dir=path, job_id="0" * 16, configs=configs, topic_ids={TopicPartition("u", 3): topic_id})
    tables = [pa.RecordBatch.from_pylist(list(rows), schema=SCHEMA) for rows in batches]
    said = [one for batch in write_logs(target, tables) for one in batch.to_pylist()]
    for one in said:
        if one["error"] is None:
            Path(one["staging"]).rename(path / f"{one['topic']}-{one['partition']}")
    mark_clean(path)
    return said


def read(directory: Path) -> list[tuple[Any, ...]]:
    with tidelog.open_log(directory, read_only=True) as log:
        return [(one.offset, one.timestamp, int(one.timestamp_type), one.key, one.value) for one in log.records()]


def test_partitions_follow_each_other_across_batches(tmp_path: Path) -> None:
    first = [row(4), row(5, key=b"k", headers=[{"key": "h", "value": None}])]
    second = [row(9, value=None), row(0, partition=1), row(2, topic="u", partition=3), row(7, topic="u", partition=3)]
    said = write(tmp_path, first, [], second)
    assert [(one["topic"], one["partition"], one["endOffset"], one["error"]) for one in said] == [
        ("t", 0, 10, None),
        ("t", 1, 1, None),
        ("u", 3, 8, None),
    ]
    assert read(tmp_path / "t-0") == [(4, 4, 0, None, b"v"), (5, 5, 0, b"k", b"v"), (9, 9, 0, None, None)]
    assert "topic_id: AAAAAAAAAAAAAAAAAAAABw" in (tmp_path / "u-3" / "partition.metadata").read_text()
    with tidelog.open_log(tmp_path / "t-0", read_only=True) as log:
        assert log.offsets().log_start == 4
        assert [record.headers for record in log.records()] == [(), (("h", None),), ()]


def test_gaps_are_those_of_a_compacted_log(tmp_path: Path) -> None:
    offsets = [*range(3, 3000, 7), FAR - 1, FAR, FAR + 1]
    write(tmp_path, [row(offset) for offset in offsets])
    assert [one[0] for one in read(tmp_path / "t-0")] == offsets
    assert {(finding["severity"], finding["message"]) for finding in printed("verify", tmp_path)} == {
        (None, "loads it as it is")
    }


def test_gaps_that_no_batch_can_span(tmp_path: Path) -> None:
    offsets = [3, 4, FAR + 2, FAR + 3, 5 * FAR, 5 * FAR + 1, 9 * FAR]
    write(tmp_path, [row(offset) for offset in offsets])
    assert [one[0] for one in read(tmp_path / "t-0")] == offsets


def test_a_brokers_times_make_batches(tmp_path: Path) -> None:
    times = [(7, 1), (7, 1), (8, 1), (8, 0), (3, 0), (-1, 0), (9, 1)]
    rows = [row(at, timestamp=1000 * time, timestampType=kind) for at, (time, kind) in enumerate(times)]
    write(tmp_path, rows)
    assert [one[1:3] for one in read(tmp_path / "t-0")] == times
    assert printed("count", tmp_path)[0]["batches"] == 4


def test_what_goes_wrong_with_one_partition_leaves_the_next_alone(tmp_path: Path) -> None:
    twice = [row(1), row(2), row(2)]
    said = write(tmp_path, [*twice, row(0, partition=1)], [row(0, topic="u", value=b"x" * 3000)], config=LogConfig())
    assert "not above that of the row before (offset 2)" in said[0]["error"]
    assert [one["error"] for one in said[1:]] == [None, None]
    large = write(tmp_path / "small", [row(0, value=random.Random(1).randbytes(3000))], config=SMALL)
    assert "larger than a segment" in large[0]["error"]
    assert large[0]["staging"] is None


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(-1, 20), st.integers(0, 1)), min_size=1, max_size=60), st.data()
)
@settings(max_examples=25, deadline=None)
def test_whatever_the_rows_they_are_read_again(
    tmp_path_factory: Any, steps: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("log")
    rows, offset = [], -1
    for step, time, kind in steps:
        offset += step
        rows.append(row(offset, timestamp=1000 * time, timestampType=kind, value=bytes(step)))
    cut = data.draw(st.integers(0, len(rows)))
    (said,) = write(path, rows[:cut], rows[cut:])
    assert said["endOffset"] == offset + 1
    expected = [(one["offset"], one["timestamp"] // 1000, one["timestampType"], None, one["value"]) for one in rows]
    assert read(path / "t-0") == expected
