"""A segment as its writer uses it: appended to, read, truncated, flushed, renamed, and opened again."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from log_maker import BASE_TIME, batch, plain, write_segment
from tidelog.kernel import Stop, scan_batches
from tidelog.model import CorruptRecordError, StorageError
from tidelog.storage.fs import LOCAL, File, LocalFileSystem, read_whole
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.index import AbortedTxn, OffsetIndexReader, TimeIndexReader
from tidelog.storage.segment.file_names import FileKind, FileState
from tidelog.storage.segment.limits import SegmentLimits
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import SegmentReader
from tidelog.storage.segment.segment_recovery import rebuild_segment, walk_segment

BASE = 1000
NOW = BASE_TIME + 5
Make = Callable[..., LogSegment]


def limits(**changes: int) -> SegmentLimits:
    values: dict[str, Any] = {
        "segment_bytes": 1 << 20,
        "max_segment_ms": 10_000,
        "jitter_below_ms": 0,
        "segment_index_bytes": 1200,
        "index_interval_bytes": 0,
    }
    return SegmentLimits(**(values | changes))


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def create(fs: LocalFileSystem = LOCAL, base: int = BASE, **changes: int) -> LogSegment:
        return LogSegment.create(fs, tmp_path, base, limits(**changes), now_ms=NOW)

    return create


def put(segment: LogSegment, *batches: bytes) -> int:
    data = b"".join(batches)
    return segment.append(data, scan_batches(data))


def fill(segment: LogSegment, batches: int = 10, records: int = 10) -> list[bytes]:
    made = [plain(segment.base_offset + records * number, records) for number in range(batches)]
    for content in made:
        put(segment, content)
    return made


def read_positions(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record where each later read of a file begins, in the returned list."""
    positions: list[int] = []

    def watch(name: str) -> None:
        read = getattr(LocalFile, name)

        def watched(file: LocalFile, wanted: Any, position: int) -> Any:
            positions.append(position)
            return read(file, wanted, position)

        monkeypatch.setattr(LocalFile, name, watched)

    watch("pread")
    watch("pread_into")
    return positions


def on_disk(segment: LogSegment, kind: FileKind) -> bytes:
    return read_whole(LOCAL, segment.path_of(kind))


