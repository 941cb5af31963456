"""The offset index compared with a plain list, and the cases of Kafka's OffsetIndexTest."""

from __future__ import annotations

import errno
import itertools
import random
import struct
import sys
import threading
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel import PENDING_ENTRIES
from tidelog.model import ClosedError, IndexCorruptError, InvalidOffsetError, StorageError
from tidelog.storage.fs import LOCAL, DescriptorCache
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.fs.os_errors import storage_error
from tidelog.storage.index import OffsetIndexReader, OffsetIndexWriter, OffsetPosition, mapped_index
from tidelog.testing import DiskFault, SimulatedDisk

BASE = 45
Make = Callable[..., OffsetIndexWriter]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def make(max_index_bytes: int = 30 * 8, base_offset: int = BASE, name: str = "x") -> OffsetIndexWriter:
        return OffsetIndexWriter(LOCAL, tmp_path / f"{name}.index", base_offset, max_index_bytes=max_index_bytes)

    return make


def pack(entries: list[tuple[int, int]]) -> bytes:
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def test_a_new_index_is_preallocated_in_whole_entries(make: Make) -> None:
    index = make(max_index_bytes=1004)
    assert index.newly_created
    assert index.length == index.path.stat().st_size == 1000
    assert (index.entries, index.max_entries, index.last_offset, index.is_full) == (0, 125, BASE, False)
    assert index.lookup(92) == (BASE, 0)
    assert index.upper_bound(OffsetPosition(BASE, 0), 5) is None
    index.close()
    assert index.path.stat().st_size == 0


def test_too_small_for_an_entry(make: Make) -> None:
    with pytest.raises(ValueError, match="less than an entry"):
        make(max_index_bytes=7)


def test_appends_and_look_ups(make: Make) -> None:
    index = make()
    entries = [OffsetPosition(BASE + 3 * number + 1, 100 * number + 7) for number in range(index.max_entries)]
    for entry in entries:
        assert not index.is_full
        index.append(*entry)
    assert index.is_full
    with pytest.raises(ValueError, match="full index"):
        index.append(entries[-1].offset + 1, 5000)
    assert [index.entry(number) for number in range(index.entries)] == entries
    with pytest.raises(IndexError):
        index.entry(index.entries)
    offsets = [entry.offset for entry in entries]
    positions = [entry.position for entry in entries]
    for offset in range(BASE - 2, entries[-1].offset + 5):
        slot = bisect_right(offsets, offset) - 1
        assert index.lookup(offset) == (entries[slot] if slot >= 0 else (BASE, 0))
    for size in range(0, 3200, 13):
        slot = bisect_left(positions, 50 + size)
        found = index.upper_bound(OffsetPosition(BASE, 50), size)
        assert found == (entries[slot] if slot < len(entries) else None)
    index.flush()
    reader = OffsetIndexReader(index.path.read_bytes(), BASE)
    assert [reader.entry(number) for number in range(len(reader))] == entries
    assert reader.lookup(BASE + 20) == index.lookup(BASE + 20)
    assert reader.upper_bound(entries[0], 900) == index.upper_bound(entries[0], 900)


def test_offsets_must_ascend_and_fit(make: Make) -> None:
    index = make()
    index.append(BASE + 5, 10)
    for offset in (BASE + 5, BASE + 4):
        with pytest.raises(InvalidOffsetError, match=f"offset {offset} cannot follow the last, {BASE + 5}") as caught:
            index.append(offset, 20)
        assert caught.value.offset == offset
    with pytest.raises(OverflowError, match="31 bits"):
        index.append(BASE + 2**31, 20)
    assert index.entries == 1
    index.append(BASE + 2**31 - 1, 2**31 - 1)
    assert index.last_offset == BASE + 2**31 - 1


def test_reopened_after_close(make: Make) -> None:
    index = make()
    index.append(BASE + 1, 10)
    index.append(BASE + 2, 20)
    index.flush()
    index.close()
    index.close()
    for call in (lambda: index.lookup(BASE), lambda: index.append(BASE + 9, 1), index.trim_to_valid_size):
        with pytest.raises(ClosedError):
            call()
    again = make()
    assert not again.newly_created
    assert (again.entries, again.last_offset, again.is_full) == (2, BASE + 2, True)
    assert again.resize(again.max_index_bytes)
    assert not again.resize(again.max_index_bytes)
    again.append(BASE + 3, 30)
    assert again.lookup(BASE + 9) == (BASE + 3, 30)
    again.close_without_trim()
    assert again.path.stat().st_size == 240


def test_nothing_is_asked_of_it_after_its_files_are_let_go(make: Make) -> None:
    """A closed index does not read a mapping that is gone, and does not trim its file."""
    index = make()
    index.append(BASE + 1, 10)
    index.close_without_trim()
    for call in (lambda: index.lookup(BASE), index.sanity_check, index.truncate):
        with pytest.raises(ClosedError):
            call()
    index.close()
    assert index.path.stat().st_size == 240


