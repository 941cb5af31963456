"""Leader epochs compared with a plain model, and the cases of Kafka's LeaderEpochFileCacheTest."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import CheckpointError
from tidelog.storage.epoch import EpochEntry, LeaderEpochCache, LeaderEpochCheckpoint
from tidelog.storage.fs import LOCAL


def cache(*entries: tuple[int, int]) -> LeaderEpochCache:
    return LeaderEpochCache(EpochEntry(*entry) for entry in entries)


def test_empty() -> None:
    empty = cache()
    assert (empty.entries, empty.latest_entry, empty.earliest_entry, empty.latest_epoch) == ((), None, None, None)
    assert empty.end_offset_for(0, 100) is None
    assert empty.end_offset_for(-1, 73) is None
    assert empty.epoch_for_offset(5) is None
    assert (empty.entry(1), empty.previous_entry(1), empty.previous_epoch(1), empty.next_epoch(1)) == (None,) * 4
    assert not empty.truncate_from_end(0)
    assert not empty.truncate_from_start(10)
    assert not empty.clear()


def test_assigning() -> None:
    epochs = cache((2, 10))
    assert not epochs.assign(2, 10)
    assert not epochs.assign(2, 11)
    assert epochs.assign(3, 12)
    assert epochs.entries == ((2, 10), (3, 12))
    assert epochs.latest_entry == (3, 12)
    assert epochs.earliest_entry == (2, 10)
    for epoch, start_offset in ((-1, 5), (5, -1)):
        with pytest.raises(ValueError, match="no leader epoch"):
            epochs.assign(epoch, start_offset)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ((4, 12), ((2, 6), (3, 8), (4, 12))),  # the latest epoch's start moves back up: not an update
        ((4, 10), ((2, 6), (3, 8), (4, 10))),
        ((4, 8), ((2, 6), (4, 8))),
        ((3, 9), ((2, 6), (3, 9))),  # an older epoch than the latest
        ((1, 9), ((1, 9),)),
        ((5, 7), ((2, 6), (5, 7))),  # offsets go back
        ((5, 6), ((5, 6),)),
        ((5, 0), ((5, 0),)),
    ],
)
def test_contradicted_entries_go(entry: tuple[int, int], expected: tuple[tuple[int, int], ...]) -> None:
    epochs = cache((2, 6), (3, 8), (4, 11))
    epochs.assign(*entry)
    assert epochs.entries == (expected if entry != (4, 12) else ((2, 6), (3, 8), (4, 11)))


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [(-1, None), (0, (0, 11)), (4, (4, 11)), (5, (5, 13)), (6, (5, 13)), (7, (7, 17)), (8, (8, 99)), (9, None)],
)
def test_end_offsets(epoch: int, expected: tuple[int, int] | None) -> None:
    assert cache((5, 11), (7, 13), (8, 17)).end_offset_for(epoch, 99) == expected


def test_a_follower_notes_the_epoch_of_every_batch() -> None:
    """An epoch begins with its first batch. Later batches of it only move the log end."""
    epochs = cache()
    for epoch, offset in ((0, 0), (0, 1), (0, 2), (1, 3), (1, 4), (1, 5), (2, 6), (2, 7), (2, 8)):
        assert epochs.assign(epoch, offset) is (offset % 3 == 0)
        assert epochs.latest_epoch == epoch
        assert epochs.end_offset_for(epoch, offset + 1) == (epoch, offset + 1)
    assert [epochs.end_offset_for(epoch, 9) for epoch in (0, 1, 2)] == [(0, 3), (1, 6), (2, 9)]


def test_leaders_that_change_before_they_write() -> None:
    """An epoch without records ends where it began, because the next epoch's entry replaced its own."""
    epochs = cache((0, 0), (1, 0))
    assert epochs.entries == ((1, 0),)
    assert [epochs.end_offset_for(epoch, 0) for epoch in (0, 1)] == [(0, 0), (1, 0)]
    assert [epochs.end_offset_for(epoch, 5) for epoch in (0, 1)] == [(0, 0), (1, 5)]
    epochs.assign(2, 5)
    assert [epochs.end_offset_for(epoch, 10) for epoch in (0, 1, 2)] == [(0, 0), (1, 5), (2, 10)]


def test_neighbours() -> None:
    epochs = cache((2, 6), (4, 11), (7, 12))
    assert [epochs.previous_epoch(epoch) for epoch in (2, 3, 4, 8)] == [None, 2, 2, 7]
    assert [epochs.next_epoch(epoch) for epoch in (1, 2, 4, 6, 7)] == [2, 4, 7, 7, None]
    assert [epochs.entry(epoch) for epoch in (2, 3, 7)] == [(2, 6), None, (7, 12)]
    assert epochs.previous_entry(7) == (4, 11)
    assert [epochs.epoch_for_offset(offset) for offset in (5, 6, 10, 11, 12, 500)] == [None, 2, 2, 4, 7, 7]