class TestAppend:
    def test_the_position_of_each(self, make: Make) -> None:
        segment = make()
        first, second = plain(BASE), plain(BASE + 10, 3)
        assert put(segment, first) == 0
        assert put(segment, second, plain(BASE + 13)) == len(first)
        assert segment.size == len(first) + len(second) + len(first)
        assert on_disk(segment, FileKind.LOG) == first + second + plain(BASE + 13)

    @pytest.mark.parametrize("base_offset", [BASE - 10, BASE + 2**31, BASE + 2**31 - 5])
    def test_offsets_lie_within_31_bits_above_the_base(self, make: Make, base_offset: int) -> None:
        segment = make()
        with pytest.raises(StorageError, match="31 bits") as caught:
            put(segment, plain(base_offset))
        assert caught.value.offset in (base_offset, base_offset + 9)
        assert segment.size == 0
        assert segment.can_hold(BASE + 2**31 - 1)
        assert not segment.can_hold(BASE + 2**31)
        put(segment, plain(BASE + 2**31 - 10))

    def test_the_largest_timestamp_and_its_batch(self, make: Make) -> None:
        """The offset is the last one of the first batch with the largest timestamp."""
        segment = make()
        assert segment.max_timestamp == (-1, BASE)
        put(segment, batch(BASE, [b"a", b"b"], timestamp=50), batch(BASE + 2, [b"c", b"d"], timestamp=50))
        assert segment.max_timestamp == (51, BASE + 1)
        put(segment, batch(BASE + 4, [b"e"], timestamp=40))
        assert segment.max_timestamp == (51, BASE + 1)

    def test_timestamps_that_fall_are_not_indexed(self, make: Make) -> None:
        """The second of three timestamps gets no entry. The first batch of a segment has no offset entry."""
        segment = make()
        put(segment, *(batch(BASE + number, [b"a"], timestamp=when) for number, when in enumerate((1, 0, 2))))
        offsets = [segment.offset_index.entry(number).offset for number in range(segment.offset_index.entries)]
        times = [segment.time_index.entry(number) for number in range(segment.time_index.entries)]
        assert offsets == [BASE + 1, BASE + 2]
        assert times == [(1, BASE), (2, BASE + 2)]

    def test_the_largest_timestamp_beside_appends(self, make: Make, tmp_path: Path) -> None:
        """Threads that read at once get a timestamp with its own offset, also from a segment that was just opened."""
        first = make()
        fill(first, 2)
        first.close()
        expected = (BASE_TIME + BASE + 19, BASE + 19)
        for _ in range(5):
            segment = LogSegment(LOCAL, tmp_path, BASE, limits(), now_ms=NOW)
            with ThreadPoolExecutor(8) as pool:
                assert set(pool.map(lambda _, one=segment: one.max_timestamp, range(16))) == {expected}
            segment.close_handlers()
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for turn in range(10):
                segment = LogSegment(LOCAL, tmp_path, BASE, limits(segment_index_bytes=1 << 16), now_ms=NOW)
                segment.grow_indexes()
                with ThreadPoolExecutor(1) as pool:
                    seen = pool.submit(_max_timestamps, segment)
                    for number in range(2 + 20 * turn, 22 + 20 * turn):
                        put(segment, plain(BASE + 10 * number))
                    assert all(when - at == BASE_TIME for when, at in seen.result())
                segment.close()
        finally:
            sys.setswitchinterval(interval)

    @pytest.mark.parametrize("at_once", [True, False])
    def test_an_entry_once_more_than_the_interval_was_written(self, make: Make, at_once: bool) -> None:
        segment = make(index_interval_bytes=2 * len(plain(0)))
        batches = [plain(BASE + 10 * number) for number in range(8)]
        for group in [batches] if at_once else [[content] for content in batches]:
            put(segment, *group)
        size = len(batches[0])
        entries = [segment.offset_index.entry(number) for number in range(segment.offset_index.entries)]
        assert entries == [(BASE + 39, 3 * size), (BASE + 69, 6 * size)]

    def test_one_batch_without_a_table_leaves_the_same_files(self, make: Make) -> None:
        one, other = make(base=0, index_interval_bytes=500), make(base=10_000, index_interval_bytes=500)
        for number in range(40):
            content = plain(10 * number, timestamp=BASE_TIME + number % 7)
            one.append_one(content, len(content), 10 * number + 9, BASE_TIME + number % 7 + 9)
            put(other, plain(10_000 + 10 * number, timestamp=BASE_TIME + number % 7))
        for segment in (one, other):
            segment.close()
        for kind in (FileKind.INDEX, FileKind.TIME_INDEX):
            assert on_disk(one, kind) == on_disk(other, kind) != b""

    def test_one_batch_without_a_table_gets_an_entry_once_more_than_the_interval_was_written(self, make: Make) -> None:
        size = len(plain(BASE))
        segment = make(index_interval_bytes=2 * size)
        for number in range(8):
            content = plain(BASE + 10 * number)
            segment.append_one(content, size, BASE + 10 * number + 9, BASE_TIME)
        entries = [segment.offset_index.entry(number) for number in range(segment.offset_index.entries)]
        assert entries == [(BASE + 39, 3 * size), (BASE + 69, 6 * size)]

    @pytest.mark.parametrize("alone", [False, True], ids=["batches with their table", "one batch without a table"])
    def test_a_write_that_fails_leaves_nothing(self, make: Make, monkeypatch: pytest.MonkeyPatch, alone: bool) -> None:
        """The disk is full after 20 bytes. Both ways of appending remove these bytes before they raise."""
        segment = make()
        fill(segment, 2)
        before, content = on_disk(segment, FileKind.LOG), plain(BASE + 20)

        def half(file: Any, data: Any, position: int) -> int:
            write(file, bytes(data)[:20], position)
            raise StorageError("no space left on the disk")

        def add() -> None:
            if alone:
                segment.append_one(content, len(content), BASE + 29, BASE_TIME)
            else:
                put(segment, content)

        write = type(segment._file).pwrite
        with monkeypatch.context() as full:
            full.setattr(type(segment._file), "pwrite", half)
            with pytest.raises(StorageError, match="no space"):
                add()
        assert on_disk(segment, FileKind.LOG) == before
        assert (segment.size, segment.offset_index.entries) == (len(before), 1)
        add()
        assert on_disk(segment, FileKind.LOG) == before + content


