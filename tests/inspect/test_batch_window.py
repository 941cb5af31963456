"""Parts of a log: the first batches from an offset on, the last ones before it, in bounded reads."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import GoldenFactory
from golden_sets import SCENARIOS
from log_maker import mark_clean, plain, write_segment
from tidelog.inspect.batch_window import BatchWindow, read_window
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import ReadRange


@pytest.fixture(scope="module")
def view(golden: GoldenFactory) -> LogView:
    return LogView(LOCAL, golden(SCENARIOS) / "txn-0")


def bases(window: BatchWindow) -> list[int]:
    return [int(base) for base in window.table.base_offset]


def all_bases(view: LogView) -> list[int]:
    wanted = ReadRange(start=view.log_start, end=view.log_end, control=True)
    return [int(base) for rows in view.batches(wanted) for base in rows.table.base_offset]


def test_everything_fits(view: LogView) -> None:
    window = read_window(view)
    assert bases(window) == all_bases(view)
    assert (window.start, window.end, window.is_first, window.is_last) == (0, view.log_end, True, True)
    assert len(set(window.segments.tolist())) == len(view.state.segments)


@settings(max_examples=40)
@given(at=st.integers(0, 600), most=st.integers(1, 40), size=st.sampled_from([200, 3000, 1 << 22]))
def test_parts_before_and_after_an_offset(view: LogView, at: int, most: int, size: int) -> None:
    every = all_bases(view)
    before = read_window(view, end=at, most_batches=most, most_bytes=size)
    earlier = [base for base in every if base < at]
    assert bases(before) == earlier[len(earlier) - len(bases(before)) :]
    assert len(bases(before)) <= most
    after = read_window(view, start=at, most_batches=most, most_bytes=size)
    later = [base for base in every if base >= at]
    found = [base for base in bases(after) if base >= at]
    assert found == later[: len(found)]
    assert len(bases(after)) <= most
    if earlier and size > 3000:
        assert len(bases(before)) == min(most, len(earlier))
    if later:
        assert found or bases(after)


@settings(max_examples=12)
@given(most=st.integers(20, 200), size=st.sampled_from([2000, 5000, 1 << 22]))
def test_parts_in_sequence_have_each_batch_once(view: LogView, most: int, size: int) -> None:
    backward: list[int] = []
    end = None
    while True:
        window = read_window(view, end=end, most_batches=most, most_bytes=size)
        backward = bases(window) + backward
        if window.is_first:
            break
        assert window.start < (view.log_end if end is None else end)
        end = window.start
    forward: list[int] = []
    start = 0
    while start < view.log_end:
        window = read_window(view, start=start, most_batches=most, most_bytes=size)
        forward += bases(window)
        assert window.end > start
        start = window.end
    assert backward == forward == all_bases(view)


def test_the_read_is_bounded(tmp_path: Path) -> None:
    batches = [plain(number * 10, size=200) for number in range(2000)]
    write_segment(tmp_path / "t-0", 0, batches, interval_bytes=4096)
    mark_clean(tmp_path)
    read: list[int] = []
    window = read_window(LogView(LOCAL, tmp_path / "t-0"), most_bytes=100_000, advance=read.append)
    assert 0 < sum(read) < 150_000
    assert window.end == 20_000
    read.clear()
    window = read_window(LogView(LOCAL, tmp_path / "t-0"), start=50, most_bytes=100_000, advance=read.append)
    assert 0 < sum(read) < 300_000
    assert bases(window)[0] == 50


def test_an_empty_log(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 7, [])
    window = read_window(LogView(LOCAL, tmp_path / "t-0"))
    assert (window.start, window.end, len(window.table), window.is_first, window.is_last) == (7, 7, 0, True, True)
