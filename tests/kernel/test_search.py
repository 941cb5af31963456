"""Index lookups: both twins against a list, near the end and far from it."""

import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.twins import COMPILED, PLAIN, Twin, both
from tidelog.kernel import IndexKey

KEYS = list(IndexKey)


def index_bytes(key: IndexKey, values: Iterable[int]) -> bytes:
    if key in (IndexKey.OFFSET, IndexKey.POSITION):
        return b"".join(struct.pack(">ii", value, value) for value in values)
    return b"".join(struct.pack(">qi", value, value) for value in values)


@both
@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("count", [0, 1, 2, 1000, 1024, 1025, 5000])
def test_look_ups(twin: Twin, key: IndexKey, count: int) -> None:
    """The entries are 10, 20, 30 and so on. A lookup searches the last 8 KiB, the warm end, first."""
    data = index_bytes(key, range(10, 10 * count + 10, 10))
    probes = {5, 10, 15, 10 * count, 10 * count + 5, *(10 * n + d for n in range(1, count, 97) for d in (-1, 0, 1))}
    for target in probes:
        below = min(count, max(0, target // 10))
        assert twin.lookup_index(data, key, target) == below - 1
        above = (target - 1) // 10
        assert twin.lookup_index_above(data, key, target) == (above if above < count else -1)


@both
def test_equal_entries(twin: Twin) -> None:
    data = index_bytes(IndexKey.TIMESTAMP, [1, 5, 5, 5, 9])
    assert twin.lookup_index(data, IndexKey.TIMESTAMP, 5) == 3
    assert twin.lookup_index_above(data, IndexKey.TIMESTAMP, 5) == 1


@both
def test_count_hides_the_zeros_at_the_end(twin: Twin) -> None:
    data = index_bytes(IndexKey.OFFSET, [3, 7]) + bytes(800)
    assert twin.lookup_index(data, IndexKey.OFFSET, 100, 2) == 1
    with pytest.raises(ValueError, match="103 entries"):
        twin.lookup_index(data, IndexKey.OFFSET, 100, 103)


@both
def test_a_key_that_does_not_exist(twin: Twin) -> None:
    with pytest.raises(ValueError, match="IndexKey"):
        twin.lookup_index(b"", 4, 0)


@given(st.sampled_from(KEYS), st.lists(st.integers(-(2**31), 2**31 - 1), max_size=40), st.integers(-(2**40), 2**40))
def test_twins_agree_on_ascending_entries(key: IndexKey, values: Iterable[int], target: int) -> None:
    data = index_bytes(key, sorted(values))
    for name in ("lookup_index", "lookup_index_above"):
        assert getattr(COMPILED, name)(data, key, target) == getattr(PLAIN, name)(data, key, target)


@given(st.sampled_from(KEYS), st.binary(max_size=20000), st.integers(-(2**63), 2**63 - 1))
def test_any_bytes_give_some_slot(key: IndexKey, data: bytes, target: int) -> None:
    whole = len(data) // key.entry_size
    assert -1 <= COMPILED.lookup_index(data, key, target) < max(whole, 1)
    assert -1 <= COMPILED.lookup_index_above(data, key, target) < max(whole, 1)
