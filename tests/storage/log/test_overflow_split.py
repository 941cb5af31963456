"""A loader splits a segment with offsets that no index can hold, and a reader reads the segment as it is.

In the crash tests, loading stops at each change of the disk and is then repeated, with the same result each time.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from golden_sets import footprint
from legacy_messages import Message, encode_set
from log_maker import batch, mark_clean, plain, write_checkpoint, write_segment
from overflowed_log import (
    HIGH,
    LAST,
    LOW,
    MIDDLE,
    OVERFLOWED,
    PIECES,
    REACH,
    first_record_late,
    three_pieces,
    with_transactions,
    without_index,
    write_overflowed,
)
from power_cut import PowerCut
from tidelog.model import Record, StorageError
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.load.loader import LoadedLog, LoadRequest, load_log
from tidelog.storage.log.load.overflow_split import split_overflowed_segment
from tidelog.storage.log.load.segment_swap import swap_in
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.manager.recovery.directory_recovery import recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions, plan_directory
from tidelog.storage.segment.file_names import FileState, SegmentFileName


def wanted(path: Path) -> dict[str, bytes]:
    """Write the files that the directory of ``three_pieces`` becomes, without snapshots and epochs."""
    write_segment(path, 0, [plain(10 * number) for number in range(10)])
    for base, batches in PIECES.items():
        write_segment(path, base, batches)
    write_segment(path, LAST, [plain(LAST), plain(LAST + 10)])
    return contents(path)


def contents(directory: Path) -> dict[str, bytes]:
    """Return the segments' files."""
    return {path.name: path.read_bytes() for path in directory.iterdir() if ".log" in path.name or "index" in path.name}


def load(directory: Path, *, fs: Any = LOCAL, clean: bool = False, **more: Any) -> LoadedLog:
    config = LogConfig(index_interval_bytes=0)
    return load_log(LoadRequest(fs=fs, directory=directory, config=config, clean_shutdown=clean, **more), now_ms=0)


def records(directory: Path) -> list[Record]:
    view = LogView(LOCAL, directory)
    return [record for chunk in view.columns(view.range()) for record in iter_records(chunk.columns)]


def test_a_segment_is_split_where_its_offsets_overflow(tmp_path: Path) -> None:
    directory = three_pieces(tmp_path / "t-0")
    mtime = (directory / f"{OVERFLOWED:020d}.log").stat().st_mtime_ns // 1_000_000
    before = records(directory)
    loaded = load(directory)
    assert contents(directory) == wanted(tmp_path / "wanted")
    assert loaded.splits == ((OVERFLOWED, tuple(PIECES)),)
    assert loaded.base_offsets == (0, *PIECES, LAST)
    assert (loaded.log_start_offset, loaded.end_offset) == (0, LAST + 20)
    assert f"split into those at {', '.join(map(str, PIECES))}" in loaded.warnings[0]
    assert records(directory) == before
    assert len(before) == 100 + 12 + 30 + 3 + 20
    for base in PIECES:  # retention needs the age of a log without timestamps
        assert (directory / f"{base:020d}.log").stat().st_mtime_ns // 1_000_000 == mtime
    assert load(directory).splits == ()
    with pytest.raises(StorageError, match="nothing to split"):
        split_overflowed_segment(LOCAL, directory, OVERFLOWED, next_base_offset=OVERFLOWED + REACH + 1)


@pytest.mark.parametrize(
    "batches",
    [[plain(REACH + 1, 1), plain(REACH + 2, 1)], [plain(REACH - 1, 3)]],
    ids=["all batches lie too far", "the only one ends too far"],
)
def test_a_segment_that_only_gets_another_name(tmp_path: Path, batches: list[bytes]) -> None:
    directory = tmp_path / "t-0"
    write_overflowed(directory, 0, batches)
    before = records(directory)
    loaded = load(directory)
    (base,) = {*loaded.base_offsets}
    assert base == before[0].offset
    assert loaded.splits == ((0, (base,)),)
    assert (directory / f"{base:020d}.log").read_bytes() == b"".join(batches)
    assert not (directory / f"{0:020d}.log").exists()
    assert records(directory) == before


