"""A simulated disk after a power cut: all synced data, and any state of the rest that the model allows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import StorageError
from tidelog.storage.fs import write_atomically
from tidelog.testing import Chance, EveryChoice, Kept, Lost, PowerLoss, SimulatedDisk

HOME = Path("/disk")
FILE, OTHER = HOME / "file", HOME / "other"
OLD, NEW = b"o" * 1536, b"n" * 1536
S = 512


@pytest.fixture
def disk() -> SimulatedDisk:
    """Make a disk with FILE of three sectors, all synced."""
    made = SimulatedDisk()
    made.make_dir(HOME)
    put(made, FILE, OLD)
    made.sync_all()
    return made


def put(disk: SimulatedDisk, path: Path, data: bytes, position: int = 0, *, sync: bool = False) -> None:
    with disk.open(path, create=True) as file:
        file.pwrite(data, position)
        if sync:
            file.sync()


def found(disk: SimulatedDisk, path: Path = FILE, *, limit: int = 1000) -> set[bytes | None]:
    """Return the contents that a file may have after a crash, None for a missing file."""
    return {survivor.files().get(path) for survivor in disk.survivors(limit)}


def names(disk: SimulatedDisk) -> set[tuple[str, ...]]:
    return {tuple(survivor.list_names(HOME)) for survivor in disk.survivors(1000)}


class TestContents:
    def test_synced_ones_are_there(self, disk: SimulatedDisk) -> None:
        put(disk, FILE, NEW, sync=True)
        assert found(disk) == {NEW}

    def test_those_that_were_not_are_torn_at_sectors(self, disk: SimulatedDisk) -> None:
        put(disk, FILE, NEW)
        old, new = OLD[:S], NEW[:S]
        assert found(disk) == {a + b + c for a in (old, new) for b in (old, new) for c in (old, new)}

    def test_writes_may_change_places(self, disk: SimulatedDisk) -> None:
        put(disk, FILE, b"1" * S, 0)
        put(disk, FILE, b"2" * S, 2 * S)
        states = found(disk)
        assert OLD[: 2 * S] + b"2" * S in states
        assert b"1" * S + OLD[S:] in states
        assert len(states) == 4

    def test_a_sector_is_found_after_any_of_its_writes(self, disk: SimulatedDisk) -> None:
        put(disk, FILE, b"1", 0)
        put(disk, FILE, b"2", 1)
        assert {state[:2] for state in found(disk) if state} == {b"oo", b"1o", b"12"}

    def test_an_appended_one_may_be_missing_short_or_zeros(self, disk: SimulatedDisk) -> None:
        put(disk, FILE, NEW[: 2 * S], len(OLD))
        states = found(disk)
        for tail in (b"", NEW[:S], bytes(S), NEW[: 2 * S], bytes(S) + NEW[:S], NEW[:S] + bytes(S), bytes(2 * S)):
            assert OLD + tail in states
        assert len(states) == 7

    def test_appends_grow_the_file_in_order(self, disk: SimulatedDisk) -> None:
        put(disk, FILE, b"1" * S, len(OLD))
        put(disk, FILE, b"2" * S, len(OLD) + S)
        assert OLD + bytes(S) + b"2" * S in found(disk)
        assert {len(state) for state in found(disk) if state} == {3 * S, 4 * S, 5 * S}

    def test_a_cut_is_there_or_not(self, disk: SimulatedDisk) -> None:
        with disk.open(FILE, write=True) as file:
            file.truncate(S)
        assert found(disk) == {OLD, OLD[:S]}

    def test_a_cut_within_a_sector_leaves_zeros_at_most(self, disk: SimulatedDisk) -> None:
        with disk.open(FILE, write=True) as file:
            file.truncate(S + 100)
        assert found(disk) == {OLD, OLD[: S + 100], OLD[: S + 100] + bytes(S - 100) + OLD[2 * S :]}

    def test_what_was_cut_twice_does_not_come_back_when_the_file_grows(self, disk: SimulatedDisk) -> None:
        with disk.open(OTHER, create=True) as file:
            file.pwrite(b"nn", 0)
            for size in (1, 0, 1):
                file.truncate(size)
        assert disk.after_crash(Kept()).files()[OTHER] == b"\0"

    def test_what_was_cut_and_written_anew_is_never_old_behind_the_cut(self, disk: SimulatedDisk) -> None:
        with disk.open(FILE, write=True) as file:
            file.truncate(0)
            file.pwrite(NEW[: 2 * S], 0)
        states = found(disk)
        assert OLD in states
        assert NEW[: 2 * S] + OLD[2 * S :] in states  # the truncation is lost, the blocks were written in place
        assert bytes(2 * S) in states
        assert not any(state and len(state) == 2 * S and b"o" in state for state in states)

    def test_bytes_behind_the_end_are_zeros_when_the_file_grows(self, disk: SimulatedDisk) -> None:
        put(disk, OTHER, b"1" * 100)
        put(disk, OTHER, b"2" * 100, 100)
        short = [one for one in map(disk.after_crash, range(100)) if len(one.files().get(OTHER) or b"") == 100]
        assert short
        for survivor in short:
            with survivor.open(OTHER, write=True) as file:
                file.allocate(200)
                assert file.pread(100, 100) == bytes(100)

    def test_allocated_ones_are_zeros_or_not_there(self, disk: SimulatedDisk) -> None:
        with disk.open(FILE, write=True) as file:
            file.allocate(4 * S)
        assert found(disk) == {OLD, OLD + bytes(S)}

    def test_of_an_open_file_without_a_name_nothing_is_left(self, disk: SimulatedDisk) -> None:
        with disk.open(FILE, write=True) as file:
            disk.remove(FILE)
            disk.sync_dir(HOME)
            file.pwrite(NEW, 0)
            file.sync()
        assert names(disk) == {()}


class TestNames:
    def test_a_synced_file_may_have_lost_its_name(self, disk: SimulatedDisk) -> None:
        put(disk, OTHER, NEW, sync=True)
        assert found(disk, OTHER) == {None, NEW}
        disk.sync_dir(HOME)
        assert found(disk, OTHER) == {NEW}

    def test_a_name_does_not_bring_its_contents(self, disk: SimulatedDisk) -> None:
        put(disk, OTHER, b"new")
        disk.sync_dir(HOME)
        assert found(disk, OTHER) == {b"", bytes(3), b"new"}

    def test_changes_of_different_names_change_places(self, disk: SimulatedDisk) -> None:
        disk.remove(FILE)
        put(disk, OTHER, b"")
        assert names(disk) == {("file",), (), ("file", "other"), ("other",)}

    def test_changes_of_one_name_do_not(self, disk: SimulatedDisk) -> None:
        put(disk, OTHER, b"1", sync=True)
        disk.remove(OTHER)
        put(disk, OTHER, b"2", sync=True)
        assert found(disk, OTHER) == {None, b"1", b"2"}

    def test_a_renaming_leaves_the_one_or_the_other_name(self, disk: SimulatedDisk) -> None:
        disk.rename(FILE, OTHER)
        assert names(disk) == {("file",), ("other",)}
        disk.sync_dir(HOME)
        assert names(disk) == {("other",)}

    def test_a_renaming_replaces_at_once(self, disk: SimulatedDisk) -> None:
        put(disk, OTHER, NEW, sync=True)
        disk.sync_dir(HOME)
        disk.rename(OTHER, FILE)
        assert {(survivor.files().get(FILE), survivor.files().get(OTHER)) for survivor in disk.survivors()} == {
            (OLD, NEW),
            (NEW, None),
        }

    def test_between_directories_either_of_them_makes_it_safe(self, disk: SimulatedDisk) -> None:
        for synced in (HOME, HOME / "sub"):
            disk.make_dir(HOME / "sub")
            put(disk, FILE, b"1")
            disk.sync_all()
            disk.rename(FILE, HOME / "sub" / "there")
            disk.sync_dir(synced)
            assert names(disk) == {("sub",)}
            disk.remove(HOME / "sub" / "there")

    def test_what_a_safe_change_follows_is_safe(self, disk: SimulatedDisk) -> None:
        disk.make_dir(HOME / "sub")
        disk.sync_all()
        put(disk, OTHER, b"1", sync=True)
        disk.rename(OTHER, HOME / "sub" / "there")
        put(disk, OTHER, b"2", sync=True)
        disk.sync_dir(HOME / "sub")
        assert found(disk, HOME / "sub" / "there") == {b"1"}
        assert found(disk, OTHER) == {None, b"2"}

    def test_a_lost_directory_takes_all_that_is_in_it(self, disk: SimulatedDisk) -> None:
        disk.make_dir(HOME / "sub")
        put(disk, HOME / "sub" / "file", b"1", sync=True)
        disk.sync_dir(HOME / "sub")
        assert found(disk, HOME / "sub" / "file") == {None, b"1"}
        disk.sync_dir(HOME)
        assert found(disk, HOME / "sub" / "file") == {b"1"}

    def test_a_renamed_directory_keeps_what_is_safe_in_it(self, disk: SimulatedDisk) -> None:
        disk.rename(HOME, Path("/moved"))
        assert {tuple(survivor.files()) for survivor in disk.survivors()} == {(FILE,), (Path("/moved/file"),)}

    def test_written_atomically_a_file_is_old_or_new(self, disk: SimulatedDisk) -> None:
        states = set()
        disk.before_call = lambda _: states.update(found(disk))
        write_atomically(disk, FILE, NEW)
        assert states == {OLD, NEW}
        assert found(disk) == {NEW}

    def test_written_without_sync_it_may_be_empty(self, disk: SimulatedDisk) -> None:
        put(disk, OTHER, NEW)
        disk.rename(OTHER, FILE)
        assert {OLD, NEW, b""} < found(disk)


class TestStates:
    def test_the_first_lost_all_and_the_second_kept_all(self, disk: SimulatedDisk) -> None:
        for number in range(20):
            put(disk, HOME / str(number), NEW)
        lost, kept, *others = disk.survivors(30)
        assert lost.files() == disk.after_crash(Lost()).files() == {FILE: OLD}
        assert kept.files() == disk.after_crash(Kept()).files() == disk.files()
        assert len(others) == 28
        assert len({frozenset(other.files().items()) for other in others}) == 28

    def test_a_seed_says_all(self, disk: SimulatedDisk) -> None:
        for number in range(10):
            put(disk, HOME / str(number), NEW)
        assert disk.after_crash(7).files() == disk.after_crash(Chance(7)).files()
        assert len({frozenset(disk.after_crash(seed).files().items()) for seed in range(30)}) > 15
        seeds = [[one.files() for one in disk.survivors(10, seed=seed)] for seed in (1, 1, 2)]
        assert seeds[0] == seeds[1] != seeds[2]

    def test_chance_finds_what_counting_finds(self, disk: SimulatedDisk) -> None:
        put(disk, FILE, NEW[: 2 * S], S)
        disk.rename(FILE, OTHER)
        put(disk, HOME / "third", b"3")
        every, counted = EveryChoice(), set()
        while True:
            counted.add(frozenset(disk.after_crash(every).files().items()))
            if not every.advance():
                break
        assert {frozenset(disk.after_crash(seed).files().items()) for seed in range(2000)} == counted
        assert {frozenset(one.files().items()) for one in disk.survivors(1000)} == counted

    def test_a_disk_that_was_found_is_safe_and_another(self, disk: SimulatedDisk) -> None:
        put(disk, FILE, NEW)
        one = disk.after_crash(Kept())
        put(one, FILE, b"x", sync=True)
        assert found(one) == {b"x" + NEW[1:]}
        assert disk.files()[FILE] == NEW
        assert not one.is_crashed

    @given(st.data())
    def test_of_random_changes(self, data: st.DataObject) -> None:
        """Each sector and size existed since the last sync. Sectors may also be zeros where the file grew."""
        disk = SimulatedDisk()
        history: list[bytes] = [b""]
        with disk.open(FILE.relative_to(HOME), create=True) as file:
            disk.sync_dir(Path("/"))
            for _ in range(data.draw(st.integers(0, 6))):
                kind = data.draw(st.sampled_from(["write", "write", "resize", "sync"]))
                if kind == "sync":
                    file.sync()
                    history = history[-1:]
                    continue
                at = data.draw(st.integers(0, 2000))
                if kind == "write":
                    file.pwrite(data.draw(st.binary(min_size=1, max_size=3)) * data.draw(st.integers(1, 500)), at)
                else:
                    file.truncate(at)
                history.append(file.pread(10_000, 0))
        allowed = [set(sectors(state)) for state in history]
        sizes = {len(state) for state in history}
        for survivor in disk.survivors(20, seed=data.draw(st.integers(0, 1000))):
            (state,) = survivor.files().values()
            assert len(state) in sizes or len(state) % S == 0
            for entry in sectors(state):
                held = [one for found in allowed for one in found if one[0] == entry[0]]
                assert any(entry[1] == one[1][: len(entry[1])].ljust(len(entry[1]), b"\0") for one in held) or not any(
                    entry[1]
                )
            if len(history) == 1:
                assert state == history[0]


def sectors(data: bytes) -> Iterator[tuple[int, bytes]]:
    for position in range(0, len(data), S):
        yield position, data[position : position + S]


class TestPower:
    def test_calls_are_counted_as_far_as_they_change_something(self, disk: SimulatedDisk) -> None:
        begun = len(disk.calls)
        with disk.open(FILE, write=True) as file:
            file.pread(10, 0)
            file.allocate(10)
            file.pwrite(b"", 0)
            file.pwrite(b"1", 0)
            file.truncate(5)
            file.allocate(10)
            file.sync()
        disk.remove(OTHER, missing_ok=True)
        disk.make_dir(HOME)
        disk.make_dir(HOME / "a" / "b")
        disk.rename(FILE, OTHER)
        disk.set_mtime(OTHER, 5)
        disk.lock(HOME / ".lock").release()
        disk.lock(HOME / ".lock").release()
        disk.sync_dir(HOME)
        disk.remove_dir(HOME / "a" / "b")
        assert [(call.name, call.path.name) for call in disk.calls[begun:]] == [
            ("pwrite", "file"),
            ("truncate", "file"),
            ("allocate", "file"),
            ("sync", "file"),
            ("make_dir", "a"),
            ("make_dir", "b"),
            ("rename", "file"),
            ("set_mtime", "other"),
            ("create", ".lock"),
            ("sync_dir", "disk"),
            ("remove_dir", "b"),
        ]
        assert [call.number for call in disk.calls] == list(range(len(disk.calls)))

    def test_the_call_and_all_later_ones_fail(self, disk: SimulatedDisk) -> None:
        opened = disk.open(FILE, write=True)
        lock = disk.lock(OTHER)
        disk.crash_before(len(disk.calls) + 1)
        opened.pwrite(b"1", 0)
        before = disk.files()
        with pytest.raises(PowerLoss):
            opened.pwrite(b"2", 1)
        calls: list[Callable[[], object]] = [
            lambda: opened.pwrite(b"2", 1),
            lambda: opened.pread(1, 0),
            lambda: opened.size,
            lambda: disk.open(FILE),
            lambda: disk.exists(FILE),
            lambda: disk.remove(FILE),
            lambda: disk.remove(HOME / "none", missing_ok=True),
            lambda: disk.list_names(HOME),
            lambda: disk.lock(HOME / "lock"),
        ]
        for call in calls:
            with pytest.raises(PowerLoss):
                call()
        assert disk.is_crashed
        assert disk.files() == before
        lock.release()
        opened.close()

    def test_no_handler_of_errors_swallows_it(self, disk: SimulatedDisk) -> None:
        disk.crash()

        def careless() -> None:
            try:
                disk.remove(FILE)
            except (StorageError, Exception):
                disk.remove(OTHER)

        with pytest.raises(PowerLoss):
            careless()


def test_a_real_directory_is_loaded_and_written(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "file").write_bytes(b"abc" + bytes(5000) + b"def")
    (source / "empty").touch()
    os.utime(source / "empty", ns=(10**18, 10**18))
    disk = SimulatedDisk.load(source, HOME)
    assert disk.files() == {HOME / "empty": b"", HOME / "sub" / "file": b"abc" + bytes(5000) + b"def"}
    assert disk.stat(HOME / "empty").mtime_ms == 10**12
    assert [one.files() for one in disk.survivors()] == [disk.files()]
    assert not disk.calls
    with disk.open(HOME / "sub" / "file", write=True) as file:
        file.pwrite(b"x", 6000)
    disk.export(tmp_path / "target", HOME)
    assert (tmp_path / "target" / "sub" / "file").read_bytes() == b"abc" + bytes(5000) + b"def" + bytes(994) + b"x"
    assert (tmp_path / "target" / "empty").stat().st_mtime_ns == 10**18
    assert SimulatedDisk.load(source).files(source).keys() == {source / "empty", source / "sub" / "file"}


class TestLinks:
    def test_a_link_may_be_missing_until_its_directory_is_synced(self, disk: SimulatedDisk) -> None:
        assert disk.link(FILE, OTHER)
        assert names(disk) == {("file",), ("file", "other")}
        disk.sync_dir(HOME)
        assert names(disk) == {("file", "other")}

    def test_all_names_show_the_same_file_afterwards(self, disk: SimulatedDisk) -> None:
        disk.link(FILE, OTHER)
        disk.sync_dir(HOME)
        put(disk, OTHER, NEW)
        survivors = list(disk.survivors(1000))
        assert len(survivors) == 8
        for one in survivors:
            assert one.files()[FILE] == one.files()[OTHER]
            assert one.stat(FILE).file_id == one.stat(OTHER).file_id
            assert (one.stat(FILE).links, one.stat(OTHER).links) == (2, 2)
            put(one, FILE, b"later")
            assert one.files()[OTHER].startswith(b"later")

    def test_a_directory_with_another_name_of_the_file_is_no_ancestor_of_it(self, disk: SimulatedDisk) -> None:
        disk.make_dir(HOME / "below")
        assert disk.link(FILE, HOME / "below" / "other")
        with pytest.raises(StorageError, match="it is a directory"):
            disk.rename(FILE, HOME / "below")
        with pytest.raises(StorageError, match="not empty"):
            disk.rename(HOME / "below" / "other", HOME / "below")

    def test_a_name_is_removed_and_the_file_stays(self, disk: SimulatedDisk) -> None:
        disk.link(FILE, OTHER)
        disk.sync_dir(HOME)
        disk.remove(FILE)
        disk.sync_dir(HOME)
        assert found(disk, OTHER) == {OLD}
        assert disk.stat(OTHER).links == 1

    def test_the_space_is_free_after_the_last_name(self, disk: SimulatedDisk) -> None:
        disk.free_bytes = 10 * S
        put(disk, OTHER, NEW)
        disk.link(OTHER, HOME / "third")
        disk.remove(OTHER)
        assert disk.free_bytes == 7 * S
        disk.remove(HOME / "third")
        assert disk.free_bytes == 10 * S
