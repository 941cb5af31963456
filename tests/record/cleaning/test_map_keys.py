"""Building the offset map: the keys that go in, the moves of the latest offset, the end of a full map."""

import numpy as np
import pytest
from typing_extensions import Buffer

from legacy_build import MessageFields, build_set
from record.cleaning.dirty_batches import CODECS, batch_of, record
from tidelog.kernel import OffsetMap, scan_batches
from tidelog.record.cleaning import hash_keys, put_keys


def new_map(slots: int = 100) -> OffsetMap:
    return OffsetMap(24 * slots, key=bytes(16), load_factor=0.5)


def put(offset_map: OffsetMap, data: Buffer, start_offset: int = 0, wanted: list[bool] | None = None) -> bool:
    table = scan_batches(data)
    chosen = np.ones(len(table), np.bool_) if wanted is None else np.array(wanted)
    hashed = hash_keys(offset_map, data, table, wanted=chosen, start_offset=start_offset)
    return put_keys(offset_map, hashed, start_offset=start_offset)


@pytest.mark.parametrize("codec", CODECS)
def test_the_latest_offset_of_each_key(codec: str) -> None:
    data = batch_of(
        record(0, b"a"), record(1, None), record(2, b"b"), record(3, b"a", None), last_offset=5, codec=codec
    )
    data += batch_of(record(6, b"c"), codec=codec)
    offset_map = new_map()
    assert put(offset_map, data)
    assert [offset_map.get(key) for key in (b"a", b"b", b"c", b"d")] == [3, 2, 6, -1]
    assert (len(offset_map), offset_map.latest_offset) == (3, 6)


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (1, 0), (1, 3)])
def test_legacy_messages(magic: int, codec: int) -> None:
    messages = [MessageFields(0, key, b"x") for key in (b"a", b"b", None, b"a")]
    offset_map = new_map()
    assert put(offset_map, build_set(messages, magic=magic, base_offset=10, codec=codec))
    assert [offset_map.get(key) for key in (b"a", b"b")] == [13, 11]
    assert offset_map.latest_offset == 13


def test_records_below_the_start_are_passed_over() -> None:
    data = batch_of(record(0, b"a")) + batch_of(record(1, b"b"), record(2, b"c"))
    offset_map = new_map()
    assert put(offset_map, data, start_offset=2)
    assert [offset_map.get(key) for key in (b"a", b"b", b"c")] == [-1, -1, 2]
    below = new_map()
    assert put(below, data, start_offset=3)
    assert below.latest_offset == -1


def test_batches_not_wanted_move_the_latest_offset_only() -> None:
    data = batch_of(record(0, b"a")) + batch_of(record(1, b"a"), record(2, b"b"), last_offset=4, codec="lz4")
    offset_map = new_map()
    assert put(offset_map, data, wanted=[True, False])
    assert (offset_map.get(b"a"), offset_map.get(b"b"), offset_map.latest_offset) == (0, -1, 4)


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_a_full_map_stops_at_the_next_key_even_one_it_knows(codec: str) -> None:
    data = batch_of(record(0, b"a"), record(1, b"b"), record(2, None), record(3, b"a"), record(4, b"c"), codec=codec)
    offset_map = new_map(slots=4)
    assert not put(offset_map, data)
    assert (offset_map.get(b"a"), offset_map.latest_offset) == (0, 1)
    enough = new_map(slots=4)
    assert put(enough, batch_of(record(0, b"a"), record(1, b"b"), record(2, None), codec=codec))
    assert enough.full
    assert enough.latest_offset == 2