def test_a_reader_needs_no_split(tmp_path: Path) -> None:
    directory = three_pieces(tmp_path / "t-0")
    before = footprint(tmp_path)
    killed = records(directory)
    assert footprint(tmp_path) == before
    mark_clean(tmp_path)
    assert [record.offset for record in records(directory)] == [record.offset for record in killed]
    offsets = [record.offset for record in killed]
    assert offsets[100:112] == [*range(100, 111), OVERFLOWED + REACH]
    view = LogView(LOCAL, directory)
    assert view.log_end == LAST + 20
    wanted = view.range(OVERFLOWED + REACH + 40, OVERFLOWED + REACH + 42)
    found = [record.offset for chunk in view.columns(wanted) for record in iter_records(chunk.columns)]
    assert found == [OVERFLOWED + REACH + 40, OVERFLOWED + REACH + 41]


def stops(make_directory: Callable[[Path], Path], tmp_path: Path, **request: Any) -> int:
    """Stop loading at each change of the disk, load again, and return the number of changes."""
    whole = make_directory(tmp_path / "whole-0")
    expected = records(whole)
    uncut = PowerCut(10_000)
    load(whole, fs=uncut, **request)
    steps = 10_000 - uncut.left
    files = {path.name: path.read_bytes() for path in whole.iterdir()}
    for step in range(steps):
        directory = make_directory(tmp_path / f"step{step}-0")
        with pytest.raises(StorageError, match="power"):
            load(directory, fs=PowerCut(step), **request)
        assert records(directory) == expected, f"read after {step} steps"
        load(directory, fs=PowerCut(10_000), **request)
        assert {path.name: path.read_bytes() for path in directory.iterdir()} == files, f"after {step} steps"
    return steps


@pytest.mark.parametrize(
    ("make_directory", "request_"),
    [
        (three_pieces, {}),
        (three_pieces, {"recovery_point": OVERFLOWED + REACH + 30}),
        (without_index, {"clean": True}),
        (first_record_late, {"recovery_point": 60}),
    ],
)
def test_a_crash_at_any_step_of_loading_with_a_split(
    tmp_path: Path, make_directory: Callable[[Path], Path], request_: dict[str, Any]
) -> None:
    assert stops(make_directory, tmp_path, **request_) > 40


class Until(PowerCut):
    """A power cut before the ``count``-th rename from one state to another."""

    __slots__ = ("count", "source", "target")

    def __init__(self, source: FileState, target: FileState, count: int) -> None:
        super().__init__(10_000)
        self.source, self.target, self.count = source, target, count

    def rename(self, source: Path, target: Path) -> None:
        names = SegmentFileName.parse(source.name), SegmentFileName.parse(target.name)
        if [name and name.state for name in names] == [self.source, self.target]:
            self.count -= 1
            if self.count == 0:
                self.left = 0
        super().rename(source, target)


@pytest.mark.parametrize(
    ("power", "states"),
    [
        (Until(FileState.CLEANED, FileState.SWAP, 1), ["", ".cleaned", ".cleaned", ".cleaned"]),
        (Until(FileState.CLEANED, FileState.SWAP, 2), ["", ".cleaned", ".cleaned", ".swap"]),
        (Until(FileState.LIVE, FileState.DELETED, 1), ["", ".swap", ".swap", ".swap"]),
        (Until(FileState.SWAP, FileState.LIVE, 1), [".deleted", ".swap", ".swap", ".swap"]),
        (Until(FileState.SWAP, FileState.LIVE, 2), ["", ".deleted", ".swap", ".swap"]),
    ],
    ids=["1-copied", "2-one-is-a-swap", "3-all-are-swaps", "4-the-old-is-deleted", "5-one-is-in-place"],
)
def test_a_crash_in_each_phase_of_a_split(tmp_path: Path, power: Until, states: list[str]) -> None:
    directory = three_pieces(tmp_path / "t-0")
    before = records(directory)
    with pytest.raises(StorageError, match="power"):
        load(directory, fs=power)
    logs = [name for path in directory.glob("*.log*") if (name := SegmentFileName.parse(path.name)) is not None]
    assert sorted(name.state for name in logs if 0 < name.offset < LAST) == states
    assert records(directory) == before
    loaded = load(directory)
    assert contents(directory) == wanted(tmp_path / "wanted")
    assert records(directory) == before
    assert loaded.base_offsets == (0, *PIECES, LAST)
    assert bool(loaded.splits) == (".cleaned" in states)


