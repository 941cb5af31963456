"""Blocks of keys between the tasks of a compaction: split, moved and merged. No Spark is needed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidelog.spark.jobs.compaction.keys import (
    KEYS,
    from_block,
    newest,
    newest_of_all_groups,
    ranges_of,
    split_by_number,
    to_block,
)

Rows = list[tuple[int, bytes, int | None]]
ROWS = st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=3), st.none() | st.integers(0, 9)), max_size=40)


def table(rows: Rows) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    return pa.table([pa.array(column, kind.type) for column, kind in zip(columns, KEYS, strict=True)], schema=KEYS)


def listed(found: pa.Table) -> Rows:
    return sorted(((row["number"], row["key"], row["latest"]) for row in found.to_pylist()), key=repr)


@given(ROWS, st.integers(1, 5))
def test_every_row_is_in_the_block_of_its_range(rows: Rows, count: int) -> None:
    whole = table(rows)
    ranges = ranges_of(whole.column("key"), count)
    blocks = {number: from_block(block) for number, block in split_by_number(whole, ranges)}
    assert listed(pa.concat_tables([KEYS.empty_table(), *blocks.values()])) == listed(whole)
    for number, block in blocks.items():
        assert 0 <= number < count
        assert set(ranges_of(block.column("key"), count).tolist()) == {number}


@given(ROWS)
def test_the_newest_of_a_group_and_of_all(rows: Rows) -> None:
    found = newest([table(rows[::2]), table(rows[1::2])])
    expected: dict[tuple[int, bytes], int | None] = {}
    for number, key, latest in rows:
        before = expected.get((number, key))
        expected[number, key] = latest if before is None else max(before, -1 if latest is None else latest)
    assert listed(found) == sorted(((*place, latest) for place, latest in expected.items()), key=repr)
    largest: dict[bytes, int] = {}
    for (_, key), latest in expected.items():
        if latest is not None:
            largest[key] = max(largest.get(key, -1), latest)
    everywhere = [(number, key, largest[key]) for number, key in expected if key in largest]
    assert listed(newest_of_all_groups(found)) == sorted(everywhere, key=repr)


def test_keys_that_are_alike_are_spread_evenly() -> None:
    keys = pa.chunked_array([pa.array([b"customer-%09d" % number for number in range(10_000)])])
    counts = np.bincount(ranges_of(keys, 8), minlength=8)
    assert counts.min() > 1000


def test_where_a_slice_begins_does_not_matter() -> None:
    keys = pa.array([b"", b"a", b"ab", b"", b"abc", b"ab"])
    whole = ranges_of(pa.chunked_array([keys]), 1 << 20).tolist()
    assert ranges_of(pa.chunked_array([keys.slice(0, 2), keys.slice(2)]), 1 << 20).tolist() == whole
    assert whole[0] == whole[3]
    assert whole[2] == whole[5]
    assert len(set(whole)) == 4
    assert from_block(to_block(table([(1, b"k", None)]))).to_pylist() == [{"number": 1, "key": b"k", "latest": None}]
