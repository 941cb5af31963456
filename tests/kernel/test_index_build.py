"""The selection of index entries: compiled against plain, at once and in chunks."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.reference.index_build import select_index_entries as plain_select_index_entries
from tidelog.kernel import select_index_entries

batches = st.lists(
    st.tuples(st.integers(1, 3000), st.integers(-2, 5), st.integers(-1, 60)),  # size, offset step, timestamp
    max_size=60,
)
EMPTY = (0, -1, 100, 99)
Ints = npt.NDArray[np.int64]
BatchStep = tuple[int, int, int]
Columns = tuple[Ints, npt.NDArray[np.int32], Ints, Ints]
State = tuple[int, int, int, int]
Selection = tuple[Ints, State, int]
Select = Callable[[Ints, npt.NDArray[np.int32], Ints, Ints, int, int, State], Selection]


def columns(rows: list[BatchStep]) -> Columns:
    sizes = np.array([row[0] for row in rows], dtype=np.int32)
    positions = np.cumsum(sizes, dtype=np.int64) - sizes
    last_offsets = 100 + np.cumsum(np.array([row[1] for row in rows], dtype=np.int64))
    timestamps = np.array([row[2] for row in rows], dtype=np.int64)
    return positions, sizes, last_offsets, timestamps


def rows_of(whole: Columns, rows: slice) -> Columns:
    positions, sizes, last_offsets, timestamps = whole
    return positions[rows], sizes[rows], last_offsets[rows], timestamps[rows]


def as_lists(selection: Selection) -> tuple[list[list[int]], State, int]:
    entries, state, bad_row = selection
    return entries.T.tolist(), state, bad_row


both = pytest.mark.parametrize("select", [select_index_entries, plain_select_index_entries])


@given(batches, st.integers(0, 5000))
def test_compiled_equals_plain(rows: list[BatchStep], interval: int) -> None:
    arguments = (*columns(rows), 100, interval, EMPTY)
    assert as_lists(select_index_entries(*arguments)) == as_lists(plain_select_index_entries(*arguments))


@both
@given(rows=batches, cut=st.integers(0, 60))
def test_chunks_give_what_the_whole_gives(select: Select, rows: list[BatchStep], cut: int) -> None:
    rows = [(size, abs(step) + 1, timestamp) for size, step, timestamp in rows]
    whole_columns = columns(rows)
    whole = as_lists(select(*whole_columns, 100, 2000, EMPTY))
    first = as_lists(select(*rows_of(whole_columns, slice(cut)), 100, 2000, EMPTY))
    second = as_lists(select(*rows_of(whole_columns, slice(cut, None)), 100, 2000, first[1]))
    assert whole == (first[0] + second[0], second[1], -1)


@both
def test_entry_comes_after_more_than_the_interval(select: Select) -> None:
    rows = [(1000, 1, 5), (1000, 1, 9), (1, 1, 7), (1000, 1, 9), (1, 1, 3)]
    entries, state, bad_row = as_lists(select(*columns(rows), 100, 2000, EMPTY))
    assert entries == [[104, 2001, 9, 102]], "the timestamp's offset is of the first batch that has it"
    assert state == (1001, 9, 102, 104)
    assert bad_row == -1


@both
def test_offset_that_does_not_ascend_stops_the_selection(select: Select) -> None:
    rows = [(10, 5, 1), (10, 1, 1), (10, -3, 1), (10, 9, 1)]
    entries, _, bad_row = as_lists(select(*columns(rows), 100, 0, EMPTY))
    assert entries == [[106, 10, 1, 105]]
    assert bad_row == 2


@both
@pytest.mark.parametrize("offset", [99, 100 + 2**31, -(2**63), 2**63 - 1])
def test_offset_out_of_31_bits_stops_the_selection(select: Select, offset: int) -> None:
    positions, sizes, offsets, timestamps = columns([(10, 5, 1), (10, 1, 1)])
    offsets[1] = offset
    assert as_lists(select(positions, sizes, offsets, timestamps, 100, 0, EMPTY))[2] == 1


@both
def test_columns_of_unequal_length_are_refused(select: Select) -> None:
    positions, sizes, offsets, timestamps = columns([(10, 5, 1)])
    with pytest.raises(ValueError, match="columns"):
        select(positions, sizes, offsets[:0], timestamps, 100, 0, EMPTY)
