"""A log that was written to, closed or killed, and opened again: the loaded state, and further use by its owner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from legacy_messages import Message, encode_set
from log_maker import BASE_TIME, batch, plain
from tidelog.record.build import build_batch
from tidelog.record.rows import columns_from_lists
from tidelog.storage.fs import LOCAL, LocalFileSystem
from tidelog.storage.index import OffsetIndexReader
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing import ManualClock

NOW = BASE_TIME + 1_000_000
REACH = 2**31 - 1
Open = Callable[..., PartitionLog]


class Watching(LocalFileSystem):
    """A file system that counts how often a ``.log`` is opened."""

    __slots__ = ("opened",)

    def __init__(self) -> None:
        self.opened = 0

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> Any:
        self.opened += path.suffix == ".log"
        return super().open(path, write=write, create=create)


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Open]:
    opened: list[PartitionLog] = []

    def make(*, clean: bool = True, log_start: int = 0, fs: Any = LOCAL, **config: Any) -> PartitionLog:
        opened.append(
            PartitionLog.open(
                OpenRequest(
                    fs=fs,
                    directory=tmp_path / "t-0",
                    clock=ManualClock(NOW),
                    config=LogConfig(**({"segment_index_bytes": 4096} | config)),
                    clean_shutdown=clean,
                    log_start_offset=log_start,
                )
            )
        )
        return opened[-1]

    yield make
    for log in opened:
        log.close()


def fill(log: PartitionLog, segments: int) -> None:
    """Append one record per segment."""
    for _ in range(segments):
        log.append(bytearray(plain(0, 1)))
        log.roll()


def snapshots(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.snapshot"))


class TestFollowerOfACompactedLog:
    """Compaction may leave gaps wider than a segment's range of offsets: the follower rolls, and no index overflows."""

    FAR = REACH + 2

    def closed(self, log: PartitionLog) -> None:
        log.close()
        for path in log.directory.glob("*.index"):
            OffsetIndexReader(path.read_bytes(), int(path.stem)).sanity_check()

    def test_of_single_records(self, open_log: Open) -> None:
        log = open_log(segment_bytes=1000, index_interval_bytes=1)
        for offset, bases in (
            (0, [0]),
            (self.FAR, [0, self.FAR]),
            (self.FAR + 1, [0, self.FAR]),
            (self.FAR + 2, [0, self.FAR]),
        ):
            log.append_as_follower(bytearray(batch(offset, [b"v"])), 0)
            assert log.base_offsets == bases
        assert snapshots(log.directory) == [self.FAR]
        self.closed(log)
        again = open_log(clean=False)
        assert (again.base_offsets, again.end_offset) == ([0, self.FAR], self.FAR + 3)

    def test_of_compressed_batches(self, open_log: Open) -> None:
        log = open_log(segment_bytes=1000, index_interval_bytes=1)
        log.append_as_follower(bytearray(batch(0, [b"v"])), 0)
        for offset in (self.FAR, self.FAR + 2, self.FAR + 4):
            content = build_batch(columns_from_lists([b"v", b"w"]), base_offset=offset, codec=1, leader_epoch=0)
            log.append_as_follower(bytearray(content), 0)
            assert log.base_offsets == [0, self.FAR]
        assert snapshots(log.directory) == [self.FAR]
        self.closed(log)
        again = open_log(clean=False)
        assert (again.base_offsets, again.end_offset) == ([0, self.FAR], self.FAR + 6)

    def test_of_compressed_sets_of_an_old_format(self, open_log: Open) -> None:
        """The header of these sets has the last offset only, so the segment begins at the lowest possible offset."""
        log = open_log(segment_bytes=1000, index_interval_bytes=1)

        def messages(offset: int, count: int, codec: int) -> bytearray:
            made = [Message(offset + at, BASE_TIME, b"k", b"v") for at in range(count)]
            return bytearray(encode_set(made, 1, codec=codec))

        log.append_as_follower(messages(0, 1, 0), 0)
        bases = [0]
        for offset, new in ((self.FAR, 3), (self.FAR + 2, REACH + 4), (self.FAR + 4, None)):
            log.append_as_follower(messages(offset, 2, 1), 0)
            bases += [] if new is None else [new]
            assert log.base_offsets == bases
        assert snapshots(log.directory) == [3, REACH + 4]
        self.closed(log)
        again = open_log(clean=False)
        assert (again.base_offsets, again.end_offset) == (bases, self.FAR + 6)


