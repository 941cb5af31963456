"""Runs of neighbours for pictures."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.web.svg.runs import runs_of
from tidelog.web.svg.scale import Scale


@settings(max_examples=50)
@given(st.lists(st.sampled_from("aab"), max_size=60), st.integers(1, 20))
def test_runs_have_all_items(items: list[str], most: int) -> None:
    runs = runs_of(items, lambda item: item, most)
    assert [item for run in runs for item in run] == items
    assert all(len(set(run)) == 1 for run in runs)
    changes = sum(one != other for one, other in pairwise(items))
    assert len(runs) <= most + changes
    if len(items) <= most:
        assert len(runs) == len(items)


@settings(max_examples=50)
@given(st.integers(0, 2**50))
def test_ticks_of_sizes_are_round(high: int) -> None:
    ticks = Scale(0, high, 0, 100).size_ticks()
    assert ticks[0] == 0
    assert len(ticks) <= 7
    assert all(0 <= tick <= high for tick in ticks)
