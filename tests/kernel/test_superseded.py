"""Batches that later keys supersede: an OffsetMap reports certain ones only, and never a wrong one."""

import random

import numpy as np

from kernel.batch_bytes import batch, record
from kernel.twins import COMPILED, PLAIN, Twin, both
from tidelog.kernel import OffsetMap, scan_batches

SECRET = bytes(16)
FAR = 2**27


def batch_of(keys: list[bytes | None], base_offset: int, **fields: int) -> bytes:
    return batch([record(number, key) for number, key in enumerate(keys)], base_offset=base_offset, **fields)


def put(twin: Twin, offset_map: OffsetMap, data: bytes, *, wanted: list[bool] | None = None) -> None:
    table = scan_batches(data)
    chosen = np.ones(len(table), np.bool_) if wanted is None else np.array(wanted, np.bool_)
    hashed = twin.hash_batch_keys(offset_map, data, table, wanted=chosen, start_offset=0)
    assert twin.put_hashed_keys(offset_map, hashed, start_offset=0)


def superseded(twin: Twin, data: bytes, wanted: list[bool] | None = None) -> list[bool]:
    offset_map = twin.OffsetMap(24 * 400, key=SECRET)
    put(twin, offset_map, data, wanted=wanted)
    found: list[bool] = offset_map.superseded(scan_batches(data)).tolist()
    return found


@both
def test_batches_whose_keys_all_came_again(twin: Twin) -> None:
    data = batch_of([b"a", b"b"], 0) + batch_of([b"a", b"c"], 2) + batch_of([b"b", b"a"], 4)
    assert superseded(twin, data) == [True, False, False]
    assert superseded(twin, data, wanted=[False, True, True]) == [False, False, False]


@both
def test_a_record_without_a_key_is_not_known(twin: Twin) -> None:
    data = batch_of([b"a", None], 0) + batch_of([b"a"], 2)
    assert superseded(twin, data) == [False, False]


@both
def test_gaps_between_offsets(twin: Twin) -> None:
    first = batch([record(3, b"a"), record(90, b"b")], last_offset_delta=99)
    assert superseded(twin, first + batch_of([b"a", b"b"], 100)) == [True, False]


@both
def test_markers_and_empty_batches_are_not_known(twin: Twin) -> None:
    data = batch_of([b"a"], 0, attributes=0x20) + batch(b"", base_offset=1) + batch_of([b"a"], 2)
    assert superseded(twin, data) == [False, False, False]


@both
def test_offsets_that_fall_end_it(twin: Twin) -> None:
    """Two records have the same offset, so a bit cannot distinguish them."""
    offset_map = twin.OffsetMap(24 * 400, key=SECRET)
    first = batch_of([b"a", b"b"], 0) + batch_of([b"a", b"b"], 2)
    put(twin, offset_map, first)
    assert offset_map.superseded(scan_batches(first)).tolist() == [True, False]
    put(twin, offset_map, batch_of([b"c"], 3))
    assert not offset_map.superseded(scan_batches(first)).any()
    put(twin, offset_map, batch_of([b"a", b"b"], 4))
    assert not offset_map.superseded(scan_batches(first)).any()
    offset_map.clear()
    put(twin, offset_map, first)
    assert offset_map.superseded(scan_batches(first)).tolist() == [True, False]


@both
def test_batches_out_of_order_are_not_known(twin: Twin) -> None:
    offset_map = twin.OffsetMap(24 * 400, key=SECRET)
    first, second = batch_of([b"a"], 0), batch_of([b"a"], 1)
    put(twin, offset_map, first + second)
    assert not offset_map.superseded(scan_batches(second + first)).any()


def test_what_lies_far_ahead_is_not_noted() -> None:
    data = batch_of([b"a"], 0) + batch_of([b"a", b"b"], FAR) + batch_of([b"a", b"b"], FAR + 2)
    assert superseded(COMPILED, data) == [True, False, False]


def test_twins_agree_and_say_nothing_wrong() -> None:
    """Each record of a superseded batch lies below the latest offset of its key."""
    known = 0
    for seed in range(100):
        chance = random.Random(seed)
        keys = [b"%d" % chance.randrange(12) if chance.random() < 0.98 else None for _ in range(300)]
        data, offset = b"", chance.randrange(100)
        starts: list[int] = []
        while len(keys) > offset - (starts[0] if starts else offset):
            starts.append(offset)
            count = chance.randrange(1, 90)
            begun = offset - starts[0]
            data += batch_of(keys[begun : begun + count], offset)
            offset += count
        found = [superseded(twin, data) for twin in (COMPILED, PLAIN)]
        latest = {key: number for number, key in enumerate(keys)}
        ends = [*(start - starts[0] for start in starts[1:]), len(keys)]
        expected = [
            all(keys[n] is not None and n < latest[keys[n]] for n in range(start - starts[0], end))
            for start, end in zip(starts, ends, strict=True)
        ]
        assert found == [expected, expected]
        known += sum(expected)
    assert known > 100
