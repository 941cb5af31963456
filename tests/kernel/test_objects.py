"""Python objects from columns: both twins with all validities, wrong columns, and the objects' lives."""

import gc
import sys
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.twins import COMPILED, PLAIN, Twin, both


class Pair(NamedTuple):
    first: object
    second: object


def columns(strings: list[bytes | None]) -> tuple[bytes, npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    present = [string or b"" for string in strings]
    valid = np.array([string is not None for string in strings], np.bool_)
    offsets = np.cumsum([0, *map(len, present)], dtype=np.int32)
    return b"".join(present), offsets, np.packbits(valid, bitorder="little")


@given(strings=st.lists(st.none() | st.binary(max_size=9), max_size=40), data=st.data())
def test_strings_of_any_rows(strings: list[bytes | None], data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(strings)))
    end = data.draw(st.integers(start, len(strings)))
    for twin in (COMPILED, PLAIN):
        whole, offsets, validity = columns(strings)
        assert twin.byte_strings(whole, offsets, validity, start, end) == strings[start:end]
        without_nulls = [string or b"" for string in strings[start:end]]
        assert twin.byte_strings(memoryview(whole), offsets, None, start, end) == without_nulls


@both
@pytest.mark.parametrize(
    ("start", "end", "offsets", "validity", "fault"),
    [
        (0, 3, [0, 1, 2], None, r"rows \[0:3\] of 2"),
        (-1, 1, [0, 1, 2], None, r"rows \[-1:1\] of 2"),
        (2, 1, [0, 1, 2], None, r"rows \[2:1\] of 2"),
        (0, 0, [], None, r"rows \[0:0\] of -1"),
        (0, 2, [0, 1, 4], None, r"row 1 has the bytes \[1:4\] of 3"),
        (0, 2, [0, 2, 1], None, r"row 1 has the bytes \[2:1\] of 3"),
        (0, 2, [-1, 1, 2], None, r"row 0 has the bytes \[-1:1\] of 3"),
        (0, 9, list(range(10)), [255], "1 bytes of validity for 9 rows"),
    ],
)
def test_rows_that_do_not_lie_in_their_columns(
    twin: Twin, start: int, end: int, offsets: list[int], validity: list[int] | None, fault: str
) -> None:
    bits = None if validity is None else np.array(validity, np.uint8)
    with pytest.raises(ValueError, match=fault):
        twin.byte_strings(b"abc", np.array(offsets, np.int32), bits, start, end)


@both
def test_named_tuples_of_columns(twin: Twin) -> None:
    made = twin.named_tuples(Pair, [1, None], [b"a", ["list"]])
    assert made == [Pair(1, b"a"), Pair(None, ["list"])]
    assert all(type(one) is Pair for one in made)
    assert made[1].second == ["list"]
    assert twin.named_tuples(Pair, [], []) == []


@both
def test_columns_of_different_lengths_or_none(twin: Twin) -> None:
    with pytest.raises(ValueError, match="columns of 1, 2 objects"):
        twin.named_tuples(Pair, [1], [1, 2])
    with pytest.raises(ValueError, match="columns of no objects"):
        twin.named_tuples(Pair)


@both
def test_other_types_are_refused(twin: Twin) -> None:
    with pytest.raises(TypeError):
        twin.named_tuples(int, [1])  # type: ignore[type-var]
    with pytest.raises(TypeError):
        twin.named_tuples(Pair, (1,), (2,))  # type: ignore[arg-type]


def test_the_objects_end_with_their_tuples() -> None:
    value = object()
    before = sys.getrefcount(value)
    made = COMPILED.named_tuples(Pair, [value] * 1000, [value] * 1000)
    assert sys.getrefcount(value) == before + 2000
    assert gc.is_tracked(made[0])
    del made
    assert sys.getrefcount(value) == before
