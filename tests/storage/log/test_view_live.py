"""A view of a directory while its owner appends, rolls, deletes, compacts and truncates."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from log_maker import plain, write_checkpoint, write_segment
from tidelog.model import FileMissingError, OffsetOutOfRangeError, StorageError
from tidelog.storage.fs import LOCAL, File, FileSystem, LocalFileSystem
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import ReadRange, RowStream
from tidelog.storage.log.view.view_state import LoadParameters, load_view_state

LIVE_BROKER = Path(__file__).parents[2] / "live_broker.py"
SECONDS, PATIENCE_S = 2.5, 60


class MeddlingFileSystem(LocalFileSystem):
    """A local file system that reports a lock holder and acts before the n-th opening of a ``.log``."""

    __slots__ = ("act", "opened")

    def __init__(self, act: Callable[[int], None] = lambda number: None) -> None:
        self.act = act
        self.opened = 0

    def lock_holder(self, path: Path) -> int | None:
        return 1

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:  # type: ignore[override]
        if ".log" in path.name:
            self.opened += 1
            self.act(self.opened)
        return super().open(path, write=write, create=create)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    for base in (0, 100, 200):
        write_segment(tmp_path / "t-0", base, [plain(base + 10 * number) for number in range(10)])
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": 300})
    return tmp_path / "t-0"


def move(directory: Path, base: int, source: str, target: str) -> None:
    for path in list(directory.glob(f"{base:020d}.*")):
        if path.name.endswith(source) and (source or path.suffix in (".log", ".index", ".timeindex")):
            path.rename(path.with_name(path.name.removesuffix(source) + target))


def start_of_each_batch(stream: RowStream) -> list[int]:
    return [offset for rows in stream for offset in rows.table.base_offset.tolist()]


def test_segments_deleted_while_they_are_read(directory: Path) -> None:
    """An open segment is read to its end. A segment that was not opened yet raises an error."""
    fs = MeddlingFileSystem()
    view = LogView(fs, directory)
    stream = view.batches(view.range())
    rows = iter(stream)
    assert next(rows).table.base_offset.tolist() == list(range(0, 100, 10))
    for base in (0, 100):
        move(directory, base, "", ".deleted")
    with pytest.raises(OffsetOutOfRangeError, match="the log starts at 200 now"):
        list(rows)


def test_what_is_deleted_before_it_is_read_may_be_passed_over(directory: Path) -> None:
    view = LogView(MeddlingFileSystem(), directory)
    lost: list[str] = []
    rows = iter(RowStream(view, view.range(), on_lost=lost.append))
    next(rows)
    for base in (0, 100):
        move(directory, base, "", ".deleted")
    assert next(rows).table.base_offset.tolist() == list(range(200, 300, 10))
    assert list(rows) == []
    (sentence,) = lost
    assert "the log starts at 200 now" in sentence
    assert "offset 100" in sentence


def test_a_partition_that_is_deleted_may_be_passed_over(directory: Path) -> None:
    view = LogView(MeddlingFileSystem(), directory)
    lost: list[str] = []
    rows = iter(RowStream(view, view.range(), on_lost=lost.append))
    next(rows)
    directory.rename(directory.with_name("t-0.0123456789abcdef0123456789abcdef-delete"))
    assert list(rows) == []
    assert "the partition was deleted" in lost[0]
    with pytest.raises(FileMissingError):
        list(view.batches(ReadRange(start=100, end=300)))


def test_deleting_what_was_read_disturbs_nothing(directory: Path) -> None:
    view = LogView(MeddlingFileSystem(), directory)
    rows = iter(view.batches(view.range()))
    next(rows)
    next(rows)
    for base in (0, 100):
        move(directory, base, "", ".deleted")
        for path in directory.glob("*.deleted"):
            path.unlink()
    assert next(rows).table.base_offset.tolist() == list(range(200, 300, 10))


def test_compacted_while_it_is_read(directory: Path) -> None:
    """A segment with fewer batches replaces segments 0 and 100 after the first chunk was read."""
    view = LogView(MeddlingFileSystem(), directory)
    stream = view.batches(view.range())
    rows = iter(stream)
    assert len(next(rows).table) == 10
    for base in (0, 100):
        move(directory, base, "", ".deleted")
    write_segment(directory, 0, [plain(20), plain(150), plain(190)])
    rest = [offset for part in rows for offset in part.table.base_offset.tolist()]
    assert rest == [150, 190, *range(200, 300, 10)]
    assert stream.next_offset == 300


@pytest.mark.parametrize("step", range(1, 5))
def test_every_step_of_a_swap_shows_the_same_records(directory: Path, step: int) -> None:
    """The cleaner's steps are: ``.cleaned`` to ``.swap``, old segments to ``.deleted``, ``.swap`` to its name."""
    kept = [plain(20), plain(150), plain(190)]
    write_segment(directory, 0, kept, suffix=".cleaned")
    if step >= 2:
        move(directory, 0, ".cleaned", ".swap")
    if step >= 3:
        move(directory, 100, "", ".deleted")
        move(directory, 0, "", ".deleted")
    if step >= 4:
        move(directory, 0, ".swap", "")
    view = LogView(MeddlingFileSystem(), directory)
    found = start_of_each_batch(view.batches(view.range()))
    assert found == (list(range(0, 300, 10)) if step == 1 else [20, 150, 190, *range(200, 300, 10)])


