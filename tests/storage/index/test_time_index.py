"""The time index compared with a plain list, and the cases of Kafka's TimeIndexTest."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import IndexCorruptError, InvalidOffsetError
from tidelog.storage.fs import LOCAL
from tidelog.storage.index import TimeIndexReader, TimeIndexWriter, TimestampOffset

BASE = 345
Make = Callable[..., TimeIndexWriter]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(max_index_bytes: int = 30 * 12) -> TimeIndexWriter:
        return TimeIndexWriter(LOCAL, tmp_path / "x.timeindex", BASE, max_index_bytes=max_index_bytes)

    return make


def pack(entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">qi", *entry) for entry in entries)


def test_look_ups(make: Make) -> None:
    index = make()
    assert index.lookup(100) == index.last_entry == (-1, BASE)
    entries = [TimestampOffset(10 * number, BASE + number) for number in range(1, 30)]
    for entry in entries:
        assert not index.is_full
        index.maybe_append(*entry)
    assert index.is_full
    assert index.last_entry == entries[-1]
    index.flush()
    reader = TimeIndexReader(index.path.read_bytes(), BASE).valid_prefix()
    for timestamp in range(-5, 320, 3):
        expected = max([entry for entry in entries if entry.timestamp <= timestamp], default=(-1, BASE))
        assert index.lookup(timestamp) == reader.lookup(timestamp) == expected
    assert [reader.entry(number) for number in range(len(reader))] == entries
    assert [index.entry(number) for number in range(index.entries)] == entries
    assert reader.last_entry == entries[-1]
    for far in (reader, index):
        with pytest.raises(IndexError):
            far.entry(29)


def test_entries_of_twelve_bytes(make: Make) -> None:
    index = make()
    assert (index.ENTRY_SIZE, TimeIndexReader.ENTRY_SIZE, index.length) == (12, 12, 360)
    assert index.last_entry == TimeIndexReader(b"", BASE).last_entry == (-1, BASE)
    for empty in (index, TimeIndexReader(b"", BASE)):
        with pytest.raises(IndexError):
            empty.entry(0)
    index.maybe_append(1, BASE + 1)
    index.flush()
    assert index.path.read_bytes()[:12] == struct.pack(">qi", 1, 1)
    reader = TimeIndexReader(index.path.read_bytes()[:12], BASE)
    assert index.entry(0) == reader.entry(0) == index.last_entry == reader.last_entry == (1, BASE + 1)


def test_one_slot_is_kept_for_the_last_entry(make: Make) -> None:
    index = make(max_index_bytes=25)
    assert index.max_entries == 2
    index.maybe_append(10, BASE + 1)
    with pytest.raises(ValueError, match="full"):
        index.maybe_append(20, BASE + 2)
    index.maybe_append(20, BASE + 2, skip_full_check=True)
    assert index.entries == 2
    with pytest.raises(ValueError, match="full"):
        index.maybe_append(30, BASE + 3, skip_full_check=True)
    index.maybe_append(20, BASE + 2, skip_full_check=True)


def test_only_larger_timestamps_are_entered(make: Make) -> None:
    index = make()
    index.maybe_append(-1, BASE + 7)
    assert index.entries == 0
    index.maybe_append(10, BASE + 5)
    index.maybe_append(10, BASE + 6)
    assert index.last_entry == (10, BASE + 5)
    with pytest.raises(InvalidOffsetError, match="cannot follow"):
        index.maybe_append(11, BASE + 4)
    with pytest.raises(ValueError, match="timestamp 9 cannot follow"):
        index.maybe_append(9, BASE + 6)
    with pytest.raises(OverflowError):
        index.maybe_append(12, BASE + 2**31)
    index.maybe_append(11, BASE + 5)
    assert index.entries == 2


@pytest.mark.parametrize(("offset", "kept"), [(BASE, 0), (BASE + 1, 0), (BASE + 2, 1), (BASE + 5, 4), (BASE + 99, 5)])
def test_truncation_drops_what_is_at_or_above(make: Make, offset: int, kept: int) -> None:
    index = make()
    for number in range(1, 6):
        index.maybe_append(number * 10, BASE + number)
    index.truncate_to(offset)
    assert index.entries == kept
    assert index.last_entry == ((kept * 10, BASE + kept) if kept else (-1, BASE))


def test_resize_keeps_what_fits(make: Make) -> None:
    index = make()
    for number in range(1, 6):
        index.maybe_append(number * 10, BASE + number)
    index.resize(3 * 12 + 5)
    assert (index.entries, index.length, index.last_entry) == (3, 36, (30, BASE + 3))
    index.reset()
    assert (index.entries, index.length, index.last_entry) == (0, 360, (-1, BASE))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (bytes(13), "13 bytes"),
        (pack([(5, 1), (4, 2)]), "the last timestamp 4 is below the first, 5"),
        (pack([(5, 1), (6, -2)]), "last offset 343 is below"),
    ],
)
def test_sanity_checks(make: Make, tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x.timeindex").write_bytes(data)
    with pytest.raises(IndexCorruptError, match=message):
        make().sanity_check()
    with pytest.raises(IndexCorruptError, match=message):
        TimeIndexReader(data, BASE).sanity_check()


@pytest.mark.parametrize(
    ("entries", "valid"),
    [
        ([], 0),
        ([(0, 0)], 0),
        ([(0, 0), (0, 0)], 0),
        ([(0, 0), (1, 5)], 2),
        ([(7, 0), (0, 0)], 1),
        ([(7, 3), (8, 3), (9, 2)], 2),
        ([(7, 3), (7, 4)], 1),
        ([(-7, 3)], 0),
        ([(7, -3)], 0),
    ],
)
def test_the_valid_prefix(entries: list[tuple[int, int]], valid: int) -> None:
    assert len(TimeIndexReader(pack(entries) + b"tail", BASE).valid_prefix()) == valid


@given(st.binary(max_size=200), st.integers(-(2**63), 2**63 - 1))
def test_any_bytes_can_be_asked(data: bytes, timestamp: int) -> None:
    reader = TimeIndexReader(data, BASE)
    for view in (reader, reader.valid_prefix()):
        view.lookup(timestamp)
        assert len(view.entries()[0]) == len(view.entries()[1]) == len(view)
    timestamps, offsets = reader.valid_prefix().entries()
    assert all(a < b for a, b in itertools.pairwise(timestamps))
    assert all(a <= b for a, b in itertools.pairwise(offsets))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=25), st.integers(BASE, BASE + 60))
def test_as_a_list(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int]], cut: int) -> None:
    path = tmp_path_factory.mktemp("model") / "x.timeindex"
    index = TimeIndexWriter(LOCAL, path, BASE, max_index_bytes=100 * 12)
    model: list[tuple[int, int]] = []
    timestamp, offset = 0, BASE
    for more_time, more_offset in steps:
        timestamp, offset = timestamp + more_time, offset + more_offset
        index.maybe_append(timestamp, offset)
        if timestamp > (model[-1][0] if model else -1):
            model.append((timestamp, offset))
    index.truncate_to(cut)
    model = [entry for entry in model if entry[1] < cut]
    assert index.last_entry == (model[-1] if model else (-1, BASE))
    index.close()
    assert path.read_bytes() == pack([(when, at - BASE) for when, at in model])