class TestProducers:
    def test_records_deleted_in_the_middle_of_a_segment_leave_them(self, open_log: Open) -> None:
        log = open_log()
        for producer in (1, 2):
            log.append_as_leader(bytearray(batch(0, [b"x"], producer_id=producer)), leader_epoch=0)
        log.maybe_increment_log_start_offset(1)
        assert set(log.producers) == {1, 2}
        log.close()
        again = open_log(clean=False, log_start=1)
        assert set(again.producers) == {1, 2}
        assert again.producers[2].last_sequence == 0

    def test_records_deleted_with_their_segment_take_them_along_at_the_next_loading(self, open_log: Open) -> None:
        log = open_log()
        log.append_as_leader(bytearray(batch(0, [b"x"], producer_id=1)), leader_epoch=0)
        log.roll()
        log.append_as_leader(bytearray(batch(0, [b"x"], producer_id=2)), leader_epoch=0)
        log.maybe_increment_log_start_offset(1)
        log.delete_old_segments()
        assert log.base_offsets == [1]
        assert set(log.producers) == {1, 2}
        log.close()
        again = open_log(clean=False, log_start=1)
        assert set(again.producers) == {2}

    def test_a_truncation_of_a_log_without_any_reads_nothing(self, open_log: Open) -> None:
        fs = Watching()
        log = open_log(fs=fs)
        for _ in range(10):
            fill(log, 1)
        log.truncate_to(8)
        fs.opened = 0
        log.truncate_to(5)
        few = fs.opened
        log.truncate_to(1)
        assert fs.opened == 2 * few  # the opens that the truncation itself needs, for any number of earlier segments
        assert not log.producers
        assert snapshots(log.directory) == [1]

    def test_snapshots_after_a_log_that_damage_emptied(self, open_log: Open) -> None:
        """The log ended below its start, so all its files were deleted. New segments get snapshots as usual."""
        log = open_log()
        fill(log, 9)
        assert snapshots(log.directory) == list(range(1, 10))
        log.maybe_increment_log_start_offset(4)
        log.close()
        (log.directory / f"{1:020d}.log").write_bytes(b"corruptRecord")
        again = open_log(clean=False, log_start=4)
        assert (again.base_offsets, again.log_start_offset, again.end_offset) == ([4], 4, 4)
        assert snapshots(again.directory) == []
        fill(again, 5)
        assert snapshots(again.directory) == [5, 6, 7, 8, 9]
        again.remove_deleted()
        assert (again.log_start_offset, again.end_offset) == (4, 9)
        assert snapshots(again.directory) == [5, 6, 7, 8, 9]
        assert not list(again.directory.glob("*.deleted"))


class TestSegments:
    def test_opened_again_it_can_be_truncated(self, open_log: Open) -> None:
        log = open_log(segment_bytes=len(plain(0, 1)) * 5)
        for _ in range(100):
            log.append(bytearray(plain(0, 1)))
        assert len(log.base_offsets) == 20
        log.close()
        again = open_log(clean=False, segment_bytes=len(plain(0, 1)) * 5)
        again.truncate_to(3)
        assert (again.base_offsets, again.end_offset) == ([0], 3)
        again.append(bytearray(plain(0, 1)))
        assert again.end_offset == 4

    @pytest.mark.parametrize("clean", [True, False])
    def test_those_that_retention_took_do_not_come_back(self, open_log: Open, clean: bool) -> None:
        log = open_log(retention_ms=999)
        for _ in range(20):
            fill(log, 1)
        log.delete_old_segments()
        assert list(log.directory.glob("*.deleted"))
        log.close()
        again = open_log(clean=clean)
        assert again.base_offsets == [20]
        assert not list(again.directory.glob("*.deleted"))

    def test_an_empty_active_one_is_loaded_and_written_to(self, open_log: Open) -> None:
        log = open_log()
        fill(log, 3)
        log.flush(3)
        log.close()
        for suffix in ("index", "timeindex"):
            (log.directory / f"{3:020d}.{suffix}").unlink(missing_ok=True)
        again = open_log(clean=False)
        assert (again.base_offsets, again.end_offset) == ([0, 1, 2, 3], 3)
        fill(again, 3)
        assert again.base_offsets == [0, 1, 2, 3, 4, 5, 6]
        again.flush()
        assert again.recovery_point == 6

    def test_the_recovery_point_moves_with_a_flush_not_with_loading(self, open_log: Open) -> None:
        log = open_log()
        fill(log, 5)
        log.close()
        again = open_log(clean=False)
        assert (again.recovery_point, again.end_offset) == (0, 5)
        again.flush()
        assert again.recovery_point == 5