class TestRead:
    def test_an_empty_segment(self, make: Make) -> None:
        assert make().read(BASE, max_bytes=300) is None

    def test_below_the_first_offset(self, make: Make) -> None:
        """The read begins at the first batch at or above the offset, as after a compaction."""
        segment = make()
        put(segment, plain(BASE + 50))
        found = segment.read(BASE + 41, max_bytes=1 << 20)
        assert found is not None
        assert found.data() == plain(BASE + 50)
        assert found.start.message_offset == BASE + 41
        assert found.start.segment_base_offset == BASE
        assert found.start.position_in_segment == 0

    def test_the_middle_of_a_batch_gives_the_batch(self, make: Make) -> None:
        segment = make()
        batches = fill(segment)
        found = segment.read(BASE + 25, max_bytes=1 << 20)
        assert found is not None
        assert found.data() == b"".join(batches[2:])

    def test_a_look_up_begins_at_the_index_entry_below(self, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each batch but the first has an entry, so a lookup begins at its batch or at the batch before it."""
        segment = make()
        one = len(fill(segment)[0])
        positions = read_positions(monkeypatch)
        for number in range(10):
            for offset in (BASE + 10 * number, BASE + 10 * number + 9):
                positions.clear()
                found = segment.translate_offset(offset)
                assert found is not None
                assert found.position == number * one
                is_indexed = number > 0 and offset == BASE + 10 * number + 9
                assert positions == [number * one if is_indexed else max(0, number - 1) * one]

    def test_a_gap_gives_what_follows(self, make: Make) -> None:
        segment = make()
        put(segment, plain(BASE), plain(BASE + 60))
        found = segment.read(BASE + 15, max_bytes=1 << 20)
        assert found is not None
        assert found.data() == plain(BASE + 60)

    def test_past_the_end(self, make: Make) -> None:
        segment = make()
        fill(segment)
        assert segment.read(BASE + 100, max_bytes=1 << 20) is None

    def test_a_negative_size(self, make: Make) -> None:
        with pytest.raises(ValueError, match="max_bytes is -1"):
            make().read(BASE, max_bytes=-1)

    @pytest.mark.parametrize(
        ("max_bytes", "min_one_message", "size", "incomplete"),
        [
            (0, False, 0, False),
            (0, True, "batch", False),
            (20, False, 20, True),
            (20, True, "batch", False),
            ("batch", False, "batch", False),
        ],
    )
    def test_how_much(
        self, make: Make, max_bytes: int | str, min_one_message: bool, size: int | str, incomplete: bool
    ) -> None:
        """The result reports an incomplete first batch. ``min_one_message`` may raise the size to that batch's."""
        segment = make()
        one = len(fill(segment)[0])
        number = one if isinstance(max_bytes, str) else max_bytes
        found = segment.read(BASE + 30, max_bytes=number, min_one_message=min_one_message)
        assert found is not None
        assert (found.size, found.first_entry_incomplete) == (one if isinstance(size, str) else size, incomplete)
        assert found.start.position_in_segment == 3 * one
        assert len(found.data()) == found.size

    def test_bounded_by_a_position(self, make: Make) -> None:
        segment = make()
        one = len(fill(segment)[0])
        for position, size in ((5 * one, 2 * one), (3 * one, 0), (one, 0), (99 * one, 7 * one)):
            found = segment.read(BASE + 30, max_bytes=1 << 20, max_position=position)
            assert found is not None
            assert found.size == size

    def test_the_next_offset(self, make: Make) -> None:
        segment = make()
        assert segment.read_next_offset() == BASE
        fill(segment)
        assert segment.read_next_offset() == BASE + 100

    def test_the_next_offset_is_looked_for_from_the_last_index_entry_on(
        self, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        segment = make()
        one = len(fill(segment)[0])
        positions = read_positions(monkeypatch)
        assert segment.read_next_offset() == BASE + 100
        assert min(positions) == 9 * one

    def test_a_search_by_time_begins_at_or_before(self, make: Make) -> None:
        segment = make()
        batches = fill(segment)
        one = len(batches[0])
        for record in range(100):
            position = segment.position_of_timestamp(BASE_TIME + BASE + record, BASE)
            assert position <= one * (record // 10)
            assert position >= one * (record // 10 - 2)
        assert segment.position_of_timestamp(0, BASE + 75) == 6 * one


class TestTruncate:
    @pytest.mark.parametrize("seed", range(5))
    def test_as_a_list_of_batches(self, make: Make, seed: int) -> None:
        """Truncations and appends at random leave the same segment as appending only the remaining batches."""
        choose = random.Random(seed)
        segment = make(index_interval_bytes=300)
        model: list[bytes] = []
        ends: list[int] = []
        for _ in range(60):
            end = ends[-1] if ends else BASE
            if choose.random() < 0.75:
                content = plain(end + choose.randrange(3), choose.randrange(1, 9), timestamp=BASE_TIME + len(model))
                put(segment, content)
                model.append(content)
                ends.append(int(scan_batches(content).last_offset[0]) + 1)
            else:
                offset = choose.randrange(max(BASE, end - 30), end + 5)
                kept = sum(1 for at in ends if at <= offset)
                cut = segment.truncate_to(offset)
                assert cut == sum(map(len, model[kept:]))
                del model[kept:], ends[kept:]
            assert segment.size == sum(map(len, model))
            assert segment.read_next_offset() == (ends[-1] if ends else BASE)
            largest = max((int(scan_batches(content).max_timestamp[0]) for content in model), default=-1)
            assert segment.max_timestamp.timestamp == largest
        segment.close()
        assert on_disk(segment, FileKind.LOG) == b"".join(model)

    def test_an_empty_segment_may_begin_again(self, make: Make) -> None:
        segment = make()
        put(segment, plain(BASE))
        segment.truncate_to(BASE)
        assert (segment.size, segment.offset_index.entries, segment.time_index.entries) == (0, 0, 0)
        assert segment.roll_timestamp is None
        assert segment.offset_index.length == 1200
        put(segment, plain(BASE, timestamp=7))
        assert segment.roll_timestamp == 16

    def test_an_empty_segment_gets_room_again(self, make: Make) -> None:
        segment = make()
        segment.on_become_inactive()
        assert (segment.offset_index.length, segment.time_index.length) == (0, 0)
        assert segment.truncate_to(BASE) == 0
        assert (segment.offset_index.length, segment.time_index.length) == (1200, 1200)
        put(segment, plain(BASE), plain(BASE + 10))
        assert segment.offset_index.entries == 1

    def test_an_offset_in_a_gap(self, make: Make) -> None:
        segment = make()
        put(segment, plain(BASE), plain(BASE + 60))
        segment.truncate_to(BASE + 30)
        assert on_disk(segment, FileKind.LOG) == plain(BASE)


class TestPreallocated:
    ROOM = 1 << 20

    def log_size(self, segment: LogSegment) -> int:
        return segment.path.stat().st_size

    def test_zeros_stand_behind_the_batches_until_the_segment_is_no_longer_active(self, make: Make) -> None:
        segment = make(preallocate=True)
        assert (segment.size, self.log_size(segment)) == (0, self.ROOM)
        batches = fill(segment)
        assert (segment.size, self.log_size(segment)) == (sum(map(len, batches)), self.ROOM)
        segment.on_become_inactive()
        assert on_disk(segment, FileKind.LOG) == b"".join(batches)

    @pytest.mark.parametrize("batches", [0, 10])
    def test_an_orderly_close_trims(self, make: Make, batches: int) -> None:
        segment = make(preallocate=True)
        written = fill(segment, batches)
        segment.close()
        segment.close()
        assert on_disk(segment, FileKind.LOG) == b"".join(written)

    def test_nothing_is_read_behind_the_batches(self, make: Make) -> None:
        segment = make(preallocate=True)
        assert segment.read(BASE, max_bytes=self.ROOM) is None
        assert segment.read_next_offset() == BASE
        fill(segment)
        found = segment.read(BASE, max_bytes=self.ROOM)
        assert found is not None
        assert found.size == segment.size
        assert segment.read_next_offset() == BASE + 100
        assert segment.read(BASE + 100, max_bytes=self.ROOM) is None
        with SegmentReader(LOCAL, segment.path.parent, BASE) as reader:  # as an independent reader finds it
            table = reader.table()
        assert (len(table), table.end_position, table.stop) == (10, segment.size, Stop.BAD_SIZE)

    def test_what_a_kill_leaves_is_recovered_to_the_batches(self, make: Make, tmp_path: Path) -> None:
        segment = make(preallocate=True)
        batches = fill(segment)
        segment.close_handlers()
        assert self.log_size(segment) == self.ROOM
        result = recovered(tmp_path)
        assert (result.end_offset, result.size) == (BASE + 100, sum(map(len, batches)))
        assert on_disk(segment, FileKind.LOG) == b"".join(batches)

    def test_opened_again_it_grows_as_it_is_written(self, make: Make, tmp_path: Path) -> None:
        """Only a new file and a file without batches are preallocated, as in Kafka."""
        segment = make(preallocate=True)
        fill(segment)
        size = segment.size
        segment.close()
        again = LogSegment(LOCAL, tmp_path, BASE, limits(preallocate=True), now_ms=NOW)
        again.grow_indexes()
        assert self.log_size(again) == again.size == size
        put(again, plain(BASE + 100))
        assert self.log_size(again) == again.size > size
        again.close()

    def test_cut_it_begins_again_behind_what_is_left(self, make: Make) -> None:
        segment = make(preallocate=True)
        batches = fill(segment)
        segment.truncate_to(BASE + 50)
        assert segment.size == sum(map(len, batches[:5]))
        put(segment, batches[5])
        segment.close()
        assert on_disk(segment, FileKind.LOG) == b"".join(batches[:6])


class TestRollByTime:
    def test_from_the_first_batch(self, make: Make) -> None:
        """The first append sets the roll timestamp, and later appends do not change it."""
        segment = make()
        before = segment.roll_timestamp
        assert before is None
        put(segment, batch(BASE, [b"a", b"b"], timestamp=500))
        put(segment, batch(BASE + 2, [b"c"], timestamp=100))
        assert segment.roll_timestamp == 501
        assert segment.has_room_for(100, BASE + 3, 501 + 10_000, NOW)
        assert not segment.has_room_for(100, BASE + 3, 501 + 10_001, NOW)

    def test_after_opening_it_again(self, make: Make, tmp_path: Path) -> None:
        segment = make()
        put(segment, batch(BASE, [b"a"], timestamp=500), batch(BASE + 1, [b"b"], timestamp=100))
        segment.close()
        assert LogSegment(LOCAL, tmp_path, BASE, limits(), now_ms=NOW).roll_timestamp == 500

    def test_by_the_clock_without_timestamps(self, make: Make) -> None:
        segment = make()
        put(segment, batch(BASE, [b"a"], timestamp=-1))
        assert segment.has_room_for(100, BASE + 1, -1, NOW + 10_000)
        assert not segment.has_room_for(100, BASE + 1, -1, NOW + 10_001)

    def test_jitter_comes_off(self, make: Make) -> None:
        jitters = {make(jitter_below_ms=500).roll_jitter_ms for _ in range(40)}
        assert len(jitters) > 1
        assert 0 <= min(jitters) <= max(jitters) < 500
        assert make().roll_jitter_ms == make(jitter_below_ms=1).roll_jitter_ms == 0

    def test_room(self, make: Make) -> None:
        segment = make(segment_bytes=1000, segment_index_bytes=24, index_interval_bytes=0)
        one = len(plain(BASE))
        put(segment, plain(BASE))
        assert segment.has_room_for(1000 - one, BASE + 19, BASE_TIME, NOW)
        assert not segment.has_room_for(1001 - one, BASE + 19, BASE_TIME, NOW)
        assert not segment.has_room_for(10, BASE + 2**31, BASE_TIME, NOW)
        put(segment, plain(BASE + 10))
        assert segment.time_index.is_full, "one slot is kept"
        assert not segment.has_room_for(10, BASE + 20, BASE_TIME, NOW)


class TestEnd:
    def test_indexes_are_trimmed_and_the_last_timestamp_is_entered(self, make: Make) -> None:
        segment = make(index_interval_bytes=1 << 20)
        fill(segment)
        assert segment.path_of(FileKind.INDEX).stat().st_size == 1200
        segment.on_become_inactive()
        assert on_disk(segment, FileKind.INDEX) == b""
        timestamps, offsets = TimeIndexReader(on_disk(segment, FileKind.TIME_INDEX), BASE).entries()
        assert (timestamps.tolist(), offsets.tolist()) == ([BASE_TIME + BASE + 99], [BASE + 99])
        segment.close()
        segment.close()

    @pytest.mark.parametrize("end", ["on_become_inactive", "close"])
    def test_a_preallocated_log_is_cut(self, make: Make, end: str) -> None:
        """A roll or a close truncates the file. Until then reads and sizes ignore its preallocated end."""
        segment = make(segment_bytes=5000, preallocate=1)
        content = b"".join(fill(segment))
        assert on_disk(segment, FileKind.LOG) == content + bytes(5000 - len(content))
        assert segment.size == len(content)
        found = segment.read(BASE, max_bytes=1 << 20)
        assert found is not None
        assert found.data() == content
        getattr(segment, end)()
        assert on_disk(segment, FileKind.LOG) == content

    def test_log_first_then_indexes(self, make: Make) -> None:
        synced: list[str] = []

        class Watching(LocalFileSystem):
            def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:  # type: ignore[override]
                file = super().open(path, write=write, create=create)
                inner = file.sync

                def sync() -> None:
                    synced.append(path.suffix)
                    inner()

                return _Watched(file, sync)

        segment = make(Watching())
        fill(segment)
        segment.flush()
        assert synced == [".log", ".index", ".timeindex"]

    def test_suffixes(self, make: Make, tmp_path: Path) -> None:
        segment = make()
        batches = fill(segment)
        aborted = AbortedTxn(1, BASE, BASE + 1, BASE + 2)
        segment.append_aborted(aborted)
        segment.change_state(FileState.DELETED)
        assert {path.name for path in tmp_path.iterdir()} == {
            f"{BASE:020d}.{kind}.deleted" for kind in ("log", "index", "timeindex", "txnindex")
        }
        assert segment.collect_aborted(BASE, BASE + 2).transactions == [aborted]
        assert b"".join(chunk.buffer for chunk in segment.chunks(0, verify_crc=True)) == b"".join(batches)
        segment.delete()
        assert list(tmp_path.iterdir()) == []

    def test_what_is_gone_already_is_no_error(self, make: Make, tmp_path: Path) -> None:
        segment = make()
        fill(segment)
        segment.path_of(FileKind.TIME_INDEX).unlink()
        segment.delete()
        segment.delete()
        assert list(tmp_path.iterdir()) == []

    def test_a_directory_that_was_renamed(self, tmp_path: Path) -> None:
        (tmp_path / "t-0").mkdir()
        segment = LogSegment.create(LOCAL, tmp_path / "t-0", BASE, limits(), now_ms=NOW)
        batches = fill(segment)
        segment.append_aborted(AbortedTxn(7, BASE, BASE + 50, BASE))
        (tmp_path / "t-0").rename(tmp_path / "t-0.1-delete")
        segment.set_directory(tmp_path / "t-0.1-delete")
        put(segment, plain(BASE + 100))
        segment.append_aborted(AbortedTxn(7, BASE + 60, BASE + 70, BASE))
        assert segment.truncate_to(BASE + 50) == sum(map(len, batches[5:])) + len(plain(BASE))
        segment.flush()
        segment.close()
        assert not (tmp_path / "t-0").exists()
        assert {path.suffix for path in (tmp_path / "t-0.1-delete").iterdir()} == {
            ".log",
            ".index",
            ".timeindex",
            ".txnindex",
        }
        for kind in FileKind:
            assert kind is FileKind.SNAPSHOT or segment.path_of(kind).parent.name == "t-0.1-delete"
        assert on_disk(segment, FileKind.LOG) == b"".join(batches[:5])

    def test_left_overs_of_the_same_name_are_replaced(self, make: Make, tmp_path: Path) -> None:
        write_segment(tmp_path, BASE, [plain(BASE)])
        segment = make()
        assert segment.size == 0
        assert segment.read_next_offset() == BASE


class _Watched:
    def __init__(self, file: File, sync: Callable[[], None]) -> None:
        self._file = file
        self.sync = sync

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def _max_timestamps(segment: LogSegment) -> list[tuple[int, int]]:
    return [segment.max_timestamp for _ in range(1_000)]


def recovered(directory: Path) -> Any:
    walk = walk_segment(LOCAL, directory, BASE, index_interval_bytes=0, on_batches=lambda reader, table: None)
    return rebuild_segment(LOCAL, directory, walk, ())


class TestRecover:
    BATCHES: Sequence[bytes] = [plain(BASE + 10 * number) for number in range(10)]

    def test_indexes_come_back(self, tmp_path: Path) -> None:
        log = write_segment(tmp_path, BASE, self.BATCHES)
        wanted = {suffix: log.with_suffix(suffix).read_bytes() for suffix in (".index", ".timeindex")}
        harms: list[Callable[[Path], object]] = [
            lambda path: path.unlink(),
            lambda path: path.write_bytes(random.Random(1).randbytes(400)),
        ]
        for harm in harms:
            for suffix in wanted:
                harm(log.with_suffix(suffix))
            result = recovered(tmp_path)
            assert {suffix: log.with_suffix(suffix).read_bytes() for suffix in wanted} == wanted
            assert (result.end_offset, result.truncated_bytes, result.batches) == (BASE + 100, 0, 10)
        assert not log.with_suffix(".txnindex").exists()

    @pytest.mark.parametrize("number", range(10))
    def test_what_follows_a_damaged_batch_is_cut(self, tmp_path: Path, number: int) -> None:
        """Recovery truncates at a wrong byte in a record, at half a batch, and at an impossible length."""
        one = len(self.BATCHES[0])
        whole = b"".join(self.BATCHES)
        for damaged in (
            whole[: one * number + 80] + b"\xff" + whole[one * number + 81 :],
            whole[: one * number + one // 2],
            whole[: one * number + 8] + b"\x7f" + whole[one * number + 9 :],
        ):
            log = write_segment(tmp_path, BASE, self.BATCHES)
            log.write_bytes(damaged)
            result = recovered(tmp_path)
            assert log.read_bytes() == whole[: one * number]
            assert (result.end_offset, result.truncated_bytes) == (BASE + 10 * number, len(damaged) - one * number)
            last = OffsetIndexReader(log.with_suffix(".index").read_bytes(), BASE).entries()[0].tolist()
            assert last == [BASE + 10 * at + 9 for at in range(1, number)]

    def test_an_offset_out_of_reach(self, tmp_path: Path) -> None:
        log = write_segment(tmp_path, BASE, self.BATCHES)
        log.write_bytes(log.read_bytes() + plain(BASE + 2**31))
        with pytest.raises(StorageError, match="31 bits") as caught:
            recovered(tmp_path)
        assert caught.value.position == sum(map(len, self.BATCHES))
        assert not isinstance(caught.value, CorruptRecordError)

    def test_offsets_that_fall_empty_the_segment(self, tmp_path: Path) -> None:
        log = write_segment(tmp_path, BASE, self.BATCHES)
        log.write_bytes(log.read_bytes() + plain(BASE + 10))
        result = recovered(tmp_path)
        assert result.emptied
        assert (result.end_offset, result.size) == (BASE, 0)
        assert log.read_bytes() == log.with_suffix(".index").read_bytes() == b""
