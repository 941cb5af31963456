"""The ends of segments, indexes and offsets: the compiled classes and their plain twins do the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.reference import log_end, log_offsets
from tidelog.kernel import IndexProgress, LogOffsets, SegmentEnd
from tidelog.model import InvalidOffsetError, LogOffsetMetadata
from tidelog.storage.fs import LOCAL
from tidelog.storage.index import OffsetIndexWriter, TimeIndexWriter

BASE = 1000
small = st.integers(0, 60)
near = st.integers(-3, 60) | st.sampled_from([2**31 - 1, 2**31])


def error_of(call: Callable[..., object], *arguments: object) -> type[Exception] | None:
    try:
        call(*arguments)
    except (ValueError, OverflowError, InvalidOffsetError) as error:
        return type(error)
    return None


@settings(deadline=None)
@given(entries=st.lists(st.tuples(near, small), max_size=100), room=st.integers(1, 90))
def test_offset_indexes(tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, int]], room: int) -> None:
    path = tmp_path_factory.mktemp("index") / "a.index"
    index = OffsetIndexWriter(LOCAL, path, BASE, max_index_bytes=room * 8)
    plain = log_end.OffsetIndexEnd(BASE, room)
    for offset, position in entries:
        found, expected = (error_of(append, BASE + offset, position) for append in (index.append, plain.append))
        assert found == expected
        assert (index.entries, index.is_full) == (len(plain.entries), plain.is_full)
    index.close()
    assert path.read_bytes() == plain.to_bytes()


@settings(deadline=None)
@given(entries=st.lists(st.tuples(st.integers(-1, 60), near, st.booleans()), max_size=100), room=st.integers(1, 90))
def test_time_indexes(
    tmp_path_factory: pytest.TempPathFactory, entries: list[tuple[int, int, bool]], room: int
) -> None:
    path = tmp_path_factory.mktemp("index") / "a.timeindex"
    index = TimeIndexWriter(LOCAL, path, BASE, max_index_bytes=room * 12)
    plain = log_end.TimeIndexEnd(BASE, room)
    for timestamp, offset, skips in entries:
        found, expected = (
            error_of(append, timestamp, BASE + offset, skips) for append in (index.maybe_append, plain.maybe_append)
        )
        assert found == expected
        assert (index.entries, index.is_full) == (len(plain.entries), plain.is_full)
        assert index.last_entry == (plain.entries[-1] if plain.entries else (-1, BASE))
    index.close()
    assert path.read_bytes() == plain.to_bytes()


@given(st.integers(0, 100), st.lists(st.tuples(st.integers(1, 80), small, st.integers(-1, 60)), max_size=50))
def test_batches_that_get_entries(interval: int, batches: list[tuple[int, int, int]]) -> None:
    progress, state = IndexProgress(BASE, interval), (0, -1, BASE, BASE - 1)
    for size, offset, timestamp in batches:
        expected, state = log_end.add_one(state, interval, size, BASE + offset, timestamp)
        assert progress.add_one(size, BASE + offset, timestamp) == expected
        assert progress._state == state


@given(
    batches=st.lists(st.tuples(st.integers(1, 50), near.filter(lambda offset: offset >= 0), small), max_size=20),
    roll=st.none() | st.integers(-1, 40),
    limits=st.tuples(st.integers(1, 500), st.integers(0, 50)),
    now_ms=st.integers(0, 90),
)
def test_rows_that_a_segment_takes(
    batches: list[tuple[int, int, int]], roll: int | None, limits: tuple[int, int], now_ms: int
) -> None:
    created_ms, begun = 20, 7
    end = SegmentEnd(BASE, begun, created_ms)
    end._set_roll_limits(*limits)
    size, offset, timestamp = (np.array([one[column] for one in batches], np.int64) for column in range(3))
    allowed = end._rows_allowed(size.astype(np.int32), offset + BASE, timestamp, roll, now_ms)
    expected, total = [], begun
    for one_size, one_offset, one_timestamp in batches:
        total += one_size
        waited = now_ms - created_ms if roll is None or roll < 0 else one_timestamp - roll
        expected.append(
            log_end.allows(
                segment_bytes=limits[0],
                roll_after_ms=limits[1],
                end=total,
                relative_offset=one_offset,
                waited_ms=waited,
            )
        )
    assert allowed.tolist() == expected


places = st.builds(LogOffsetMetadata, small, st.sampled_from([0, 10, 20]), st.integers(0, 5))
changes = st.one_of(
    st.tuples(
        st.sampled_from(
            ["set_log_end", "update_high_watermark", "maybe_increment_high_watermark", "resolved_high_watermark"]
        ),
        places | st.builds(LogOffsetMetadata, small),
    ),
    st.tuples(st.sampled_from(["note_synced", "set_log_start", "lower_log_start", "note_truncation"]), small),
    st.tuples(st.just("take_truncation")),
)


@given(start=small, end=places, point=small, steps=st.lists(changes, max_size=30))
def test_offsets(start: int, end: LogOffsetMetadata, point: int, steps: list[tuple[Any, ...]]) -> None:
    twins: list[Any] = [
        kind(log_start=start, log_end=end, recovery_point=point) for kind in (LogOffsets, log_offsets.LogOffsets)
    ]
    marks: list[list[int]] = [[], []]
    for twin, seen in zip(twins, marks, strict=True):
        twin.on_high_watermark = seen.append
    for name, *arguments in steps:
        found, expected = (result(twin, name, arguments) for twin in twins)
        assert found == expected
        assert values(twins[0]) == values(twins[1])
    for twin in twins:
        twin.restart(log_start=3, at=end)
    assert values(twins[0]) == values(twins[1])
    assert marks[0] == marks[1]


def result(twin: Any, name: str, arguments: list[Any]) -> object:
    try:
        return getattr(twin, name)(*arguments)
    except ValueError as error:
        return str(error)


def values(twin: Any) -> tuple[Any, ...]:
    return twin.log_start, twin.log_end, twin.high_watermark, twin.recovery_point, twin.synced
