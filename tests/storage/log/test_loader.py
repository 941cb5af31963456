"""Loading a partition: a stop, a kill or damage leaves files that become a log again, also if loading crashes."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from log_maker import BASE_TIME, batch, data, marker, plain, write_segment
from power_cut import PowerCut
from random_partition import random_partition
from tidelog.model import StorageError, TidelogError
from tidelog.storage.fs import LOCAL, LocalFileSystem
from tidelog.storage.log.load.listing import list_partition
from tidelog.storage.log.load.load_plan import RecoveryReason, corrupt_indexes, decide_recovery, first_unflushed_base
from tidelog.storage.log.load.loader import LoadedLog, LoadRequest, load_log
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer.snapshot import parse_snapshot
from tidelog.storage.segment.file_names import FileKind

NOW = BASE_TIME + 1000


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Write three segments of ten batches of ten records: 0, 100, 200 up to 300."""
    for base in (0, 100, 200):
        write_segment(tmp_path / "t-0", base, [plain(base + 10 * number) for number in range(10)])
    return tmp_path / "t-0"


def load(directory: Path, *, clean: bool = False, fs: Any = LOCAL, **request: Any) -> LoadedLog:
    config = LogConfig(index_interval_bytes=0)
    return load_log(LoadRequest(fs=fs, directory=directory, config=config, clean_shutdown=clean, **request), now_ms=NOW)


def file(directory: Path, base: int, suffix: str) -> Path:
    return directory / f"{base:020d}.{suffix}"


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


def flip(path: Path, position: int) -> None:
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    path.write_bytes(content)


def test_after_an_orderly_stop_nothing_is_read_again(directory: Path) -> None:
    flip(file(directory, 100, "log"), 90)
    loaded = load(directory, clean=True)
    assert loaded.recovered == ()
    assert (loaded.base_offsets, loaded.log_start_offset, loaded.end_offset) == ((0, 100, 200), 0, 300)
    assert loaded.recovery_point == 300


def test_after_an_orderly_stop_hardly_a_file_is_opened(directory: Path) -> None:
    """A start with thousands of logs opens each of these files thousands of times, so few are opened."""
    load(directory)
    opened: list[str] = []

    class Watching(LocalFileSystem):
        __slots__ = ()

        def open(self, path: Path, *, write: bool = False, create: bool = False) -> Any:
            opened.append(path.name)
            assert not write
            assert not create
            return super().open(path)

    assert load(directory, clean=True, fs=Watching()).sizes == {
        base: file(directory, base, "log").stat().st_size for base in (0, 100, 200)
    }
    assert opened == ["leader-epoch-checkpoint", f"{200:020d}.log", f"{300:020d}.snapshot"]


def test_after_an_orderly_stop_only_the_sizes_of_indexes_are_looked_at(directory: Path) -> None:
    """Recovery after a kill checks the contents of the indexes too."""
    garbage = b"\xff" * 12
    file(directory, 0, "index").write_bytes(garbage[:8])
    file(directory, 0, "timeindex").write_bytes(garbage)
    assert load(directory, clean=True).recovered == ()
    file(directory, 0, "index").write_bytes(garbage[:7])
    assert [segment.base_offset for segment in load(directory, clean=True).recovered] == [0]
    file(directory, 0, "index").write_bytes(garbage[:8])
    assert [segment.base_offset for segment in load(directory, recovery_point=300).recovered] == [0, 200]


def test_after_a_kill_recovery_begins_at_the_recovery_point(directory: Path) -> None:
    """Recovery begins at the start of the segment that holds the recovery point, which moves only after a sync."""
    for point, bases in ((0, [0, 100, 200]), (100, [100, 200]), (199, [100, 200]), (250, [200]), (300, [200])):
        loaded = load(directory, recovery_point=point)
        assert [segment.base_offset for segment in loaded.recovered] == bases
        assert (loaded.end_offset, loaded.recovery_point) == (300, point)


def test_which_segment_holds_the_recovery_point() -> None:
    assert first_unflushed_base([100, 200], 0) == 100
    assert first_unflushed_base([100, 200], 199) == 100
    assert first_unflushed_base([], 5) is None