def test_a_crash_at_any_step_of_a_swap_by_a_cleaner(tmp_path: Path) -> None:
    """Two segments replace three: the old ones are read until all new ones are ``.swap``, then the new ones."""
    old = {0: [plain(0), plain(10)], 100: [plain(100)], 200: [plain(200), plain(210)], 300: [plain(300)]}
    new = {0: [plain(10), plain(100)], 200: [plain(210)]}

    def cleaned(path: Path) -> Path:
        for base, batches in old.items():
            write_segment(path, base, batches)
        for base, batches in new.items():
            write_segment(path, base, batches, suffix=".cleaned")
        return path

    def state(segments: dict[int, list[bytes]]) -> dict[str, bytes]:
        path = tmp_path / f"wanted{len(segments)}"
        for base, batches in segments.items():
            write_segment(path, base, batches)
        return contents(path)

    uncut = PowerCut(1000)
    swap_in(uncut, cleaned(tmp_path / "whole-0"), new, [0, 100, 200])
    seen = []
    for step in range(1000 - uncut.left):
        directory = cleaned(tmp_path / f"step{step}-0")
        with pytest.raises(StorageError, match="power"):
            swap_in(PowerCut(step), directory, new, [0, 100, 200])
        before = [record.offset for record in records(directory)]
        load(directory, clean=True)
        found = contents(directory)
        assert [record.offset for record in records(directory)] == before
        seen.append(len(before))
        assert found == (state(old) if len(before) == 60 else state(new | {300: old[300]})), f"after {step} steps"
    assert seen == [60] * 7 + [40] * 20


def test_the_aborted_transactions_stay_known(tmp_path: Path) -> None:
    """The transaction index of each piece is rebuilt, although all was flushed. Kafka's split loses it."""
    far = OVERFLOWED + REACH + 5
    directory = with_transactions(tmp_path / "t-0")
    (directory / f"{OVERFLOWED:020d}.index").unlink()
    loaded = load(directory, clean=True)
    assert loaded.base_offsets == (0, OVERFLOWED, far, LAST)
    for base, aborted in ((OVERFLOWED, 1), (far, 2)):
        assert (directory / f"{base:020d}.txnindex").stat().st_size == 34 * aborted
    mark_clean(tmp_path)
    view = LogView(LOCAL, directory)
    found = [
        record.offset
        for chunk in view.columns(view.range(isolation="read_committed"))
        for record in iter_records(chunk.columns)
    ]
    assert found == [*range(10), far + 4, *range(LAST, LAST + 10)]


def test_a_compressed_batch_of_an_old_format_names_its_piece_by_its_first_record(tmp_path: Path) -> None:
    far = 3_000_000_000
    sets = [
        encode_set([Message(at + number, 1000, b"k", b"v") for number in range(3)], 1, codec=1)
        for at in (5, far, far + 10)
    ]
    write_overflowed(tmp_path / "t-0", 0, sets)
    loaded = load(tmp_path / "t-0")
    assert loaded.base_offsets == (5, far)
    assert [record.offset for record in records(tmp_path / "t-0")] == [
        at + number for at in (5, far, far + 10) for number in range(3)
    ]