@pytest.mark.parametrize(("end_offset", "left"), [(99, 3), (12, 3), (11, 2), (9, 2), (8, 1), (6, 0), (0, 0), (-1, 3)])
def test_truncated_from_the_end(end_offset: int, left: int) -> None:
    epochs = cache((2, 6), (3, 8), (4, 11))
    assert epochs.truncate_from_end(end_offset) is (left < 3)
    assert epochs.entries == ((2, 6), (3, 8), (4, 11))[:left]


@pytest.mark.parametrize(
    ("start_offset", "expected"),
    [
        (0, ((2, 6), (3, 8), (4, 11))),
        (6, ((2, 6), (3, 8), (4, 11))),
        (7, ((2, 7), (3, 8), (4, 11))),
        (8, ((3, 8), (4, 11))),
        (9, ((3, 9), (4, 11))),
        (11, ((4, 11),)),
        (20, ((4, 20),)),
    ],
)
def test_truncated_from_the_start(start_offset: int, expected: tuple[tuple[int, int], ...]) -> None:
    epochs = cache((2, 6), (3, 8), (4, 11))
    assert epochs.truncate_from_start(start_offset) is (start_offset > 6)
    assert epochs.entries == expected


def test_cleared() -> None:
    epochs = cache((2, 6), (3, 8), (4, 11))
    assert epochs.clear()
    assert epochs.entries == ()
    assert not epochs.clear()


entries_strategy = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 60)), max_size=12)


@given(entries_strategy, st.integers(-1, 65), st.integers(-1, 14))
def test_as_a_log_of_epochs(assigned: list[tuple[int, int]], offset: int, epoch: int) -> None:
    """The cache agrees with a model, the epoch of each offset, which truncates where a write contradicts it."""
    epochs = cache(*assigned)
    entries = epochs.entries
    assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in itertools.pairwise(entries))
    below = [entry for entry in entries if entry.start_offset <= offset]
    assert epochs.epoch_for_offset(offset) == (below[-1].epoch if below else None)
    end = epochs.end_offset_for(epoch, 60)
    if end is not None and epoch != epochs.latest_epoch:
        assert end.epoch <= epoch
        assert end.end_offset == min(entry.start_offset for entry in entries if entry.epoch > epoch)
    cut = cache(*entries)
    cut.truncate_from_end(offset)
    assert all(cut.epoch_for_offset(at) == epochs.epoch_for_offset(at) for at in range(offset))
    cut = cache(*entries)
    cut.truncate_from_start(offset)
    assert all(cut.epoch_for_offset(at) == epochs.epoch_for_offset(at) for at in range(max(0, offset), 70))


def test_the_file(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    assert LeaderEpochCheckpoint.read(LOCAL, path) == []
    LeaderEpochCheckpoint.write(LOCAL, path, cache((0, 0), (2, 777)).entries)
    assert path.read_bytes() == b"0\n2\n0 0\n2 777\n"
    assert LeaderEpochCheckpoint.read(LOCAL, path) == [(0, 0), (2, 777)]


def test_what_is_cut_is_cut_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "leader-epoch-checkpoint"
    epochs = cache((2, 6), (3, 8), (4, 11))
    LeaderEpochCheckpoint.write(LOCAL, path, epochs.entries)
    for changed in (epochs.truncate_from_end(11), epochs.truncate_from_start(8)):
        assert changed
        LeaderEpochCheckpoint.write(LOCAL, path, epochs.entries)
    assert LeaderEpochCheckpoint.read(LOCAL, path) == [(3, 8)]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1\n0\n", "line 1"),
        (b"0\n1\n0\n", "line 3: not an entry: '0'"),
        (b"0\n1\n-1 0\n", "line 3"),
        (b"0\n1\n0 -1\n", "line 3"),
        (b"0\n1\n2147483648 1\n", "line 3"),
        (b"0\n3\n0 1\n", "line 2 says 3 entries, but there are 1"),
    ],
)
def test_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x").write_bytes(data)
    with pytest.raises(CheckpointError, match=message) as caught:
        LeaderEpochCheckpoint.read(LOCAL, tmp_path / "x")
    assert caught.value.path == str(tmp_path / "x")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        cache(*LeaderEpochCheckpoint.parse(data))
    except CheckpointError:
        pass