@pytest.mark.parametrize("entries", [341, 342, 1_000])
def test_an_index_is_checked_at_its_ends(tmp_path: Path, entries: int) -> None:
    """The checks read a large index's first and last entry, with a partial entry at the end."""
    directory = tmp_path / "t-0"
    write_segment(directory, 0, [plain(number, 1) for number in range(entries + 1)])
    listing = list_partition(LOCAL, directory)
    path = file(directory, 0, "timeindex")
    content = path.read_bytes()
    assert len(content) == 12 * entries
    assert corrupt_indexes(LOCAL, directory, listing.segments, frozenset({FileKind.TIME_INDEX, FileKind.INDEX})) == {}
    for damaged in (content[:-12] + bytes(12), content + b"\0"):
        path.write_bytes(damaged)
        corrupt = corrupt_indexes(LOCAL, directory, listing.segments, frozenset({FileKind.TIME_INDEX}))
        assert corrupt == {0: frozenset({FileKind.TIME_INDEX})}


@pytest.mark.parametrize("clean", [True, False])
def test_a_lost_index_is_built_again(directory: Path, clean: bool) -> None:
    wanted = {path.name: path.read_bytes() for path in directory.glob("*.*index")}
    file(directory, 0, "index").unlink()
    file(directory, 100, "timeindex").write_bytes(b"odd")
    loaded = load(directory, clean=clean, recovery_point=300)
    assert {path.name: path.read_bytes() for path in directory.glob("*.*index")} == wanted
    assert [segment.base_offset for segment in loaded.recovered] == [0, 100] + ([] if clean else [200])


def test_why_a_segment_is_recovered(directory: Path) -> None:
    file(directory, 0, "index").unlink()
    file(directory, 100, "timeindex").unlink()
    listing = list_partition(LOCAL, directory)
    corrupt = {100: frozenset({FileKind.TIME_INDEX})}
    plan = decide_recovery(listing, clean_shutdown=True, recovery_point=0, corrupt=corrupt)
    assert [(part.base_offset, part.reason) for part in plan.recover] == [
        (0, RecoveryReason.INDEX_MISSING),
        (100, RecoveryReason.INDEX_CORRUPT),
    ]
    assert decide_recovery(listing, clean_shutdown=True, recovery_point=0, corrupt={}).new_time_indexes == (100,)


def test_a_missing_time_index_alone_is_no_error(directory: Path) -> None:
    file(directory, 100, "timeindex").unlink()
    assert load(directory, clean=True).recovered == ()
    assert file(directory, 100, "timeindex").read_bytes() == b""


def test_damage_ends_the_log_and_later_segments_go(directory: Path) -> None:
    one = len(plain(0))
    flip(file(directory, 100, "log"), 4 * one + 90)
    loaded = load(directory)
    assert (loaded.base_offsets, loaded.end_offset, loaded.deleted) == ((0, 100), 140, (200,))
    assert not list(directory.glob(f"{200:020d}.*"))
    assert file(directory, 100, "log").stat().st_size == 4 * one


def test_offsets_that_fall_empty_their_segment_and_later_ones_go(directory: Path) -> None:
    log = file(directory, 100, "log")
    log.write_bytes(log.read_bytes() + plain(120))
    loaded = load(directory)
    assert (loaded.base_offsets, loaded.end_offset) == ((0, 100), 100)
    assert log.stat().st_size == 0


def test_an_offset_that_no_index_can_hold(directory: Path) -> None:
    log = file(directory, 0, "log")
    log.write_bytes(log.read_bytes() + plain(2**31 + 5))
    with pytest.raises(StorageError, match="31 bits") as caught:
        load(directory)
    assert caught.value.path == str(log)


def test_a_log_that_ends_below_its_start_begins_again_there(directory: Path) -> None:
    loaded = load(directory, clean=True, log_start_offset=1000)
    assert (loaded.base_offsets, loaded.log_start_offset, loaded.end_offset) == ((1000,), 1000, 1000)
    assert loaded.deleted == (200, 100, 0)
    assert "below its log start 1000" in loaded.warnings[0]
    assert {path.stem for path in directory.glob("0*.log")} == {f"{1000:020d}"}


