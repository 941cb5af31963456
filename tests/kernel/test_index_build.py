"""The selection of index entries: compiled against plain, fed whole and in chunks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel import select_index_entries
from tidelog.kernel.reference.index_build import select_index_entries as plain_select_index_entries

batches = st.lists(
    st.tuples(st.integers(1, 3000), st.integers(-2, 5), st.integers(-1, 60)),  # size, offset step, timestamp
    max_size=60,
)
EMPTY = (0, -1, 100, 99)


def columns(rows):
    sizes = np.array([row[0] for row in rows], dtype=np.int32)
    last_offsets = 100 + np.cumsum(np.array([row[1] for row in rows], dtype=np.int64))
    timestamps = np.array([row[2] for row in rows], dtype=np.int64)
    return sizes, last_offsets, timestamps


def as_lists(selection):
    rows, timestamps, offsets, state, bad_row = selection
    return rows.tolist(), timestamps.tolist(), offsets.tolist(), state, bad_row


@given(batches, st.integers(0, 5000))
def test_compiled_equals_plain(rows, interval):
    arguments = (*columns(rows), interval, *EMPTY)
    assert as_lists(select_index_entries(*arguments)) == as_lists(plain_select_index_entries(*arguments))


@pytest.mark.parametrize("select", [select_index_entries, plain_select_index_entries])
@given(rows=batches, cut=st.integers(0, 60))
def test_chunks_give_what_the_whole_gives(select, rows, cut):
    rows = [(size, abs(step) + 1, timestamp) for size, step, timestamp in rows]
    sizes, offsets, timestamps = columns(rows)
    whole = as_lists(select(sizes, offsets, timestamps, 2000, *EMPTY))
    first = select(sizes[:cut], offsets[:cut], timestamps[:cut], 2000, *EMPTY)
    second = select(sizes[cut:], offsets[cut:], timestamps[cut:], 2000, *first[3])
    assert whole[0] == first[0].tolist() + [row + len(sizes[:cut]) for row in second[0].tolist()]
    assert whole[1] == first[1].tolist() + second[1].tolist()
    assert whole[2] == first[2].tolist() + second[2].tolist()
    assert whole[3] == second[3]


@pytest.mark.parametrize("select", [select_index_entries, plain_select_index_entries])
def test_entry_comes_after_more_than_the_interval(select):
    sizes, offsets, timestamps = columns([(1000, 1, 5), (1000, 1, 9), (1, 1, 7), (1000, 1, 9), (1, 1, 3)])
    rows, entry_timestamps, entry_offsets, state, bad_row = select(sizes, offsets, timestamps, 2000, *EMPTY)
    assert rows.tolist() == [3]
    assert entry_timestamps.tolist() == [9]
    assert entry_offsets.tolist() == [102], "the first batch with the largest timestamp"
    assert state == (1001, 9, 102, 104)
    assert bad_row == -1


@pytest.mark.parametrize("select", [select_index_entries, plain_select_index_entries])
def test_offset_that_does_not_ascend_stops_the_selection(select):
    sizes, offsets, timestamps = columns([(10, 5, 1), (10, 1, 1), (10, -3, 1), (10, 9, 1)])
    rows, _, _, _, bad_row = select(sizes, offsets, timestamps, 0, *EMPTY)
    assert rows.tolist() == [1]
    assert bad_row == 2


@pytest.mark.parametrize("select", [select_index_entries, plain_select_index_entries])
def test_columns_of_unequal_length_are_refused(select):
    sizes, offsets, timestamps = columns([(10, 5, 1)])
    with pytest.raises(ValueError, match="columns"):
        select(sizes, offsets[:0], timestamps, 0, *EMPTY)
