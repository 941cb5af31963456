"""Filters narrow a read by partition, segment and batch, and never change a query's result."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from log_maker import BASE_TIME, mark_clean, plain, write_segment
from spark.in_process import reader_of, rows_of, splits_of
from tidelog.model import TopicPartition
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.rows.reader import PushdownLogReader


@dataclass(frozen=True)
class Filter:
    """A filter with the shape of PySpark's, which the oldest release lacks."""

    attribute: tuple[str, ...]
    value: Any


class EqualTo(Filter):
    pass


class EqualNullSafe(Filter):
    pass


class In(Filter):
    pass


class GreaterThan(Filter):
    pass


class GreaterThanOrEqual(Filter):
    pass


class LessThan(Filter):
    pass


class LessThanOrEqual(Filter):
    pass


class StringContains(Filter):
    pass


class Not:
    def __init__(self, child: Filter) -> None:
        self.child = child


def instant(ms: int, us: int = 0) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(milliseconds=ms, microseconds=us)


def narrowed(*filters: object) -> Pruning:
    return Pruning().narrowed(filters)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write ``t-0`` and ``t-1``: three segments of ten batches of ten records. Times are BASE plus the offset in ms."""
    path = tmp_path_factory.mktemp("pruned")
    for name in ("t-0", "t-1"):
        for base in (0, 100, 200):
            write_segment(path / name, base, [plain(base + 10 * number) for number in range(10)])
    mark_clean(path)
    return path


def test_names() -> None:
    pruning = narrowed(EqualTo(("topic",), "a"), In(("partition",), (1, 2)), EqualNullSafe(("partition",), 2))
    assert pruning == Pruning(topics=frozenset({"a"}), partitions=frozenset({2}))
    assert pruning.keeps(TopicPartition("a", 2))
    assert not pruning.keeps(TopicPartition("a", 1))
    assert not pruning.keeps(TopicPartition("b", 2))


@pytest.mark.parametrize(
    ("condition", "start", "end"),
    [
        (EqualTo(("offset",), 5), 5, 6),
        (EqualNullSafe(("offset",), None), None, None),
        (In(("offset",), (7, 3)), 3, 8),
        (In(("offset",), ()), None, None),
        (GreaterThan(("offset",), 5), 6, None),
        (GreaterThanOrEqual(("offset",), 5), 5, None),
        (LessThan(("offset",), 5), None, 5),
        (LessThanOrEqual(("offset",), 5), None, 6),
        (GreaterThan(("offset",), 5.5), None, None),
        (Not(EqualTo(("offset",), 5)), None, None),
        (StringContains(("topic",), "a"), None, None),
        (EqualTo(("headers", "key"), "a"), None, None),
    ],
)
def test_offsets(condition: object, start: int | None, end: int | None) -> None:
    assert narrowed(condition) == Pruning(start_offset=start, end_offset=end)


def test_the_tightest_of_several_holds() -> None:
    pruning = narrowed(
        GreaterThan(("offset",), 5), GreaterThan(("offset",), 3), LessThan(("offset",), 9), LessThan(("offset",), 20)
    )
    assert pruning == Pruning(start_offset=6, end_offset=9)


def test_timestamps_are_rounded_down_and_need_a_zone() -> None:
    assert narrowed(GreaterThan(("timestamp",), instant(1000, 999))).min_timestamp_ms == 1000
    assert narrowed(EqualTo(("timestamp",), instant(-1))).min_timestamp_ms == -1
    assert narrowed(In(("timestamp",), (instant(9), instant(7)))).min_timestamp_ms == 7
    assert narrowed(LessThan(("timestamp",), instant(9))).min_timestamp_ms is None
    assert narrowed(GreaterThan(("timestamp",), datetime.datetime(2020, 1, 1))).min_timestamp_ms is None  # noqa: DTZ001
    assert narrowed(EqualNullSafe(("timestamp",), None)).min_timestamp_ms is None


def planned(root: Path, *filters: object, **given: object) -> tuple[int, int, list[tuple[int, int]]]:
    """Return the bytes and number of segments that a pruned read's tasks cover, and its (partition, offset) pairs."""
    reader = reader_of(root, pruning=narrowed(*filters), splitBytes=1, **given)
    splits = splits_of(reader)
    pieces = [piece for split in splits for piece in split.pieces]
    segments = {
        (piece.partition, segment.base_offset)
        for piece in pieces
        for segment in piece.state.segments.between(piece.start, piece.end)
    }
    found = [(row["partition"], row["offset"]) for row in rows_of(reader, splits)]
    return sum(piece.size_bytes for piece in pieces), len(segments), found


def test_filters_spare_bytes_and_segments(root: Path) -> None:
    all_bytes, all_segments, everything = planned(root)
    assert (all_segments, len(everything)) == (6, 600)

    by_partition = planned(root, EqualTo(("partition",), 1))
    assert by_partition == (all_bytes // 2, 3, [(1, offset) for offset in range(300)])

    size, segments, found = planned(root, GreaterThanOrEqual(("offset",), 105), LessThan(("offset",), 118))
    assert segments == 2
    assert size < all_bytes // 10
    assert found == [(number, offset) for number in (0, 1) for offset in range(105, 118)]

    size, segments, found = planned(root, GreaterThanOrEqual(("timestamp",), instant(BASE_TIME + 250)))
    assert segments == 2
    assert size < all_bytes // 2
    assert found == [(number, offset) for number in (0, 1) for offset in range(250, 300)]

    assert planned(root, EqualTo(("topic",), "u")) == (0, 0, [])
    assert planned(root, GreaterThan(("offset",), 10**9)) == (0, 0, [])


def test_a_reader_that_takes_filters_gives_all_of_them_back(root: Path) -> None:
    reader = PushdownLogReader(reader_of(root).options)
    filters = [EqualTo(("partition",), 0), Not(EqualTo(("offset",), 1)), GreaterThan(("offset",), 290)]
    assert list(reader.pushFilters(filters)) == filters
    assert [row["offset"] for row in rows_of(reader)] == list(range(291, 300))