def test_a_log_that_ends_at_its_start_keeps_its_segments(directory: Path) -> None:
    loaded = load(directory, clean=True, log_start_offset=300)
    assert (loaded.base_offsets, loaded.log_start_offset, loaded.end_offset) == ((0, 100, 200), 300, 300)
    assert (loaded.deleted, loaded.warnings) == ((), [])


def test_an_empty_directory(tmp_path: Path) -> None:
    loaded = load(tmp_path, log_start_offset=42)
    assert (loaded.base_offsets, loaded.log_start_offset, loaded.end_offset) == ((42,), 42, 42)
    assert file(tmp_path, 42, "log").exists()


def test_a_directory_that_is_being_deleted_is_not_recovered(directory: Path) -> None:
    deleted = directory.rename(directory.with_name("t-0.0123456789abcdef0123456789abcdef-delete"))
    file(deleted, 100, "index").unlink()
    flip(file(deleted, 100, "log"), 90)
    before = contents(deleted)
    file(deleted, 0, "log.deleted").touch()
    loaded = load(deleted)
    assert (loaded.base_offsets, loaded.recovered, loaded.end_offset) == ((0, 100, 200), (), 0)
    assert contents(deleted) == before
    empty = deleted.with_name("u-0.0123456789abcdef0123456789abcdef-delete")
    empty.mkdir()
    assert load(empty).base_offsets == (0,)


def test_an_empty_active_segment(directory: Path) -> None:
    write_segment(directory, 300, [])
    loaded = load(directory)
    assert (loaded.base_offsets, loaded.end_offset) == ((0, 100, 200, 300), 300)


def test_rubbish_goes(directory: Path) -> None:
    names = (
        f"{0:020d}.log.deleted",
        f"{0:020d}.index.cleaned",
        f"{500:020d}.log.cleaned",
        f"{500:020d}.log.swap",
        f"{700:020d}.index",
        f"{700:020d}.txnindex",
        f"{150:020d}.snapshot.deleted",
        "leader-epoch-checkpoint.tmp",
    )
    kept = contents(directory)
    for name in names:
        (directory / name).write_bytes(b"x" * 34)
    loaded = load(directory, clean=True)
    assert not {path.name for path in directory.iterdir()} & set(names)
    assert set(names) <= set(loaded.removed_files)
    assert {name: data for name, data in contents(directory).items() if name in kept} == kept


SWAPPED = [plain(20), plain(150), plain(190)]


def swapped_in(directory: Path) -> None:
    assert file(directory, 0, "log").read_bytes() == b"".join(SWAPPED)
    assert not file(directory, 100, "log").exists()
    assert not list(directory.glob("*.swap"))


def test_a_finished_swap_replaces_what_it_covers(directory: Path) -> None:
    write_segment(directory, 0, SWAPPED, suffix=".swap")
    loaded = load(directory)
    swapped_in(directory)
    assert (loaded.base_offsets, loaded.end_offset) == ((0, 200), 300)


def test_an_index_follows_its_log_out_of_a_swap(directory: Path) -> None:
    write_segment(directory, 0, SWAPPED, suffix=".swap")
    file(directory, 0, "log.swap").rename(file(directory, 0, "log"))
    wanted = file(directory, 0, "index.swap").read_bytes()
    load(directory, clean=True)
    assert file(directory, 0, "index").read_bytes() == wanted


def test_a_split_that_did_not_end_is_undone(directory: Path) -> None:
    """``.swap`` at or above the smallest ``.cleaned``: both go, and the original segment stays (KAFKA-6264)."""
    before = contents(directory)
    write_segment(directory, 100, [plain(100)], suffix=".swap")
    write_segment(directory, 0, [plain(0)], suffix=".cleaned")
    load(directory, clean=True)
    after = contents(directory)
    assert {name: after[name] for name in before} == before
    assert not [name for name in after if name.endswith((".swap", ".cleaned"))]


