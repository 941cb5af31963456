"""A partition log as its owner uses it: appends, rolls, isolation levels, flushes, failures, loading again."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from log_maker import BASE_TIME, batch, data, marker, plain
from tidelog.kernel import scan_batches
from tidelog.model import (
    ClosedError,
    CorruptRecordError,
    InvalidRecordError,
    Isolation,
    OffsetOutOfRangeError,
    Record,
    RecordBatchTooLargeError,
    RecordTooLargeError,
    StorageError,
    TimestampType,
)
from tidelog.record.build import build_batch
from tidelog.record.rows import columns_from_lists
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.fs import LOCAL
from tidelog.storage.fs.local_file import LocalFile
from tidelog.storage.index import AbortedTxn, TimeIndexWriter, TransactionIndexReader
from tidelog.storage.log.partition_log import LogReadRequest, OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.testing import ManualClock

NOW = BASE_TIME + 1_000_000
Open = Callable[..., PartitionLog]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def open_log(tmp_path: Path, clock: ManualClock) -> Iterator[Open]:
    opened: list[PartitionLog] = []

    def make(*, clean: bool = True, recovery_point: int = 0, log_start: int = 0, **config: Any) -> PartitionLog:
        request = OpenRequest(
            fs=LOCAL,
            directory=tmp_path / "t-0",
            clock=clock,
            config=LogConfig(**({"segment_index_bytes": 4096} | config)),
            clean_shutdown=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start,
        )
        opened.append(PartitionLog.open(request))
        return opened[-1]

    yield make
    for log in opened:
        log.close()


def add(log: PartitionLog, content: bytes) -> range:
    return log.append(bytearray(content))


def read(log: PartitionLog, start: int, isolation: Isolation = Isolation.LOG_END, **limits: Any) -> list[int]:
    """Return the base offsets of the batches that one read returns."""
    found = log.read(LogReadRequest(start_offset=start, isolation=isolation, **({"max_bytes": 1 << 20} | limits)))
    table = scan_batches(found.data())
    found_offsets: list[int] = table.base_offset.tolist()
    return found_offsets


def read_all(log: PartitionLog) -> list[int]:
    end = log.end_offset
    offset, found = log.log_start_offset, []
    while offset < end:
        table = scan_batches(log.read(LogReadRequest(start_offset=offset, max_bytes=1 << 20)).data())
        assert table.crc_ok.all()
        found += table.base_offset.tolist()
        offset = int(table.last_offset[-1]) + 1
    return found


class TestOffsets:
    def test_a_new_log(self, open_log: Open, tmp_path: Path) -> None:
        log = open_log()
        offsets = log.offsets()
        assert (offsets.log_start, offsets.last_stable.message_offset, offsets.log_end.message_offset) == (0, 0, 0)
        assert offsets.high_watermark == offsets.log_end
        assert (offsets.log_end.segment_base_offset, offsets.log_end.position_in_segment) == (0, 0)
        assert {path.suffix for path in (tmp_path / "t-0").glob("0*")} == {".log", ".index", ".timeindex"}

    def test_an_empty_directory_begins_at_the_log_start(self, open_log: Open) -> None:
        log = open_log(log_start=500)
        assert log.base_offsets == [500]
        assert add(log, plain(0, 3)) == range(500, 503)

    def test_whatever_the_batches_say_offsets_go_on(self, open_log: Open) -> None:
        log = open_log()
        assert add(log, plain(0, 4)) == range(4)
        assert add(log, plain(99, 2)) == range(4, 6)
        assert add(log, plain(0, 1) + plain(0, 5)) == range(6, 12)
        assert read_all(log) == [0, 4, 6, 7]

    def test_a_snapshot_stays_as_it_was(self, open_log: Open) -> None:
        log = open_log()
        add(log, plain(0, 4))
        before = log.offsets()
        add(log, plain(0, 4))
        assert before.log_end.message_offset == 4
        assert log.offsets().log_end.message_offset == 8

    def test_the_leader_epoch_is_stamped_and_noted(self, open_log: Open, tmp_path: Path) -> None:
        log = open_log()
        add(log, plain(0, 4))
        add(log, plain(0, 4) + plain(0, 4))
        log.close()
        assert (tmp_path / "t-0" / LEADER_EPOCH_CHECKPOINT).read_text() == "0\n1\n0 0\n"
        table = scan_batches((tmp_path / "t-0" / f"{0:020d}.log").read_bytes())
        assert set(table.leader_epoch.tolist()) == {0}
        assert table.crc_ok.all()


class TestAppend:
    def test_nothing_is_nothing(self, open_log: Open) -> None:
        log = open_log()
        assert add(log, b"") == range(0)
        assert log.offsets().log_end.message_offset == 0

    @pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
    def test_batches_from_elsewhere_are_checked(self, open_log: Open, codec: str) -> None:
        log = open_log(cleanup_policy=frozenset({"compact"}))
        keyed = columns_from_lists([b"a", b"b"], keys=[b"1", b"2"], default_timestamp_ms=NOW)
        keyless = columns_from_lists([b"a", b"b"], keys=[b"1", None], default_timestamp_ms=NOW)
        assert log.append(build_batch(keyed, codec=codec)) == range(2)
        with pytest.raises(InvalidRecordError, match="key"):
            log.append(build_batch(keyless, codec=codec))
        assert log.end_offset == 2

    def test_damage_is_refused_whole(self, open_log: Open) -> None:
        log = open_log()
        good = plain(0, 4)
        for bad in (good[:-1], good[:70] + b"?" + good[71:], b"\0" * 100, good[:10]):
            with pytest.raises(CorruptRecordError):
                add(log, bad)
            with pytest.raises(CorruptRecordError):
                add(log, good + bad)
        assert log.end_offset == 0
        assert add(log, good) == range(4)

    def test_a_batch_above_the_largest_message(self, open_log: Open) -> None:
        log = open_log(max_message_bytes=len(plain(0, 4)))
        assert add(log, plain(0, 4)) == range(4)
        with pytest.raises(RecordTooLargeError) as caught:
            add(log, plain(0, 5))
        assert caught.value.code == 10

    def test_a_batch_above_a_segment(self, open_log: Open) -> None:
        log = open_log(segment_bytes=len(plain(0, 4)))
        assert add(log, plain(0, 4) + plain(0, 4)) == range(8)
        assert log.base_offsets == [0, 4]
        with pytest.raises(RecordBatchTooLargeError) as caught:
            add(log, plain(0, 5))
        assert caught.value.code == 18

    def test_timestamps_too_far_off(self, open_log: Open) -> None:
        log = open_log(message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=1000)
        for timestamp in (NOW - 1001, NOW + 1001):
            with pytest.raises(InvalidRecordError, match="timestamp"):
                add(log, batch(0, [b"x"], timestamp=timestamp))
        assert add(log, batch(0, [b"x"], timestamp=NOW - 1000) + batch(0, [b"x"], timestamp=NOW + 1000)) == range(2)

    def test_the_log_sets_the_time(self, open_log: Open, clock: ManualClock) -> None:
        log = open_log(message_timestamp_type="LogAppendTime")
        add(log, plain(0, 4))
        table = scan_batches(log.read(LogReadRequest(start_offset=0, max_bytes=1 << 20)).data())
        assert table.max_timestamp.tolist() == [clock.now]
        assert table.is_log_append.all()
        assert table.crc_ok.all()

    def test_a_failed_write_ends_appending_and_not_reading(
        self, open_log: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = open_log()
        add(log, plain(0, 4))
        add(log, plain(0, 4))
        pwrite = LocalFile.pwrite

        def full(file: LocalFile, data: bytes, position: int) -> int:
            if file.path.parent != log.directory:
                return pwrite(file, data, position)
            raise StorageError("no space left on the disk")

        monkeypatch.setattr(LocalFile, "pwrite", full)
        with pytest.raises(StorageError, match="no space"):
            add(log, plain(0, 4))
        monkeypatch.undo()
        assert not log.is_healthy
        with pytest.raises(StorageError, match="refuses writes because an earlier one failed: no space"):
            add(log, plain(0, 4))
        assert read_all(log) == [0, 4]
        log.close()
        again = open_log(clean=False)
        assert read_all(again) == [0, 4]
        assert add(again, plain(0, 4)) == range(8, 12)

    def test_a_roll_that_failed_half_way_is_not_flushed(self, open_log: Open, monkeypatch: pytest.MonkeyPatch) -> None:
        """No new segment exists, and the old time index is not trimmed, so the segment has to be recovered."""
        log = open_log()
        add(log, plain(0, 4))

        def full(*_: object) -> None:
            raise StorageError("no space left on the disk")

        monkeypatch.setattr(TimeIndexWriter, "trim_to_valid_size", full)
        with pytest.raises(StorageError, match="no space"):
            log.roll()
        monkeypatch.undo()
        with pytest.raises(StorageError, match="refuses writes because an earlier one failed: no space"):
            log.flush()
        assert log.recovery_point == 0
        log.close()
        again = open_log(clean=False, recovery_point=log.recovery_point)
        assert again.base_offsets == [0]
        assert again._state.segments.first.time_index.entries == 1


class TestRoll:
    def test_by_size(self, open_log: Open) -> None:
        size = len(plain(0))
        log = open_log(segment_bytes=3 * size)
        for _ in range(7):
            add(log, plain(0))
        assert log.base_offsets == [0, 30, 60]
        assert read_all(log) == list(range(0, 70, 10))

    def test_within_one_bulk_append_as_if_one_by_one(self, open_log: Open) -> None:
        log = open_log(segment_bytes=3 * len(plain(0)))
        add(log, plain(0) * 7)
        assert log.base_offsets == [0, 30, 60]

    def test_by_time(self, open_log: Open) -> None:
        """The time is counted in record timestamps, from the first batch of the segment."""
        log = open_log(segment_ms=1000)
        for timestamp in (0, 500, 1000, 1001, 1500, 2002):
            add(log, batch(0, [b"x"], timestamp=BASE_TIME + timestamp))
        assert log.base_offsets == [0, 3, 5]

    def test_jitter_leaves_time_for_a_segment(self, open_log: Open) -> None:
        """The jitter is drawn below ``segment.ms``, however large ``segment.jitter.ms`` is."""
        log = open_log(segment_ms=1000, segment_jitter_ms=7 * 24 * 3_600_000)
        for _ in range(50):
            add(log, batch(0, [b"x"], timestamp=BASE_TIME))
        assert log.base_offsets == [0]

    @pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "all at once"])
    def test_by_time_less_the_jitter(self, open_log: Open, monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
        monkeypatch.setattr("tidelog.storage.segment.segment.random.randrange", lambda end: end - 1)
        log = open_log(segment_ms=1000, segment_jitter_ms=300)
        batches = [batch(0, [b"x"], timestamp=BASE_TIME + timestamp) for timestamp in (0, 701, 702)]
        for one in [b"".join(batches)] if at_once else batches:
            add(log, one)
        assert log.base_offsets == [0, 2]

    @pytest.mark.parametrize(("policy", "base_offsets"), [
        ({"delete"}, [0, 3]),
        ({"compact"}, [0, 2, 3]),
        ({"compact", "delete"}, [0, 2, 3]),
    ])  # fmt: skip
    def test_by_the_lag_of_a_compacted_log(self, open_log: Open, policy: set[str], base_offsets: list[int]) -> None:
        """The active segment of a compacted log rolls within ``max.compaction.lag.ms`` (KIP-354)."""
        log = open_log(segment_ms=60_000, max_compaction_lag_ms=1000, cleanup_policy=frozenset(policy))
        for timestamp in (0, 1000, 1001, 61_002):
            add(log, batch(0, [b"x"], timestamp=BASE_TIME + timestamp))
        assert log.base_offsets == base_offsets

    @pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "all at once"])
    def test_by_settings_that_were_changed(self, open_log: Open, at_once: bool) -> None:
        log = open_log(segment_ms=60_000)
        add(log, batch(0, [b"x"], timestamp=BASE_TIME))
        log.update_config(replace(log.config, segment_ms=1000))
        batches = [batch(0, [b"x"], timestamp=BASE_TIME + timestamp) for timestamp in (1000, 1001, 2002)]
        for one in [b"".join(batches)] if at_once else batches:
            add(log, one)
        assert log.base_offsets == [0, 2, 3]

    def test_by_the_clock_where_records_have_no_time(self, open_log: Open, clock: ManualClock) -> None:
        log = open_log(segment_ms=1000)
        for wait in (0, 1000, 1):
            clock.now += wait
            add(log, batch(0, [b"x"], timestamp=-1))
        assert log.base_offsets == [0, 2]

    def test_when_an_index_is_full(self, open_log: Open) -> None:
        log = open_log(segment_index_bytes=36, index_interval_bytes=0)
        for _ in range(8):
            add(log, plain(0, timestamp=BASE_TIME + log.end_offset))
        assert len(log.base_offsets) > 2
        assert read_all(log) == list(range(0, 80, 10))

    def test_forced_and_not_twice(self, open_log: Open, tmp_path: Path) -> None:
        log = open_log()
        log.roll()
        assert log.base_offsets == [0], "the active segment is empty"
        add(log, plain(0))
        log.roll()
        log.roll()
        assert log.base_offsets == [0, 10]
        assert (tmp_path / "t-0" / f"{10:020d}.snapshot").exists()
        assert (tmp_path / "t-0" / f"{0:020d}.index").stat().st_size == 0, "trimmed"
        assert (tmp_path / "t-0" / f"{10:020d}.index").stat().st_size == 4096
        assert (log.offsets().log_end.segment_base_offset, log.offsets().log_end.position_in_segment) == (10, 0)


class TestRead:
    def test_one_read_stays_in_one_segment_and_goes_on_in_the_next(self, open_log: Open) -> None:
        log = open_log(segment_bytes=3 * len(plain(0)))
        add(log, plain(0) * 7)
        assert read(log, 15) == [10, 20]
        assert read(log, 30) == [30, 40, 50]
        assert read(log, 0, max_bytes=1, min_one_message=True) == [0]
        assert read(log, 0, max_bytes=1, min_one_message=False) == []

    @pytest.mark.parametrize("log_start", [20, 25], ids=["at a segment's base", "inside a segment"])
    def test_out_of_range(self, open_log: Open, log_start: int) -> None:
        """An offset below the log start is out of range, even if its segment still exists."""
        log = open_log(log_start=20)
        add(log, plain(0))
        log.maybe_increment_log_start_offset(log_start)
        assert log.base_offsets == [20]
        for start in (log_start - 1, 31, -1):
            with pytest.raises(OffsetOutOfRangeError) as caught:
                read(log, start)
            assert (caught.value.code, caught.value.offset) == (1, start)
        found = log.read(LogReadRequest(start_offset=30, max_bytes=100))
        assert found.batches is None
        assert found.data() == b""
        assert found.start == log.offsets().log_end

    def test_a_negative_size(self, open_log: Open) -> None:
        with pytest.raises(ValueError, match="max_bytes is -1"):
            read(open_log(), 0, max_bytes=-1)

    def test_committed_only(self, open_log: Open, tmp_path: Path) -> None:
        """The first producer aborts and commits, and the second stays open, so the last stable offset stops there."""
        log = open_log()
        add(log, data(0, 3, producer_id=7))
        assert log.offsets().last_stable.message_offset == 0
        add(log, marker(0, False, producer_id=7))
        assert log.offsets().last_stable.message_offset == 4
        add(log, data(0, 2, producer_id=7))
        add(log, data(0, 2, producer_id=8))
        add(log, marker(0, True, producer_id=7))
        stable = log.offsets().last_stable
        assert (stable.message_offset, stable.segment_base_offset) == (6, 0)
        assert stable.position_in_segment == sum(map(len, (data(0, 3), marker(0, False), data(0, 2)))), (
            "resolved to a position"
        )
        assert read(log, 0, Isolation.READ_COMMITTED) == [0, 3, 4]
        assert read(log, 0, Isolation.READ_UNCOMMITTED) == [0, 3, 4, 6, 8]
        found = log.read(LogReadRequest(start_offset=0, max_bytes=1 << 20, isolation=Isolation.READ_COMMITTED))
        assert found.aborted == (AbortedTxn(7, 0, 3, 4),)
        later = log.read(LogReadRequest(start_offset=4, max_bytes=1 << 20, isolation=Isolation.READ_COMMITTED))
        assert later.aborted == ()
        assert log.read(LogReadRequest(start_offset=0, max_bytes=1 << 20)).aborted is None
        past = log.read(LogReadRequest(start_offset=8, max_bytes=1 << 20, isolation=Isolation.READ_COMMITTED))
        assert past.batches is None
        assert past.start.message_offset == 8
        assert not past.start.is_offset_only
        index = TransactionIndexReader((tmp_path / "t-0" / f"{0:020d}.txnindex").read_bytes(), 0)
        assert list(index) == [AbortedTxn(7, 0, 3, 4)]

    def test_an_aborted_transaction_over_several_segments(self, open_log: Open) -> None:
        log = open_log(segment_bytes=len(data(0, 3)))
        for _ in range(4):
            add(log, data(0, 3))
        add(log, marker(0, False))
        add(log, data(0, 1, producer_id=9))
        assert len(log.base_offsets) >= 5
        for start in (0, 4, 11):
            found = log.read(LogReadRequest(start_offset=start, max_bytes=1 << 20, isolation=Isolation.READ_COMMITTED))
            assert found.aborted == (AbortedTxn(7, 0, 12, 13),)

    def test_open_transactions_come_back_when_it_is_opened_again(self, open_log: Open) -> None:
        log = open_log()
        add(log, plain(0, 5))
        add(log, data(0, 2))
        log.close()
        for clean in (True, False):
            again = open_log(clean=clean)
            assert again.offsets().last_stable.message_offset == 5
            again.close()
        again = open_log()
        add(again, marker(0, True))
        assert again.offsets().last_stable.message_offset == 8


def test_an_error_names_the_record(open_log: Open) -> None:
    log = open_log(cleanup_policy=frozenset({"compact"}))
    for number in range(3):
        records = [Record(0, BASE_TIME, TimestampType.CREATE, None if at == number else b"k", b"v") for at in range(3)]
        for codec in ("none", "lz4"):
            with pytest.raises(InvalidRecordError, match=rf"\(record {number} of its batch\)$"):
                add(log, bytes(build_batch(records, codec=codec)))
    with pytest.raises(CorruptRecordError) as caught:
        add(log, plain(0)[:-1] + b"?")
    assert "of its batch" not in str(caught.value)


class TestTimestamps:
    def test_first_at_or_after(self, open_log: Open) -> None:
        log = open_log(segment_bytes=3 * len(plain(0)))
        for number in range(9):
            add(log, plain(0, timestamp=BASE_TIME + 100 * number))
        assert log.offset_for_timestamp(0) == (BASE_TIME, 0)
        for number in range(9):
            assert log.offset_for_timestamp(BASE_TIME + 100 * number + 5) == (
                BASE_TIME + 100 * number + 5,
                10 * number + 5,
            )
            if number < 8:
                assert log.offset_for_timestamp(BASE_TIME + 100 * number + 50) == (
                    BASE_TIME + 100 * (number + 1),
                    10 * (number + 1),
                )
        assert log.offset_for_timestamp(BASE_TIME + 810) is None

    def test_a_large_record_is_an_error_only_in_a_compressed_batch_and_up_to_the_one_found(
        self, open_log: Open
    ) -> None:
        log = open_log()
        for start, codec in ((0, "none"), (100, "gzip")):
            records = [
                Record(0, BASE_TIME + start + late, TimestampType.CREATE, None, bytes(size))
                for late, size in ((0, 10), (10, 5_000), (20, 10))
            ]
            add(log, bytes(build_batch(records, codec=codec)))
        log.close()
        log = open_log(max_decompressed_message_bytes=1_000)
        for late in (0, 10, 20, 100):
            assert log.offset_for_timestamp(BASE_TIME + late) == (BASE_TIME + late, late // 10 if late < 100 else 3)
        for late in (110, 120):
            with pytest.raises(InvalidRecordError, match="the record at offset 4 is larger than 1,000 bytes"):
                log.offset_for_timestamp(BASE_TIME + late)


class TestFlushAndClose:
    def test_the_recovery_point(self, open_log: Open) -> None:
        log = open_log()
        add(log, plain(0))
        assert log.recovery_point == 0
        assert log.flush() == 10
        assert log.recovery_point == 10

    @pytest.mark.parametrize(
        ("flush_messages", "recovery_points"), [(25, (0, 0, 30, 30, 30, 60)), (20, (0, 20, 20, 40)), (1, (10, 20))]
    )
    def test_after_so_many_messages(
        self, open_log: Open, flush_messages: int, recovery_points: tuple[int, ...]
    ) -> None:
        """The append that reaches or exceeds the number flushes. Each append has 10 messages."""
        log = open_log(flush_messages=flush_messages)
        for expected in recovery_points:
            add(log, plain(0))
            assert log.recovery_point == expected

    def test_where_nothing_was_appended_nothing_is_flushed(self, open_log: Open, clock: ManualClock) -> None:
        """The flush is not counted, and does not change the time of the last flush, which the flusher uses."""
        log = open_log()
        add(log, plain(0))
        log.flush()
        counted, flushed_ms = log.counters.flushes, log.counters.last_flush_ms
        clock.now += 1000
        for _ in range(5):
            log.flush()
        assert (log.counters.flushes, log.counters.last_flush_ms) == (counted, flushed_ms)

    def test_every_call_on_a_closed_log(self, open_log: Open) -> None:
        log = open_log()
        add(log, plain(0))
        log.close()
        log.close()
        for call in (
            lambda: add(log, plain(0)),
            log.roll,
            log.flush,
            log.offsets,
            lambda: read(log, 0),
            lambda: log.offset_for_timestamp(0),
        ):
            with pytest.raises(ClosedError):
                call()

    def test_an_orderly_stop_leaves_a_snapshot_and_trimmed_indexes(self, open_log: Open, tmp_path: Path) -> None:
        log = open_log(index_interval_bytes=0)
        for number in range(3):
            add(log, plain(0, timestamp=BASE_TIME + 100 * number))
        log.close()
        sizes = {path.name: path.stat().st_size for path in (tmp_path / "t-0").glob("0*")}
        assert sizes[f"{0:020d}.index"] == 2 * 8
        assert sizes[f"{0:020d}.timeindex"] == 2 * 12
        assert f"{30:020d}.snapshot" in sizes

    def test_the_active_index_grows_again_with_the_first_append(self, open_log: Open, tmp_path: Path) -> None:
        index = tmp_path / "t-0" / f"{0:020d}.index"
        log = open_log(index_interval_bytes=0)
        add(log, plain(0) * 3)
        log.close()
        for clean in (True, False):
            log = open_log(index_interval_bytes=0, clean=clean)
            trimmed = index.stat().st_size
            assert trimmed == (16 if clean else 24)
            add(log, plain(0))
            assert index.stat().st_size == 4096
            log.close()
            assert index.stat().st_size == trimmed

    def test_a_kill_at_any_moment_loses_nothing_that_was_written(self, open_log: Open, tmp_path: Path) -> None:
        log = open_log(segment_bytes=5 * len(plain(0)))
        for _ in range(23):
            add(log, plain(0))
        for segment in log._state.segments:
            segment.close_handlers()
        log._lifecycle.is_closed = True
        again = open_log(clean=False)
        assert read_all(again) == list(range(0, 230, 10))
        assert add(again, plain(0)) == range(230, 240)

    def test_readers_beside_a_writer(self, open_log: Open) -> None:
        """Reads return complete, consecutive batches across rolls. ``test_log_readers`` shows that no lock is taken."""
        log = open_log(segment_bytes=4 * len(plain(0)), segment_index_bytes=240)
        failures: list[object] = []
        done = threading.Event()

        def look() -> None:
            choose = random.Random(5)
            try:
                while not done.is_set():
                    end = log.offsets().log_end.message_offset
                    start = choose.randrange(end + 1)
                    found = read(log, start)
                    if start < end and (not found or not found[0] <= start < found[0] + 10):
                        failures.append((start, end, found))
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(300):
            add(log, plain(0))
        done.set()
        for thread in threads:
            thread.join()
        assert failures == []
