"""The segments of a log: added, replaced, removed, and found by offset, compared with a plain dict."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.storage.log.state.log_segments import LogSegments


@dataclass(frozen=True)
class Segment:
    base_offset: int
    generation: int = 0


def segments(*base_offsets: int) -> LogSegments[Segment]:
    return LogSegments(tuple(Segment(base) for base in base_offsets))


def test_put_in_replaced_taken_out() -> None:
    log: LogSegments[Segment] = LogSegments()
    assert (len(log), log.base_offsets, log.floor(100)) == (0, [], None)
    with pytest.raises(IndexError):
        _ = log.last
    log.add(Segment(40))
    log.add(Segment(80))
    assert (len(log), log.base_offsets) == (2, [40, 80])
    log.add(Segment(40, generation=1))
    assert list(log) == [Segment(40, generation=1), Segment(80)]
    log.remove(80)
    log.remove(80)
    assert list(log) == [Segment(40, generation=1)]
    log.remove(40)
    assert (len(log), list(log)) == (0, [])


def test_in_order_whatever_the_order_they_come_in() -> None:
    log = segments()
    for number, base in enumerate((1, 2, 3, 4)):
        log.add(Segment(base))
        assert (log.first, log.last, len(log)) == (Segment(1), Segment(base), number + 1)
    assert list(segments(4, 2, 1, 3)) == list(log) == [Segment(base) for base in (1, 2, 3, 4)]


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        (2, 1, []),
        (1, 1, []),
        (1, 2, [1]),
        (1, 3, [1, 2]),
        (1, 4, [1, 2, 3]),
        (2, 4, [2, 3]),
        (3, 4, [3]),
        (4, 4, []),
        (4, 5, [4]),
        (0, 2, [1]),
        (2, None, [2, 3, 4]),
        (9, None, [4]),
    ],
)
def test_a_range_of_offsets(start: int, end: int | None, found: list[int]) -> None:
    """A range up to the active segment's base gives the inactive segments."""
    assert [segment.base_offset for segment in segments(1, 2, 3, 4).between(start, end)] == found


@pytest.mark.parametrize(
    ("offset", "floor", "lower", "higher"),
    [
        (0, None, None, 1),
        (1, 1, None, 3),
        (2, 1, 1, 3),
        (3, 3, 1, 5),
        (4, 3, 3, 5),
        (5, 5, 3, 7),
        (7, 7, 5, None),
        (99, 7, 7, None),
    ],
)
def test_the_nearest(offset: int, floor: int | None, lower: int | None, higher: int | None) -> None:
    log = segments(1, 3, 5, 7)
    found = (log.floor(offset), log.lower(offset), log.higher(offset))
    assert [None if segment is None else segment.base_offset for segment in found] == [floor, lower, higher]


@pytest.mark.parametrize(("offset", "above"), [(0, [1, 3, 5, 7, 9]), (1, [3, 5, 7, 9]), (8, [9]), (9, []), (100, [])])
def test_all_above(offset: int, above: list[int]) -> None:
    log, walked = segments(1, 3, 5, 7, 9), []
    segment = log.higher(offset)
    while segment is not None:
        walked.append(segment.base_offset)
        segment = log.higher(segment.base_offset)
    assert walked == above


def test_a_reader_goes_on_with_what_it_took() -> None:
    log = segments(1, 3, 5)
    walk = iter(log)
    assert next(walk) == Segment(1)
    log.remove(3)
    log.add(Segment(7))
    assert [segment.base_offset for segment in walk] == [3, 5]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 12))), st.integers(-1, 14))
def test_as_a_dict(steps: list[tuple[bool, int]], offset: int) -> None:
    log, model = segments(), {}
    for generation, (put_in, base) in enumerate(steps):
        if put_in:
            model[base] = Segment(base, generation)
            log.add(model[base])
        else:
            model.pop(base, None)
            log.remove(base)
    assert list(log) == [model[base] for base in sorted(model)]
    below = [base for base in sorted(model) if base <= offset]
    assert log.floor(offset) == (model[below[-1]] if below else None)
