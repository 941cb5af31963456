"""Readers take no lock: their results while another thread changes the log, at critical moments and at random."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from log_maker import plain
from storage.log.log_harness import NOW, RECORD_BYTES, LogHarness
from tidelog.kernel import scan_batches
from tidelog.model import Isolation, LogOffsetMetadata, OffsetOutOfRangeError
from tidelog.storage.fs.local import LocalFileSystem
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.index import TimestampOffset
from tidelog.storage.log.partition_log import LogReadRequest, PartitionLog
from tidelog.storage.log.state.log_read import read_segments
from tidelog.storage.log.state.log_state import LogState
from tidelog.storage.log.view.list_offsets import OffsetSpec
from tidelog.storage.segment.segment import LogSegment

ISOLATIONS = list(Isolation)


def read(log: PartitionLog, start: int, isolation: Isolation = Isolation.READ_UNCOMMITTED) -> list[int]:
    """Return the base offsets of the batches. Each batch here is one record."""
    data = log.read(LogReadRequest(start_offset=start, max_bytes=1 << 20, isolation=isolation)).data()
    offsets: list[int] = scan_batches(data).base_offset.tolist()
    return offsets


@pytest.fixture
def log(harness: LogHarness) -> PartitionLog:
    """Fill segments of five with thirty records, and set the high watermark to 12."""
    log = harness.open(segment_bytes=5 * RECORD_BYTES, retention_ms=999)
    harness.add(log, 30)
    log.update_high_watermark(12)
    return log


class TestOffsetsAtOneMoment:
    def meanwhile(self, monkeypatch: pytest.MonkeyPatch, change: Callable[[], object]) -> None:
        """Run ``change`` once, between the reader's two looks at the offsets."""
        last_stable, changes = LogState.last_stable, [change]

        def slow(state: LogState) -> LogOffsetMetadata:
            found = last_stable(state)
            if changes:
                changes.pop()()
            return found

        monkeypatch.setattr(LogState, "last_stable", slow)

    def test_a_high_watermark_that_moves_has_its_place(
        self, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A read without the position would not know where to end, and would pass the high watermark."""
        assert read(log, 10) == [10, 11]
        self.meanwhile(monkeypatch, lambda: log.update_high_watermark(13))
        assert read(log, 10) == [10, 11, 12]

    @pytest.mark.parametrize("offset", [3, 10, 11])
    def test_a_truncation_leaves_them_in_order(
        self, log: PartitionLog, monkeypatch: pytest.MonkeyPatch, offset: int
    ) -> None:
        self.meanwhile(monkeypatch, lambda: log.truncate_to(offset))
        found = log.offsets()
        assert found.last_stable == found.high_watermark == found.log_end
        assert found.log_end.message_offset == offset

    def test_a_truncation_below_the_log_start(self, log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
        log.maybe_increment_log_start_offset(12)
        self.meanwhile(monkeypatch, lambda: log.truncate_fully_and_start_at(4))
        found = log.offsets()
        assert (found.log_start, found.log_end) == (4, LogOffsetMetadata(4, 4, 0))


class WatchedLock:
    """A log's lock that calls ``wanted`` from each thread that is about to wait for it."""

    def __init__(self, lock: Any, wanted: Callable[[], None]) -> None:
        self._lock = lock
        self._wanted = wanted
        self.release = lock.release

    def acquire(self) -> None:
        self._wanted()
        self._lock.acquire()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Readers:
    """Three readers, each in its own thread."""

    def __init__(self, log: PartitionLog) -> None:
        log.offsets()  # resolves the high watermark's position, so the readers do not need the lock
        log._lifecycle.lock = WatchedLock(log._lifecycle.lock, self._stopped)  # type: ignore[assignment]
        self._answers: list[object] = []
        self._stops: dict[threading.Thread, threading.Event] = {}
        self._threads = [
            threading.Thread(target=self._ask, args=(question,))
            for question in (
                lambda: read(log, 10, Isolation.LOG_END),
                lambda: log.offset_for_timestamp(0),
                lambda: log.list_offset(OffsetSpec.MAX_TIMESTAMP, Isolation.LOG_END),
            )
        ]

    def begin(self) -> None:
        """Start the readers. Return when each is done, or about to wait for the log's lock."""
        self._stops = {thread: threading.Event() for thread in self._threads}
        for thread in self._threads:
            thread.start()
        for stop in self._stops.values():
            assert stop.wait(60)

    def answers(self) -> list[object]:
        """Return the results, including errors."""
        for thread in self._threads:
            thread.join()
        return self._answers

    def _ask(self, question: Callable[[], object]) -> None:
        try:
            self._answers.append(question())
        except BaseException as error:
            self._answers.append(error)
        self._stopped()

    def _stopped(self) -> None:
        stop = self._stops.get(threading.current_thread())
        if stop is not None:
            stop.set()


def test_no_reader_takes_a_lock(log: PartitionLog) -> None:
    """Readers never wait for an append or a flush, which hold the locks while they wait for the disk."""
    log.offsets()  # takes the lock once, to resolve the high watermark's position
    taken: list[str] = []
    log._lifecycle.lock = WatchedLock(log._lifecycle.lock, lambda: taken.append("lock"))  # type: ignore[assignment]
    log._lifecycle.files = WatchedLock(log._lifecycle.files, lambda: taken.append("files"))  # type: ignore[assignment]
    for isolation in ISOLATIONS:
        assert read(log, 10, isolation)[:2] == [10, 11]
        assert log.list_offset(OffsetSpec.MAX_TIMESTAMP, isolation) is not None
        assert log.list_offset(NOW, isolation) is not None
    assert log.offsets().log_end.message_offset == log.end_offset == 30
    assert log.offset_for_timestamp(0) == TimestampOffset(NOW, 0)
    assert log.aborted_transactions(0, 30) == ()
    assert log.metrics().size == log.size == 30 * RECORD_BYTES
    assert taken == []
    log.append_as_leader(bytearray(plain(0, 1, timestamp=NOW)), leader_epoch=0)
    assert set(taken) == {"lock"}, "an append takes it, so a reader's would have been seen"


class TestFilesThatMove:
    """Readers run after the files' names have changed, but before the log's state has."""

    @pytest.mark.parametrize(("is_open", "read_answer"), [(True, [10, 11, 12, 13, 14]), (False, [])])
    def test_when_the_log_begins_anew(
        self, log: PartitionLog, monkeypatch: pytest.MonkeyPatch, is_open: bool, read_answer: list[int]
    ) -> None:
        """An open file is read to its end. A file that has to be opened is looked up again."""
        rename, readers = LocalFileSystem.rename, Readers(log)
        if not is_open:
            for segment in log.segments:
                segment._file_or_none = None

        def slow(fs: LocalFileSystem, source: Path, target: Path) -> None:
            rename(fs, source, target)
            if source == log.directory / f"{10:020d}.log":
                readers.begin()

        monkeypatch.setattr(LocalFileSystem, "rename", slow)
        log.truncate_fully_and_start_at(10)
        answers = readers.answers()
        assert not [answer for answer in answers if isinstance(answer, BaseException)]
        assert read_answer in answers

    def test_when_the_directory_is_renamed(
        self, harness: LogHarness, log: PartitionLog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        move, readers = LogSegment.set_directory, Readers(log)

        def slow(segment: LogSegment, directory: Path) -> None:
            if segment.path.parent == harness.directory and segment.base_offset == 0:
                readers.begin()
            move(segment, directory)

        monkeypatch.setattr(LogSegment, "set_directory", slow)
        log.rename(harness.directory.with_name("t-0.gone-delete"))
        answers = readers.answers()
        assert not [answer for answer in answers if isinstance(answer, BaseException)]
        assert [10, 11, 12, 13, 14] in answers

    @pytest.mark.parametrize("kind", [".log", ".index", ".timeindex"])
    def test_a_file_that_is_opened_while_the_directory_is_renamed(
        self, harness: LogHarness, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        """The segment uses the new name afterwards."""
        settings: dict[str, Any] = {"segment_bytes": 5 * RECORD_BYTES, "index_interval_bytes": 1}
        log = harness.open(**settings)
        harness.add(log, 30)
        log.close()
        again = harness.open(**settings)
        moves, whole = [harness.directory.with_name("t-0.gone-delete")], LocalFileSystem.open

        def early(fs: LocalFileSystem, path: Path, **options: bool) -> LocalFile:
            file = whole(fs, path, **options)
            if path == harness.directory / f"{10:020d}{kind}" and moves:
                again.rename(moves.pop())
            return file

        monkeypatch.setattr(LocalFileSystem, "open", early)
        for _ in range(2):
            assert again.list_offset(OffsetSpec.MAX_TIMESTAMP, Isolation.LOG_END) is not None
            assert read(again, 12, Isolation.LOG_END) == [12, 13, 14]
        assert not moves


def test_the_largest_timestamp_beside_a_truncation(log: PartitionLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The indexes of a segment under truncation may end below its remaining records."""
    found: list[TimestampOffset] = []
    before, cut = log.segments[5].max_timestamp, LogSegment._largest_timestamp

    def slow(segment: LogSegment) -> TimestampOffset:
        found.append(segment.max_timestamp)
        return cut(segment)

    monkeypatch.setattr(LogSegment, "_largest_timestamp", slow)
    log.truncate_to(27)
    assert found == [before]
    assert log.segments[5].max_timestamp.offset <= 27


def test_a_segment_that_went_while_it_was_asked_for(log: PartitionLog) -> None:
    """The read fails, and does not fall back to the first remaining segment."""
    before = log.offsets()
    log.maybe_increment_log_start_offset(10)
    log.delete_old_segments()
    with pytest.raises(OffsetOutOfRangeError) as caught:
        read_segments(log._state.segments, before, LogReadRequest(start_offset=7, max_bytes=100), log.directory)
    assert caught.value.offset == 7


@pytest.mark.parametrize("change", ["retention", "truncation", "begin anew"])
def test_beside_a_thread_that_changes_the_log(harness: LogHarness, change: str) -> None:
    """Every read returns complete consecutive batches below the high watermark, or fails as out of range."""
    log = harness.open(segment_bytes=5 * RECORD_BYTES, index_interval_bytes=RECORD_BYTES - 1)
    harness.add(log, 30)
    failures: list[object] = []
    done = threading.Event()

    def look(seed: int) -> None:
        choose = random.Random(seed)
        while not done.is_set():
            try:
                offsets = log.offsets()
                if not offsets.is_whole:
                    failures.append(offsets)
                start = choose.randint(offsets.log_start, offsets.log_end.message_offset)
                found = read(log, start, choose.choice(ISOLATIONS))
                if found and found != list(range(start, start + len(found))):
                    failures.append((start, found))
                log.offset_for_timestamp(NOW)
                log.list_offset(OffsetSpec.MAX_TIMESTAMP, choose.choice(ISOLATIONS))
            except OffsetOutOfRangeError:
                continue
            except BaseException as error:
                failures.append(error)

    choose = random.Random(change)
    threads = [threading.Thread(target=look, args=(seed,)) for seed in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        for _ in range(12):
            for _ in range(12):
                log.append_as_leader(bytearray(plain(0, 1, timestamp=NOW + choose.randint(0, 9))), leader_epoch=0)
            log.update_high_watermark(log.end_offset - choose.randint(0, 5))
            if change == "retention":
                log.maybe_increment_log_start_offset(max(log.log_start_offset, log.high_watermark - 10))
                log.delete_old_segments()
            elif change == "truncation":
                log.truncate_to(log.end_offset - choose.randint(1, 14))
            else:
                log.truncate_fully_and_start_at(choose.choice([log.end_offset, log.log_start_offset]))
    finally:
        done.set()
        sys.setswitchinterval(interval)
        for thread in threads:
            thread.join()
    assert failures == []