def test_epochs_are_found_in_the_batches_and_cut_at_both_ends(directory: Path) -> None:
    write_segment(directory, 300, [batch(300 + number, [b"x"], epoch=number // 3) for number in range(9)])
    checkpoint = directory / "leader-epoch-checkpoint"
    checkpoint.write_text("0\n3\n0 0\n5 2000\n6 3000\n")
    load(directory, log_start_offset=250)
    assert checkpoint.read_text() == "0\n1\n0 250\n"
    checkpoint.unlink()
    load(directory, log_start_offset=250)
    assert checkpoint.read_text() == "0\n3\n0 250\n1 303\n2 306\n"


def test_an_unreadable_epoch_checkpoint_is_warned_of(directory: Path) -> None:
    (directory / "leader-epoch-checkpoint").write_text("what?\n")
    loaded = load(directory)
    assert "leader epochs are taken from the batches" in loaded.warnings[0]
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"


class TestProducers:
    @pytest.fixture
    def transactions(self, tmp_path: Path) -> Path:
        """Write an aborted transaction that ends in the second segment, then another producer's open transaction."""
        write_segment(tmp_path / "t-0", 0, [data(0, 5), plain(5, 5)])
        write_segment(tmp_path / "t-0", 10, [data(10, 2), marker(12, False), data(13, 2, producer_id=9)])
        return tmp_path / "t-0"

    def test_snapshots_and_the_transaction_index_come_from_the_log(self, transactions: Path) -> None:
        loaded = load(transactions)
        assert sorted(path.name for path in transactions.glob("*.snapshot")) == [
            f"{10:020d}.snapshot",
            f"{15:020d}.snapshot",
        ]
        assert [entry.producer_id for entry in parse_snapshot(file(transactions, 15, "snapshot").read_bytes())] == [
            7,
            9,
        ]
        assert file(transactions, 10, "txnindex").stat().st_size == 34
        assert not file(transactions, 0, "txnindex").exists()
        (ongoing,) = loaded.producers.state.transactions.ongoing
        assert ongoing.first_offset.message_offset == 13

    @pytest.mark.parametrize("harm", [Path.unlink, lambda path: path.write_bytes(b"no snapshot")])
    def test_a_lost_snapshot_is_made_from_an_older_one_and_the_log(
        self, transactions: Path, harm: Callable[[Path], object]
    ) -> None:
        load(transactions)
        wanted = {path.name: path.read_bytes() for path in transactions.glob("*.snapshot")}
        for clean in (True, False):
            harm(file(transactions, 15, "snapshot"))
            loaded = load(transactions, clean=clean, recovery_point=15)
            assert {path.name: path.read_bytes() for path in transactions.glob("*.snapshot")} == wanted
            assert set(loaded.producers.state.producers) == {7, 9}

    def test_snapshots_of_no_segment_go_but_for_the_last(self, transactions: Path) -> None:
        load(transactions)
        for offset in (3, 12, 99):
            file(transactions, offset, "snapshot").write_bytes(file(transactions, 15, "snapshot").read_bytes())
        load(transactions, clean=True)
        assert sorted(int(path.stem) for path in transactions.glob("*.snapshot")) == [10, 15]

    @pytest.mark.parametrize("clean", [True, False], ids=["clean", "killed"])
    def test_nothing_is_known_before_the_snapshot_is_loaded(self, tmp_path: Path, clean: bool) -> None:
        """Recovery knows all producers of the batches that it reads. The log takes only the snapshot's active ones."""
        idle, active = data(0, 3, producer_id=7), data(4, 3, producer_id=9, timestamp=NOW)
        write_segment(tmp_path / "t-0", 0, [idle, marker(3, True), active])
        idle_too_long = LogConfig(producer_id_expiration_ms=NOW - BASE_TIME)
        request = LoadRequest(fs=LOCAL, directory=tmp_path / "t-0", config=idle_too_long, clean_shutdown=False)
        loaded = load_log(request, now_ms=NOW)
        if clean:
            loaded = load_log(replace(request, clean_shutdown=True), now_ms=NOW)
        in_snapshot = parse_snapshot(file(tmp_path / "t-0", 7, "snapshot").read_bytes())
        assert [entry.producer_id for entry in in_snapshot] == [7, 9]
        assert set(loaded.producers.state.producers) == {9}

    def test_a_log_without_producers_knows_none(self, directory: Path) -> None:
        loaded = load(directory)
        assert loaded.producers.state.is_empty

    def test_a_log_of_old_brokers_is_not_read_after_an_orderly_stop(self, transactions: Path) -> None:
        loaded = load(transactions, clean=True)
        assert loaded.producers.state.is_empty
        assert sorted(int(path.stem) for path in transactions.glob("*.snapshot")) == [10, 15]


def test_a_crash_after_any_step_of_loading_ends_the_same(tmp_path: Path) -> None:
    """Leftover files, a swap, a lost index and damage: after a crash at any step, the next load gives the same end."""

    def make(path: Path) -> Path:
        for base in (0, 100, 200, 300):
            write_segment(path, base, [plain(base + 10 * number) for number in range(10)])
        write_segment(path, 0, SWAPPED, suffix=".swap")
        write_segment(path, 900, [plain(900)], suffix=".cleaned")
        file(path, 200, "index").unlink()
        flip(file(path, 200, "log"), 5 * len(plain(0)) + 90)
        file(path, 333, "timeindex").write_bytes(bytes(12))
        (path / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        return path

    whole = make(tmp_path / "whole-0")
    uncut = PowerCut(10_000)
    load(whole, fs=uncut, recovery_point=200)
    steps = 10_000 - uncut.left
    wanted = contents(whole)
    assert steps > 20
    for step in range(steps):
        path = make(tmp_path / f"step{step}-0")
        with pytest.raises(StorageError, match="power"):
            load(path, fs=PowerCut(step), recovery_point=200)
        load(path, recovery_point=200)
        assert contents(path) == wanted, f"after {step} steps"


def loaded_or_refused(directory: Path, fs: Any, request: dict[str, Any]) -> Any:
    try:
        config = LogConfig(index_interval_bytes=0)
        loaded = load_log(LoadRequest(fs=fs, directory=directory, config=config, **request), now_ms=BASE_TIME)
    except TidelogError as error:
        return error.message
    return loaded.base_offsets, loaded.log_start_offset, loaded.end_offset, loaded.epochs.entries


def crash_by_chance(tmp_path: Path, seed: int, crashes: int) -> None:
    """Load a random partition, with and without crashes at random steps, and compare the logs and files.

    Which segments were recovered decides which producer snapshots exist. The contents of snapshots and transaction
    indexes are the same, with two exceptions: producers of batches below the log start, and a clean shutdown that left
    no snapshot.
    """
    chance = random.Random(seed)
    whole = tmp_path / f"whole{seed}-0"
    whole.mkdir()
    request = random_partition(whole, chance)
    made = contents(whole)
    uncut = PowerCut(100_000)
    wanted = loaded_or_refused(whole, uncut, request)
    for number in range(crashes):
        path = tmp_path / f"crash{seed}.{number}-0"
        path.mkdir()
        for name, content in made.items():
            (path / name).write_bytes(content)
        for _ in range(chance.randrange(1, 4)):
            loaded_or_refused(path, PowerCut(chance.randrange(100_000 - uncut.left + 1)), request)
        assert loaded_or_refused(path, PowerCut(100_000), request) == wanted, (number, request)
        found, expected = contents(path), contents(whole)
        for name in found.keys() ^ expected.keys():
            assert name.endswith(".snapshot"), (number, request)
        for name in found.keys() & expected.keys():
            of_producers = name.endswith((".snapshot", ".txnindex"))
            if not (of_producers and (request["clean_shutdown"] or request["log_start_offset"])):
                assert found[name] == expected[name], (name, number, request)


@pytest.mark.parametrize("seed", range(15))
def test_crashes_by_chance(tmp_path: Path, seed: int) -> None:
    crash_by_chance(tmp_path, seed, 6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_crashes_by_chance(tmp_path: Path, seed: int) -> None:
    crash_by_chance(tmp_path, seed, 20)