def test_damage_in_a_piece_ends_the_log(tmp_path: Path) -> None:
    """Damage in the overflowed segment truncates its pieces, as it does in any segment."""
    directory = tmp_path / "t-0"
    bad = bytearray(MIDDLE[1])
    bad[80] ^= 1
    write_overflowed(directory, OVERFLOWED, [*LOW, MIDDLE[0], bytes(bad), MIDDLE[2]])
    write_segment(directory, LAST, [plain(LAST)])
    before = records(directory)
    loaded = load(directory)
    assert loaded.base_offsets == (OVERFLOWED, OVERFLOWED + REACH + 1)
    assert (loaded.end_offset, loaded.deleted) == (OVERFLOWED + REACH + 11, (LAST,))
    assert records(directory) == before


def test_half_a_batch_at_the_end_goes_along_and_is_cut(tmp_path: Path) -> None:
    log = write_overflowed(tmp_path / "t-0", OVERFLOWED, [*LOW, *MIDDLE, HIGH[0][:-1]])
    loaded = load(log.parent)
    assert loaded.base_offsets == (OVERFLOWED, OVERFLOWED + REACH + 1)
    assert loaded.end_offset == OVERFLOWED + 2 * REACH + 1


@pytest.mark.parametrize(
    ("batches", "next_base", "message"),
    [
        ([plain(100), plain(100 + 2**31), plain(120)], None, "which of the two is wrong"),
        ([plain(100), plain(100 + 2**31)], 200, "into the next segment, which begins at 200"),
        ([batch(90, [b"x"]), plain(100 + 2**31)], None, "31 bits"),
    ],
)
def test_what_no_compaction_leaves_is_refused(
    tmp_path: Path, batches: list[bytes], next_base: int | None, message: str
) -> None:
    directory = tmp_path / "t-0"
    write_overflowed(directory, 100, batches)
    if next_base is not None:
        write_segment(directory, next_base, [plain(next_base)])
    before = contents(directory)
    with pytest.raises(StorageError, match=message) as caught:
        load(directory)
    assert caught.value.path == str(directory / f"{100:020d}.log")
    assert contents(directory) == before


def test_a_full_disk_leaves_the_segment_as_it_was(tmp_path: Path) -> None:
    """The unfinished copies are removed."""
    directory = three_pieces(tmp_path / "t-0")
    before = contents(directory)

    class Full(PowerCut):
        def open(self, path: Path, *, write: bool = False, create: bool = False) -> Any:
            if path.name == f"{OVERFLOWED + REACH + 1:020d}.log.cleaned":
                raise StorageError("no space left")
            return super().open(path, write=write, create=create)

    with pytest.raises(StorageError, match="no space"):
        split_overflowed_segment(Full(1000), directory, OVERFLOWED, next_base_offset=LAST)
    assert contents(directory) == before


def test_recovering_a_directory_foretells_and_does_it(tmp_path: Path) -> None:
    directory = three_pieces(tmp_path / "t-0")
    write_segment(tmp_path / "u-0", 0, [plain(0)])
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {"t-0": LAST + 20, "u-0": 10})
    options = RecoverOptions(now_ms=0, config=LogConfig(index_interval_bytes=0))
    assert [part.splits for part in plan_directory(LOCAL, tmp_path, options).partitions] == [(), ()]
    (directory / f"{OVERFLOWED:020d}.index").unlink()
    plan = plan_directory(LOCAL, tmp_path, options)
    assert [part.splits for part in plan.partitions] == [(OVERFLOWED,), ()]
    assert plan.free_bytes_needed > (directory / f"{OVERFLOWED:020d}.log").stat().st_size
    before = records(directory)
    result = recover_directory(LOCAL, tmp_path, options)
    assert [part.segments for part in result.partitions] == [5, 1]
    assert any("was split" in warning for warning in result.partitions[0].warnings)
    assert contents(directory) == wanted(tmp_path / "wanted")
    assert records(directory) == before