def test_the_base_offset_itself_may_have_an_entry(make: Make) -> None:
    index = make()
    index.append(BASE, 0)
    index.sanity_check()
    assert (index.entries, index.last_offset, index.lookup(BASE + 9)) == (1, BASE, (BASE, 0))
    OffsetIndexReader(index.path.read_bytes()[:8], BASE).sanity_check()


@pytest.mark.parametrize(("offset", "kept"), [(BASE - 1, 0), (BASE, 0), (BASE + 1, 0), (BASE + 2, 1), (BASE + 9, 8)])
def test_truncation_drops_what_is_at_or_above(make: Make, offset: int, kept: int) -> None:
    index = make()
    for number in range(1, 9):
        index.append(BASE + number, number * 10)
    index.truncate_to(offset)
    assert (index.entries, index.last_offset) == (kept, BASE + kept)
    assert index.length == 240
    assert not any(index.path.read_bytes()[kept * 8 :])
    index.append(BASE + 100, 1000)
    assert index.lookup(BASE + 100) == (BASE + 100, 1000)


def test_a_reset_restores_the_length(make: Make) -> None:
    index = make()
    index.append(BASE + 1, 10)
    index.trim_to_valid_size()
    assert (index.length, index.entries, index.is_full) == (8, 1, True)
    index.flush()
    index.reset()
    assert (index.length, index.entries, index.last_offset) == (240, 0, BASE)
    index.append(BASE + 1, 11)
    assert index.lookup(BASE + 1) == (BASE + 1, 11)


def test_an_empty_file_is_no_error(make: Make, tmp_path: Path) -> None:
    """A killed broker may leave an empty index, which mmap refuses."""
    (tmp_path / "x.index").touch()
    index = make()
    assert (index.entries, index.lookup(99), index.is_full) == (0, (BASE, 0), True)
    index.sanity_check()
    index.resize(240)
    index.append(BASE + 1, 1)
    index.truncate()
    index.trim_to_valid_size()
    assert index.path.stat().st_size == 0


@pytest.mark.parametrize(
    ("data", "message"),
    [(bytes(7), "7 bytes"), (bytes(9), "9 bytes"), (pack([(1, 1), (-3, 5)]), "last offset 42 is below")],
)
def test_sanity_checks(make: Make, tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "x.index").write_bytes(data)
    with pytest.raises(IndexCorruptError, match=message):
        make().sanity_check()
    with pytest.raises(IndexCorruptError, match=message) as caught:
        OffsetIndexReader(data, BASE, path=tmp_path / "x.index").sanity_check()
    assert caught.value.path == str(tmp_path / "x.index")


@pytest.mark.parametrize(
    ("entries", "valid"),
    [
        ([], 0),
        ([(0, 0)], 0),
        ([(3, 10), (0, 0), (0, 0)], 1),
        ([(0, 10), (1, 20)], 2),
        ([(-1, 10)], 0),
        ([(3, 10), (3, 20)], 1),
        ([(3, 10), (4, 10)], 1),
        ([(3, 10), (4, 5), (5, 20)], 1),
        ([(3, 10), (4, -5)], 1),
    ],
)
def test_the_valid_prefix(entries: list[tuple[int, int]], valid: int) -> None:
    reader = OffsetIndexReader(pack(entries) + b"tail", BASE)
    assert len(reader) == len(entries)
    assert len(reader.valid_prefix()) == valid


@given(st.binary(max_size=200), st.integers(-(2**63), 2**63 - 1))
def test_any_bytes_can_be_asked(data: bytes, offset: int) -> None:
    reader = OffsetIndexReader(data, BASE)
    for view in (reader, reader.valid_prefix()):
        view.lookup(offset)
        view.upper_bound(OffsetPosition(BASE, 0), offset)
        assert all(len(column) == len(view) == len(view.entries()[0]) for column in view.entries())
    offsets, positions = reader.valid_prefix().entries()
    assert all(a < b for a, b in itertools.pairwise(offsets))
    assert all(a < b for a, b in itertools.pairwise(positions))


