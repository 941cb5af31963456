"""Splits cover every record once, and a timestamp lookup finds the same record as a walk over all records."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import log_maker
from conftest import GoldenFactory
from golden_sets import FLIGHTS, FORMATS, SCENARIOS, SETS
from log_maker import BASE_TIME, plain, write_segment
from tidelog.kernel import BatchTable
from tidelog.model import Record
from tidelog.record.decode import decode_chunk
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.time_lookup import (
    first_at_or_after,
    first_in_segments,
    latest_in_segments,
    latest_timestamp,
)
from tidelog.storage.segment.segment import LogSegment


def records(view: LogView, start: int | None = None, end: int | None = None) -> list[Record]:
    chunks = view.columns(view.range(start, end))
    return [record for chunk in chunks for record in iter_records(chunk.columns)]


def partitions(root: Path) -> list[LogView]:
    return [LogView(LOCAL, path) for path in sorted(root.iterdir()) if path.is_dir()]


@pytest.mark.parametrize("target_bytes", [1, 5000, 40_000, 10**9])
@pytest.mark.parametrize("set_name", SETS)
def test_splits_of_real_partitions_hold_every_record_once(
    golden: GoldenFactory, set_name: str, target_bytes: int
) -> None:
    for view in partitions(golden(set_name)):
        whole = records(view)
        splits = view.splits(view.log_start, view.log_end, target_bytes)
        assert [record for split in splits for record in records(view, split.start, split.end)] == whole
        assert all(before.end <= after.start for before, after in pairwise(splits))
        if target_bytes == 10**9:
            assert len(splits) <= 1


def test_splits_are_about_as_large_as_asked_for(tmp_path: Path) -> None:
    log_maker.mark_clean(tmp_path)
    write_segment(tmp_path / "t-0", 0, [plain(10 * number) for number in range(400)])
    write_segment(tmp_path / "t-0", 4000, [plain(4000 + 10 * number) for number in range(400)])
    view = LogView(LOCAL, tmp_path / "t-0")
    size = sum(segment.size for segment in view.state.segments)
    splits = view.splits(0, 8000, 20_000)
    assert len(splits) == pytest.approx(size / 20_000, abs=3)
    assert all(split.size_bytes < 30_000 for split in splits)
    assert sum(split.size_bytes for split in splits) == size
    part = view.splits(1005, 4005, 20_000)
    assert (part[0].start, part[-1].end) == (1005, 4005)
    assert view.splits(10, 10, 20_000) == []


def test_splits_leave_out_what_is_too_old(tmp_path: Path) -> None:
    log_maker.mark_clean(tmp_path)
    for base in range(0, 500, 100):
        write_segment(tmp_path / "t-0", base, [plain(base + 10 * number) for number in range(10)])
    view = LogView(LOCAL, tmp_path / "t-0")
    splits = view.splits(0, 500, 1, min_timestamp_ms=BASE_TIME + 250)
    assert splits[0].start == 200
    assert view.splits(0, 500, 1, min_timestamp_ms=BASE_TIME + 10**6)[0].start == 400
    (tmp_path / "t-0" / "00000000000000000100.timeindex").unlink()
    starts = {split.start // 100 for split in view.splits(0, 500, 10**6, min_timestamp_ms=BASE_TIME + 250)}
    assert 1 in starts


@pytest.mark.parametrize("kind", ["clean", "unclean"])
@pytest.mark.parametrize("set_name", [SCENARIOS, FLIGHTS])
def test_timestamps_in_real_partitions(golden: GoldenFactory, set_name: str, kind: str) -> None:
    for view in partitions(golden(set_name, kind)):
        if view.directory.name.startswith("__cluster"):
            continue
        whole = [
            (timestamp, offset)
            for chunk in view.columns(view.range(control=True))
            for timestamp, offset in zip(chunk.columns.timestamp.tolist(), chunk.columns.offset.tolist(), strict=True)
        ]
        times = sorted({timestamp for timestamp, _ in whole})
        for wanted in [0, *times[:: max(1, len(times) // 20)], *[time + 1 for time in times[-2:]]]:
            expected = next(((time, offset) for time, offset in whole if time >= wanted), None)
            assert view.offset_for_timestamp(wanted) == expected
        latest = view.latest_timestamp()
        assert latest == (max(whole, key=lambda pair: pair[0]) if whole else None)


def test_timestamps_of_the_old_formats(golden: GoldenFactory) -> None:
    for view in partitions(golden(FORMATS)):
        if not view.directory.name.startswith("v"):
            continue
        whole = [(record.timestamp, record.offset) for record in records(view)]
        if view.directory.name.startswith("v0"):
            assert view.offset_for_timestamp(0) is None
            assert view.latest_timestamp() is None
            continue
        for wanted in sorted({timestamp for timestamp, _ in whole})[::100]:
            assert view.offset_for_timestamp(wanted) == next(pair for pair in whole if pair[0] >= wanted)


def write_times(root: Path, sizes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Write batches from (count, timestamp) pairs, seven a segment, and return (timestamp, offset) of every record."""
    offset, batches, written = 0, [], []
    for count, timestamp in sizes:
        batches.append((offset, plain(offset, count, timestamp=timestamp)))
        written += [(timestamp + number, offset + number) for number in range(count)]
        offset += count
    for first in range(0, len(batches), 7):
        part = batches[first : first + 7]
        write_segment(root / "t-0", part[0][0], [content for _, content in part])
    return written


