"""The map from key hashes to offsets: published hash vectors, a dict as the model, and a full map."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.reference.siphash import siphash as plain_siphash
from kernel.twins import COMPILED, PLAIN, Twin, both
from tidelog.kernel import ColumnDecoder, RecordColumns
from tidelog.kernel._map_keys import siphash_lanes
from tidelog.kernel._offset_map import siphash

SECRET = bytes(range(16))
SOUND_ARGUMENTS: dict[str, Any] = {"memory_bytes": 2400, "key": SECRET}
# The authors' vectors for 2 and 4 rounds, 128 bits: input bytes 0, 1, 2, … of the length given.
VECTORS = {0: "a3817f04ba25a8e66df67214c7550293", 15: "5493e99933b0a8117e08ec0f97cfc3d9"}


@pytest.mark.parametrize("hash_", [siphash, plain_siphash], ids=["compiled", "plain"])
@pytest.mark.parametrize("length", VECTORS)
def test_published_vectors(hash_: Callable[[bytes, bytes, int, int], bytes], length: int) -> None:
    assert hash_(bytes(range(length)), SECRET, 2, 4).hex() == VECTORS[length]


@given(st.binary(max_size=300), st.binary(min_size=16, max_size=16))
def test_hashes_agree(data: bytes, key: bytes) -> None:
    assert siphash(data, key) == plain_siphash(data, key)
    assert siphash(data, key, 2, 4) == plain_siphash(data, key, 2, 4)


@given(
    st.lists(st.binary(max_size=40) | st.binary(min_size=16, max_size=17), max_size=8),
    st.binary(min_size=16, max_size=16),
)
def test_hashes_of_several_keys_at_once_agree(keys: list[bytes], key: bytes) -> None:
    for hashes in siphash_lanes(keys, key).values():
        assert hashes == [plain_siphash(data, key) for data in keys]


@given(st.lists(st.binary(min_size=8, max_size=15), min_size=8, max_size=8), st.binary(min_size=16, max_size=16))
def test_hashes_of_full_lanes_agree(keys: list[bytes], key: bytes) -> None:
    for hashes in siphash_lanes(keys, key).values():
        assert hashes == [plain_siphash(data, key) for data in keys]


def columns_of(keys: Sequence[bytes | None], offsets: list[int] | None = None) -> RecordColumns:
    decoder = ColumnDecoder()
    for row, key in enumerate(keys):
        offset = row if offsets is None else offsets[row]
        decoder.add_record(offset=offset, timestamp=0, timestamp_type=0, key=key)
    return decoder.finish()


@both
def test_put_and_get(twin: Twin) -> None:
    map_ = twin.OffsetMap(24 * 100, key=SECRET)
    assert (map_.slot_count, map_.max_size, len(map_), map_.latest_offset) == (100, 90, 0, -1)
    assert map_.get(b"a") == -1
    assert map_.put(b"a", 5)
    assert map_.put(b"", 6)
    assert map_.put(b"a", 9)
    assert map_.put(bytearray(b"a"), 7)
    assert (map_.get(b"a"), map_.get(memoryview(b"")), map_.get(b"b")) == (9, 6, -1)
    assert (len(map_), map_.latest_offset, map_.utilization) == (2, 9, 0.02)
    map_.clear()
    assert (len(map_), map_.latest_offset, map_.get(b"a")) == (0, -1, -1)


@both
def test_the_largest_offset(twin: Twin) -> None:
    map_ = twin.OffsetMap(24 * 100, key=SECRET)
    map_.put(b"a", 2**63 - 1)
    assert map_.get(b"a") == 2**63 - 1
    with pytest.raises(ValueError, match="negative"):
        map_.put(b"a", -1)


@both
@pytest.mark.parametrize(
    "arguments",
    [
        {"memory_bytes": 0},
        {"memory_bytes": 47},
        {"memory_bytes": -1},
        {"load_factor": 0},
        {"load_factor": 1},
        {"key": b"short"},
        {"memory_bytes": 48, "load_factor": 0.3},
    ],
)
def test_arguments_that_make_no_map(twin: Twin, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        twin.OffsetMap(**SOUND_ARGUMENTS | arguments)


@both
def test_a_full_map_takes_known_keys_only(twin: Twin) -> None:
    map_ = twin.OffsetMap(24 * 10, key=SECRET, load_factor=0.5)
    columns = columns_of([b"%d" % n for n in range(8)])
    assert map_.put_columns(columns) == 5
    assert map_.full
    assert map_.latest_offset == 4
    assert map_.put(b"3", 100)
    assert not map_.put(b"new", 101)
    assert map_.get(b"new") == -1
    assert map_.put_columns(columns, 5) == 5
    assert map_.put_columns(columns, 1, 4) == 4


@both
def test_null_keys_are_passed_over(twin: Twin) -> None:
    map_ = twin.OffsetMap(2400, key=SECRET)
    columns = columns_of([b"a", None, b"b", None, b"a"])
    assert map_.put_columns(columns) == 5
    assert len(map_) == 2
    assert map_.get_columns(columns).tolist() == [4, -1, 2, -1, 4]
    assert map_.get_columns(columns, 1, 3).tolist() == [-1, 2]
    assert map_.get_columns(columns, 2, 2).tolist() == []


@both
@pytest.mark.parametrize("key_offsets", [None, [0, 2, 1], [-1, 0, 1], [0, 1, 3], [0, 1]])
def test_columns_that_contradict_themselves(twin: Twin, key_offsets: list[int] | None) -> None:
    offsets = None if key_offsets is None else np.array(key_offsets, np.int32)
    columns = RecordColumns(
        offset=np.arange(2),
        timestamp=np.zeros(2, np.int64),
        timestamp_type=np.zeros(2, np.int8),
        key_offsets=offsets,
        key_data=memoryview(b"ab"),
    )
    map_ = twin.OffsetMap(2400, key=SECRET)
    with pytest.raises(ValueError):
        map_.put_columns(columns)
    with pytest.raises(ValueError):
        map_.get_columns(columns)
    assert len(map_) == 0


@both
def test_rows_outside_the_columns(twin: Twin) -> None:
    map_ = twin.OffsetMap(2400, key=SECRET)
    columns = columns_of([b"a", b"b"])
    for first, last in ((-1, 1), (2, 1), (0, 3)):
        with pytest.raises(ValueError, match="of 2 rows"):
            map_.put_columns(columns, first, last)
    negative = columns_of([b"a"], [-1])
    with pytest.raises(ValueError, match="negative"):
        map_.put_columns(negative)


@given(
    st.lists(st.none() | st.binary(max_size=2), max_size=120),
    st.integers(48, 24 * 60),
    st.floats(0.1, 0.99),
    st.binary(min_size=16, max_size=16),
)
def test_twins_agree_with_a_dict(
    keys: Sequence[bytes | None], memory_bytes: int, load_factor: float, secret: bytes
) -> None:
    slots = memory_bytes // 24
    if int(slots * load_factor) < 1:
        return
    columns = columns_of(keys)
    maps = [twin.OffsetMap(memory_bytes, key=secret, load_factor=load_factor) for twin in (COMPILED, PLAIN)]
    model: dict[bytes, int] = {}
    taken = len(keys)
    for row, key in enumerate(keys):
        if key is not None and key not in model and len(model) == maps[0].max_size:
            taken = row
            break
        if key is not None:
            model[key] = row
    found = [-1 if key is None else model.get(key, -1) for key in keys]
    for map_ in maps:
        assert map_.put_columns(columns) == taken
        assert len(map_) == len(model)
        assert map_.get_columns(columns).tolist() == found
        assert map_.latest_offset == max(model.values(), default=-1)
    assert maps[0].collision_rate == maps[1].collision_rate
    assert (maps[0].lookups, maps[0].probes) == (maps[1].lookups, maps[1].probes)


def test_many_keys() -> None:
    keys = np.random.default_rng(3).integers(0, 2**62, 200_000)
    columns = RecordColumns(
        offset=np.arange(len(keys)),
        timestamp=np.zeros(len(keys), np.int64),
        timestamp_type=np.zeros(len(keys), np.int8),
        key_offsets=np.arange(0, 8 * len(keys) + 1, 8, dtype=np.int32),
        key_data=memoryview(keys.tobytes()),
    )
    map_ = COMPILED.OffsetMap(24 * 225_000, key=SECRET)
    assert map_.put_columns(columns) == len(keys)
    assert 0.5 < map_.collision_rate < 6
    assert np.array_equal(map_.get_columns(columns), columns.offset)