@given(st.data())
def test_as_a_list(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    path = tmp_path_factory.mktemp("model") / "x.index"
    index = OffsetIndexWriter(LOCAL, path, BASE, max_index_bytes=100 * 8)
    model: list[tuple[int, int]] = []
    for _ in range(data.draw(st.integers(0, 25))):
        verb = data.draw(st.sampled_from(["append", "append", "append", "truncate", "reopen", "trim", "lookup"]))
        if verb == "append":
            offset = (model[-1][0] if model else BASE) + data.draw(st.integers(1, 5))
            index.resize(100 * 8)
            index.append(offset, offset * 3)
            model.append((offset, offset * 3))
        elif verb == "truncate":
            offset = data.draw(st.integers(BASE - 1, BASE + 100))
            index.truncate_to(offset)
            model = [entry for entry in model if entry[0] < offset]
        elif verb == "trim":
            index.trim_to_valid_size()
        elif verb == "reopen":
            index.close()
            index = OffsetIndexWriter(LOCAL, path, BASE, max_index_bytes=100 * 8)
        else:
            offset = data.draw(st.integers(BASE - 1, BASE + 100))
            assert index.lookup(offset) == max([entry for entry in model if entry[0] <= offset], default=(BASE, 0))
        assert [index.entry(number) for number in range(index.entries)] == model
        assert index.last_offset == (model[-1][0] if model else BASE)
    index.close()
    assert path.read_bytes() == pack([(offset - BASE, position) for offset, position in model])


def test_a_truncation_of_nothing_changes_no_file() -> None:
    disk = SimulatedDisk()
    index = OffsetIndexWriter(disk, Path("/x.index"), BASE, max_index_bytes=80)
    index.append(BASE + 1, 10)
    index.flush()
    before = len(disk.calls)
    index.truncate_to(BASE + 2)
    assert (index.entries, len(disk.calls)) == (1, before)
    index.truncate_to(BASE + 1)
    assert index.entries == 0
    assert len(disk.calls) > before


def test_a_failed_sync_is_repeated() -> None:
    disk = SimulatedDisk()
    index = OffsetIndexWriter(disk, Path("/x.index"), BASE, max_index_bytes=80)
    index.append(BASE + 1, 10)
    index.write_pending()
    disk.fail(DiskFault(errno=errno.EIO, calls={"sync"}, times=1))
    with pytest.raises(StorageError):
        index.sync()
    before = len(disk.calls)
    index.sync()
    index.sync()
    assert [call.name for call in disk.calls[before:]] == ["sync"]


def test_a_full_disk_leaves_the_entries_as_they_were(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that wait for the disk can be looked up, and they are written once there is room again."""
    index = make(max_index_bytes=8 * 2 * PENDING_ENTRIES)
    index.append(BASE + 1, 10)
    full = storage_error(OSError(errno.ENOSPC, "full"), "write", index.path)
    monkeypatch.setattr(LocalFile, "pwrite", lambda *_: (_ for _ in ()).throw(full))
    for number in range(2, PENDING_ENTRIES):
        index.append(BASE + number, 10 * number)
    last = PENDING_ENTRIES - 1
    for _ in range(2):
        with pytest.raises(StorageError, match="no space left on the disk"):
            index.append(BASE + PENDING_ENTRIES, 10 * PENDING_ENTRIES)
        with pytest.raises(StorageError, match="no space left on the disk"):
            index.flush()
        assert (index.entries, index.last_offset, index.lookup(BASE + 999)) == (
            last,
            BASE + last,
            (BASE + last, 10 * last),
        )
    monkeypatch.undo()
    index.append(BASE + PENDING_ENTRIES, 10 * PENDING_ENTRIES)
    index.append(BASE + PENDING_ENTRIES + 1, 10 * PENDING_ENTRIES + 10)
    index.close()
    assert index.path.read_bytes() == pack([(number, 10 * number) for number in range(1, PENDING_ENTRIES + 2)])


def test_readers_in_threads_while_the_index_is_reshaped(make: Make) -> None:
    """A reader sees an existing entry or begins at the base, without an error or SIGBUS."""
    index = make(max_index_bytes=1 << 16, base_offset=0)
    stop = threading.Event()
    failures: list[object] = []

    def read() -> None:
        choose = random.Random(3)
        while not stop.is_set():
            try:
                found = index.lookup(choose.randrange(9000))
            except BaseException as error:
                failures.append(error)
                return
            if found.position != found.offset * 10:
                failures.append(found)

    threads = [threading.Thread(target=read) for _ in range(2)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for round_ in range(30):
            for offset in range(index.last_offset + 1, 6000, 3):
                index.append(offset, offset * 10)
            index.trim_to_valid_size()
            index.truncate_to(round_ * 100)
            index.trim_to_valid_size()
            index.resize(1 << 16)
            if round_ % 3 == 0:
                index.reset()
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert not failures


def test_readers_in_threads_while_others_want_to_map(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two indexes share one mapping while they are searched and resized, and each search returns the right entry."""
    kept = DescriptorCache(limit=1)
    monkeypatch.setattr(mapped_index, "DESCRIPTOR_CACHE", kept)
    first, second = make(1000), make(1000, name="other")
    for index in (first, second):
        for number in range(100):
            index.append(BASE + number, 10 * number + 1)
        index.flush()
    stop = threading.Event()
    wrong: list[object] = []

    def read(index: OffsetIndexWriter) -> None:
        try:
            while not stop.is_set():
                found = index.lookup(BASE + 50)
                if found not in (OffsetPosition(BASE + 50, 501), OffsetPosition(BASE, 0)):
                    wrong.append(found)
        except Exception as error:  # the test reports any error
            wrong.append(error)

    threads = [threading.Thread(target=read, args=(index,)) for index in (first, second)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for _ in range(200):
            first.resize(1600)
            first.resize(1000)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(before)
    assert wrong == []
    assert len(kept) <= 1


def test_an_index_that_is_only_written_is_not_mapped(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = DescriptorCache(limit=10)
    monkeypatch.setattr(mapped_index, "DESCRIPTOR_CACHE", kept)
    index = make(1000)
    for number in range(100):
        index.append(BASE + number, 10 * number + 1)
    assert (index.last_offset, index.entries, len(kept)) == (BASE + 99, 100, 0)
    assert index.lookup(BASE + 3).position == 31
    assert len(kept) == 1
    index.close()
    assert len(kept) == 0
