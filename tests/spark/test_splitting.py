"""Tasks return every record once, sorted by offset and within the bounds, whatever their sizes are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_maker import BASE_TIME, data, mark_clean, marker, plain, write_segment
from spark.in_process import reader_of, rows_of, splits_of
from tidelog.model import Record, TimestampType
from tidelog.record.build import build_batch
from tidelog.spark.read.split import LogSplit
from tidelog.spark.read.splitting import LEAST_SPLIT_BYTES, MOST_BYTES_OF_SEGMENTS, MOST_SPLIT_BYTES, SplitPlan

ENDS = {"t-0": 300, "t-1": 75, "t-2": 400, "t-3": 64}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write plain logs, logs with gaps of compaction and transactions, logs without indexes, compressed logs."""
    path = tmp_path_factory.mktemp("cut")
    for base in (0, 100, 200):
        write_segment(path / "t-0", base, [plain(base + 10 * number) for number in range(10)])
    holes = [
        plain(2, 3),
        plain(20, 1),
        data(30, 5),
        marker(35, committed=False),
        data(36, 4),
        marker(40, committed=True),
    ]
    write_segment(path / "t-1", 0, holes)
    write_segment(path / "t-1", 50, [plain(60, 2), plain(74, 1)])
    for base in (0, 200):
        log = write_segment(path / "t-2", base, [plain(base + 5 * number, 5) for number in range(40)])
        log.with_suffix(".index").unlink()
    batches = [
        build_batch(
            [Record(base + n, BASE_TIME + base + n, TimestampType.CREATE, None, b"v" * 50, ()) for n in range(16)],
            base_offset=base,
            codec="zstd",
        )
        for base in (0, 16, 32, 48)
    ]
    write_segment(path / "t-3", 0, [bytes(batch) for batch in batches])
    return path


def ids(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(row["partition"], row["offset"]) for row in rows]


def width(split: LogSplit) -> int:
    return sum(piece.end - piece.start for piece in split.pieces)


@settings(max_examples=150, deadline=None)
@given(
    split_bytes=st.none() | st.integers(1, 40_000),
    min_partitions=st.none() | st.integers(1, 60),
    most_records=st.none() | st.integers(1, 200),
    starts=st.tuples(*[st.integers(0, end) for end in ENDS.values()]),
    lengths=st.tuples(*[st.integers(0, 400) for _ in ENDS]),
    isolation=st.sampled_from(["read_uncommitted", "read_committed"]),
)
def test_each_record_once(
    root: Path,
    split_bytes: int | None,
    min_partitions: int | None,
    most_records: int | None,
    starts: tuple[int, ...],
    lengths: tuple[int, ...],
    isolation: str,
) -> None:
    import json

    ends = [min(start + length, end) for start, length, end in zip(starts, lengths, ENDS.values(), strict=True)]
    wanted: dict[str, Any] = {
        "startingOffsets": json.dumps({"t": {str(n): start for n, start in enumerate(starts)}}),
        "endingOffsets": json.dumps({"t": {str(n): end for n, end in enumerate(ends)}}),
        "kafka.isolation.level": isolation,
    }
    hints = {"splitBytes": split_bytes, "minPartitions": min_partitions, "maxRecordsPerPartition": most_records}
    wanted |= {name: hint for name, hint in hints.items() if hint is not None}
    reader = reader_of(root, **wanted)
    splits = splits_of(reader)
    everything = ids(rows_of(reader_of(root, kafka__isolation__level=isolation)))
    expected = [(n, offset) for n, offset in everything if starts[n] <= offset < ends[n]]
    assert ids(rows_of(reader, splits)) == expected
    total = sum(end - start for start, end in zip(starts, ends, strict=True))
    if min_partitions is not None:
        assert len(splits) >= min(min_partitions, total)
    if most_records is not None:
        assert all(width(split) <= most_records for split in splits)


def test_small_partitions_share_a_task_and_large_ones_are_cut(root: Path) -> None:
    assert len(splits_of(reader_of(root))) == 1
    assert len(splits_of(reader_of(root, splitBytes=2000))) >= 10


def test_cuts_lie_at_batches(root: Path) -> None:
    for split in splits_of(reader_of(root, assign='{"t":[0]}', splitBytes=1)):
        assert all(piece.start % 10 == 0 == piece.end % 10 for piece in split.pieces)


def test_segments_share_a_task_where_they_are_not_cut(tmp_path: Path) -> None:
    for base in (0, 100, 200, 300):
        log = write_segment(tmp_path / "t-0", base, [plain(base)])
        if base < 300:
            with log.open("r+b") as file:
                file.truncate(LEAST_SPLIT_BYTES // 2)
    mark_clean(tmp_path)
    splits = splits_of(reader_of(tmp_path, mode="batches"))
    assert [[piece.start for piece in split.pieces] for split in splits] == [[0, 100], [200, 300]]


def test_the_default_size_follows_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    gib = 1024**3
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    for most in (MOST_SPLIT_BYTES, MOST_BYTES_OF_SEGMENTS):
        assert SplitPlan()._target_bytes(100 * gib, most) == most
        assert SplitPlan()._target_bytes(gib, most) == gib // 8
        assert SplitPlan()._target_bytes(1000, most) == LEAST_SPLIT_BYTES
        assert SplitPlan(split_bytes=5)._target_bytes(gib, most) == 5
        assert SplitPlan(min_partitions=1024)._target_bytes(gib, most) == gib // 1024
