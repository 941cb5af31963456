"""The picture of a log: runs of neighbours, the scale, and the drawing itself."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.web.page import Picture, Section
from tidelog.web.svg.byte_scale import ByteScale, PlacedRun
from tidelog.web.svg.ribbon import draw_ribbon
from tidelog.web.svg.ribbon_items import (
    STYLES,
    EpochBand,
    LostTail,
    OffsetMark,
    Ribbon,
    SegmentRun,
    SnapshotTick,
    TransactionBar,
)
from tidelog.web.svg.runs import join_runs
from web.harness import check_picture


@given(st.lists(st.sampled_from("abc"), max_size=60), st.integers(1, 20))
def test_runs_cover_all_and_are_few(kinds: list[str], most: int) -> None:
    runs = join_runs(kinds, most)
    assert [at for run in runs for at in run] == list(range(len(kinds)))
    assert len(runs) <= most
    changes = sum(one != other for one, other in pairwise(kinds))
    if changes < most:
        assert all(len(set(kinds[run.start : run.stop])) == 1 for run in runs), "no run has several kinds"


def test_long_runs_are_joined_more_than_short_ones() -> None:
    runs = join_runs(["a"] * 1000 + ["b"], 11)
    assert [len(run) for run in runs] == [111] * 8 + [112, 1]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=50))
def test_every_segment_can_be_seen(sizes: list[int]) -> None:
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    runs = [PlacedRun(10 * number, start, size) for number, (start, size) in enumerate(zip(starts, sizes, strict=True))]
    scale = ByteScale(runs, 100, 900)
    edges = [scale.run(number) for number in range(len(runs))]
    assert edges[0][0] == 100
    assert edges[-1][1] == pytest.approx(900)
    assert all(right - left >= 8 for left, right in edges)
    by_size = sorted(edges, key=lambda edge: edge[1] - edge[0])
    assert max(sizes) == sizes[edges.index(by_size[-1])] or len(set(sizes)) < len(sizes)
    for run, (left, right) in zip(runs, edges, strict=True):
        assert scale.at(run.base_offset, run.start) == left
        middle = scale.at(run.base_offset + 5, run.start + run.size // 2)
        assert left <= middle <= right


def test_the_place_decides_between_segments_with_the_same_offset() -> None:
    """A log that ends before its file's end may end at the base offset of the next segment."""
    scale = ByteScale([PlacedRun(0, 0, 100), PlacedRun(10, 100, 100)], 0, 100)
    assert scale.run(0)[0] < scale.at(10, 80) < scale.run(0)[1]
    assert scale.at(10, 100) == scale.run(1)[0]


def run_of(base_offset: int, state: str = "time", *, start: int, size: int = 100) -> SegmentRun:
    return SegmentRun(
        state=state,
        base_offset=base_offset,
        end_offset=base_offset + 10,
        segments=1,
        start=start,
        bytes=size,
        index_entries=2,
        time_index_entries=1,
        trigger="time",
        goes_at_ms=1_800_000_000_000,
        after_bytes=None,
        tip=f"segment {base_offset} <&>",
        url=f"/logs/0/t-0/segments/{base_offset}",
    )


def ribbon() -> Ribbon:
    states = list(STYLES)
    return Ribbon(
        segments=[run_of(10 * number, state, start=100 * number) for number, state in enumerate(states)],
        tails=[LostTail(offset=165, start=1650, bytes=50, reason="a batch is incomplete")],
        epochs=[EpochBand(epoch=3, epochs=1, start_offset=0, end_offset=165, start=0, bytes=1650)],
        snapshots=[SnapshotTick(of="producer", offset=10, snapshots=1, place=100)],
        transactions=[
            TransactionBar(
                producer_id=7,
                transactions=1,
                start_offset=120,
                end_offset=165,
                start_timestamp=None,
                start=1200,
                bytes=450,
                tip="producer 7",
                url="/logs/0/t-0/transactions",
            )
        ],
        marks=[
            OffsetMark(names=("log start",), offset=0, place=0),
            OffsetMark(names=("high watermark", "log end"), offset=165, place=1650),
        ],
        index_interval_bytes=50,
    )


def test_each_item_is_drawn_once() -> None:
    made = ribbon()
    check_picture(Section(name="s", title="S", picture=Picture(items=made.items(), draw=lambda: draw_ribbon(made))))
    kinds = [item["kind"] for item in made.items()]
    assert dict.fromkeys(kinds).keys() == {"segment", "lost_tail", "epoch", "snapshot", "transaction", "mark"}


def test_the_legend_explains_the_states_of_the_picture_alone() -> None:
    made = ribbon()
    texts = "".join(ElementTree.fromstring(draw_ribbon(made)).itertext())
    assert all(style.meaning in texts for style in STYLES.values())
    one = replace(made, segments=[run_of(0, start=0)], tails=[])
    texts = "".join(ElementTree.fromstring(draw_ribbon(one)).itertext())
    assert [state for state, style in STYLES.items() if style.meaning in texts] == ["time"]
    assert "2027-01-15" in texts


def test_a_missing_index_is_marked() -> None:
    made = replace(ribbon(), segments=[replace(run_of(0, start=0), index_entries=None)])
    assert "an index file is missing" in "".join(ElementTree.fromstring(draw_ribbon(made)).itertext())


def test_labels_of_flags_do_not_overlap() -> None:
    marks = [OffsetMark(names=("some long name",), offset=number, place=number) for number in range(0, 170, 10)]
    drawn = ElementTree.fromstring(draw_ribbon(replace(ribbon(), marks=marks)))
    labels = []
    for group in drawn.iter("g"):
        text = group.find("text")
        if text is not None and "some long name" in (text.text or ""):
            left = float(text.attrib["x"])
            width = 6 * len(text.text or "")
            is_start = text.attrib["text-anchor"] == "start"
            labels.append((float(text.attrib["y"]), left if is_start else left - width, width))
    assert len(labels) == len(marks)
    for number, (y, left, width) in enumerate(labels):
        for other_y, other_left, other_width in labels[number + 1 :]:
            assert y != other_y or left + width <= other_left or other_left + other_width <= left