def test_a_swap_renamed_between_listing_and_opening(directory: Path) -> None:
    write_segment(directory, 0, [plain(20), plain(150)], suffix=".swap")

    def act(number: int) -> None:
        if number == 1:
            move(directory, 100, "", ".deleted")
            move(directory, 0, "", ".deleted")
            move(directory, 0, ".swap", "")

    view = LogView(MeddlingFileSystem(act), directory)
    assert start_of_each_batch(view.batches(view.range())) == [20, 150, *range(200, 300, 10)]


def test_a_follower_truncates_while_it_is_read(directory: Path) -> None:
    view = LogView(MeddlingFileSystem(), directory)
    rows = iter(view.batches(view.range()))
    next(rows)
    next(rows)
    path = directory / "00000000000000000200.log"
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 10 * 5)
    with pytest.raises(OffsetOutOfRangeError, match="truncated to 250"):
        list(rows)
    assert view.log_end == 250


def test_a_batch_that_is_being_written_does_not_count_yet(directory: Path) -> None:
    fs = MeddlingFileSystem()
    path = directory / "00000000000000000200.log"
    coming = plain(300)
    with path.open("ab") as file:
        for size in (5, 30, 61, len(coming) - 1):
            file.truncate(path.stat().st_size // len(coming) * len(coming))
            file.write(coming[:size])
            file.flush()
            assert LogView(fs, directory).log_end == 300
        file.write(coming[size:])
    assert LogView(fs, directory).log_end == 310


def test_a_directory_that_never_holds_still(directory: Path) -> None:
    def act(number: int) -> None:
        raise_missing = directory / "00000000000000000200.log"
        LOCAL.open(raise_missing.with_name("gone"))

    with pytest.raises(StorageError, match="changed 20 times"):
        load_view_state(MeddlingFileSystem(act), LoadParameters(directory=directory, condition=DirectoryCondition.HELD))


def test_the_states_of_a_view_are_frozen(directory: Path) -> None:
    view = LogView(MeddlingFileSystem(), directory)
    before = view.state
    write_segment(directory, 300, [plain(300)])
    assert view.state is before
    assert view.refresh().log_end.message_offset == 310
    assert before.log_end.message_offset == 300


@pytest.mark.parametrize("seed", range(3))
def test_beside_a_process_that_does_all_of_it(tmp_path: Path, seed: int) -> None:
    """live_broker.py holds the lock and appends in torn writes, rolls, deletes and compacts during the reads."""
    command = [sys.executable, str(LIVE_BROKER), str(tmp_path), str(seed)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    fs: FileSystem = LOCAL
    reads, seen_end, lost = 0, 0, 0
    begun = time.monotonic()
    try:
        while time.monotonic() < begun + SECONDS or reads <= 10 or lost == reads:
            assert time.monotonic() < begun + PATIENCE_S, (reads, lost)
            view = LogView(fs, tmp_path / "t-0")
            assert view.condition is DirectoryCondition.HELD
            end = view.log_end
            assert end >= seen_end, "the log end never falls"
            seen_end = end
            seen: list[int] = []
            try:
                wanted = view.range(until="log_end")
                for chunk in view.columns(wanted):
                    offsets, values = chunk.columns.offset.tolist(), bytes(chunk.columns.value_data or b"")
                    assert not seen or offsets[0] > seen[-1]
                    assert values == b"".join(b"%020d" % offset for offset in offsets)
                    seen += offsets
                must = [at for at in range(wanted.start, end) if at // 10 % 3]
                assert [at for at in seen if at // 10 % 3] == must, "nothing is missed, nothing comes twice"
            except OffsetOutOfRangeError:
                lost += 1  # retention was faster
            reads += 1
            time.sleep(0.001)
        assert process.stdout.readline() == "busy\n"
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=PATIENCE_S)
    assert process.returncode == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["rolls"] > 3
    assert summary["deletions"] > 0
    assert summary["compactions"] > 0
    assert LogView(fs, tmp_path / "t-0").log_end == summary["log_end"]