def first_largest(pairs: list[tuple[int, int]]) -> tuple[int, int] | None:
    return max(pairs, key=lambda pair: pair[0], default=None)


times = st.lists(st.tuples(st.integers(1, 4), st.integers(0, 50)), min_size=1, max_size=40)


@settings(max_examples=40, deadline=None)
@given(times, st.integers(0, 60), st.booleans(), st.integers(0, 3))
def test_timestamps_out_of_order(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, int]], wanted: int, clean: bool, cut: int
) -> None:
    """The lookup agrees with a walk for unsorted timestamps, over several segments, with any log start."""
    root = tmp_path_factory.mktemp("times")
    written = write_times(root, sizes)
    if clean:
        log_maker.mark_clean(root)
    start = min(cut * 3, len(written))
    log_maker.write_checkpoint(root, "log-start-offset-checkpoint", {"t-0": start})
    view = LogView(LOCAL, root / "t-0")
    held = [(timestamp, at) for timestamp, at in written if at >= start]
    assert view.offset_for_timestamp(wanted) == next((pair for pair in held if pair[0] >= wanted), None)
    assert view.latest_timestamp() == first_largest(held)


@settings(max_examples=60, deadline=None)
@given(times, st.integers(-1, 60), st.data())
def test_both_searches_find_the_same_between_any_two_offsets(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, int]], wanted: int, data: st.DataObject
) -> None:
    """The reader's view and the owner's segments both agree with a walk."""
    root = tmp_path_factory.mktemp("times")
    written = write_times(root, sizes)
    log_maker.mark_clean(root)
    view = LogView(LOCAL, root / "t-0")
    bases = view.state.segments.base_offsets
    owned = LogSegments(
        tuple(LogSegment(LOCAL, root / "t-0", base, LogConfig().segment_limits, now_ms=0) for base in bases)
    )
    try:
        start = data.draw(st.integers(0, len(written)))
        end = data.draw(st.integers(start, len(written)))
        held = written[start:end]
        expected = next((pair for pair in held if pair[0] >= wanted), None)
        assert first_at_or_after(view, wanted, start, end) == expected
        assert first_in_segments(owned, wanted, start, end) == expected
        assert latest_timestamp(view, start, end) == first_largest(held)
        assert latest_in_segments(owned, start, end) == first_largest(held)
    finally:
        for segment in owned:
            segment.close_handlers()


def test_a_look_up_decodes_one_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The indexes lead close to the record, and the headers to its batch."""
    write_segment(tmp_path / "t-0", 0, [plain(10 * number) for number in range(200)])
    write_segment(tmp_path / "t-0", 2000, [plain(2000 + 10 * number) for number in range(200)])
    log_maker.mark_clean(tmp_path)
    view = LogView(LOCAL, tmp_path / "t-0")
    decoded: list[int] = []

    def counting(buffer: memoryview, table: BatchTable, *arguments: Any, **named: Any) -> int:
        decoded.append(len(table))
        return decode_chunk(buffer, table, *arguments, **named)

    monkeypatch.setattr("tidelog.storage.log.view.column_stream.decode_chunk", counting)
    assert view.offset_for_timestamp(BASE_TIME + 1234) == (BASE_TIME + 1234, 1234)
    assert view.latest_timestamp() == (BASE_TIME + 3999, 3999)
    assert decoded == [1, 1]
