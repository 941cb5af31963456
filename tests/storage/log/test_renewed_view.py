"""A renewed view of a running broker's log continues with the transactions that the view before it has read."""

from __future__ import annotations

from pathlib import Path

from log_maker import data, plain, write_checkpoint, write_segment
from tidelog.storage.fs import LocalFileSystem
from tidelog.storage.log.view.directory_state import read_directory_state
from tidelog.storage.log.view.log_view import LogView

FIRST, REST = 40, 20


class HeldFileSystem(LocalFileSystem):
    """A local file system that reports a lock holder."""

    __slots__ = ()

    def lock_holder(self, path: Path) -> int | None:
        return 1


def held_log(tmp_path: Path) -> LogView:
    """Write a log with an open transaction at offset 10, and read its transactions below the high watermark 40."""
    write_segment(tmp_path / "t-0", 0, [plain(0), data(10, 10), plain(20), plain(30)])
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": FIRST})
    view = LogView(HeldFileSystem(), tmp_path / "t-0")
    assert view.transactions(FIRST).scan.open == {7: 10}
    return view


def renewed(view: LogView) -> LogView:
    return view.renewed(read_directory_state(view.fs, view.directory.parent))


def test_it_sees_appends_and_reads_no_batch_again(tmp_path: Path) -> None:
    view = held_log(tmp_path)
    log = tmp_path / "t-0" / f"{0:020d}.log"
    with log.open("ab") as file:
        file.write(data(FIRST, 10, producer_id=9) + plain(FIRST + 10))
    with log.open("r+b") as file:
        file.seek(len(plain(0)) + 30)
        file.write(b"damage")  # a view that reads the transaction's first batch again does not find it
    later = renewed(view)
    assert later.log_end == FIRST + REST
    assert later.transactions(FIRST).scan.open == {7: 10, 9: FIRST}
    assert LogView(HeldFileSystem(), tmp_path / "t-0").transactions(FIRST).scan.open == {9: FIRST}
    assert view.log_end == FIRST, "the view before it does not change"


def test_a_shorter_log_is_read_from_its_start(tmp_path: Path) -> None:
    view = held_log(tmp_path)
    log = tmp_path / "t-0" / f"{0:020d}.log"
    log.write_bytes(plain(0) + plain(10))
    later = renewed(view)
    assert (later.log_end, later.transactions(20).scan.open) == (20, {})


def test_the_log_of_a_topic_that_was_made_again_is_read_from_its_start(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 100, [data(100, 10), plain(110)])
    view = LogView(HeldFileSystem(), tmp_path / "t-0")
    assert view.transactions(120).scan.open == {7: 100}
    for file in (tmp_path / "t-0").iterdir():
        file.unlink()
    write_segment(tmp_path / "t-0", 0, [plain(10 * number) for number in range(20)])
    later = renewed(view)
    assert (later.log_end, later.transactions(200).scan.open) == (200, {})
