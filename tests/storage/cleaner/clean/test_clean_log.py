"""Cleaning one log: each key keeps its last value, and everything else stays the same."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from itertools import repeat

import pytest

from legacy_messages import Message, encode_message, encode_wrapper
from log_maker import batch, plain, write_segment
from storage.cleaner.clean_home import (
    DELETE_RETENTION_MS,
    CleanHome,
    batches,
    keys,
    last_offsets,
    offsets,
    records,
    some_map,
)
from tidelog.model import CorruptRecordError, InvalidRecordError, LogCleaningAbortedError
from tidelog.storage.fs import LOCAL
from tidelog.storage.index import OffsetIndexReader, TimeIndexReader
from tidelog.storage.log.partition_log import PartitionLog

FIVE = [(0, 0), (1, 1), (0, 0), (1, 1), (0, 0)]


def overwritten(home: CleanHome, records: int = 40) -> PartitionLog:
    """Return a log with seven keys, four batches a segment and an empty active segment."""
    log = home.open(segment_bytes=300)
    home.put(log, *((number % 7, number) for number in range(records)))
    log.roll()
    return log


def five(home: CleanHome, **options: object) -> PartitionLog:
    log = home.open(**options)
    home.put(log, *FIVE)
    log.roll()
    return log


class TestWhatStays:
    def test_the_last_value_of_each_key(self, home: CleanHome) -> None:
        log = overwritten(home)
        result = home.clean(log)
        assert [(record.offset, record.key, record.value) for record in records(log)] == [
            (offset, b"%d" % (offset % 7), b"%d" % offset) for offset in range(33, 40)
        ]
        assert result.next_dirty_offset == log.end_offset == 40

    def test_records_whose_keys_are_not_in_the_map(self, home: CleanHome) -> None:
        log = home.open()
        home.fill(log, 4)
        segments = log.segments[:3]
        before, size = keys(log), sum(segment.size for segment in segments)
        stats = home.rewrite(log, segments, obsolete=[1, 3, 5, 7, 9])
        assert keys(log) == [key for key in before if key not in (1, 3, 5, 7, 9)]
        assert stats.bytes_read == size

    def test_none_of_deleted_keys(self, home: CleanHome) -> None:
        log = home.open()
        home.fill(log, 2)
        deleted = range(0, log.end_offset, 2)
        home.put(log, *((key, None) for key in deleted))
        home.fill(log, 4)
        home.clean(log)
        assert not {*keys(log)} & {*deleted}

    def test_a_tombstone_until_its_horizon_whatever_its_timestamp(self, home: CleanHome) -> None:
        log, now = home.open(), home.clock.now
        home.clock.now = now + DELETE_RETENTION_MS + 10_000
        home.put(log, (0, 0))
        log.roll()
        home.clock.now = now
        home.clean(log)
        home.clock.now = now - DELETE_RETENTION_MS - 10_000
        home.put(log, (0, None))
        log.roll()
        home.clock.now = now
        home.clean(log, 1)
        assert last_offsets(log) == [1]
        assert batches(log).base_timestamp.tolist() == [now + DELETE_RETENTION_MS]
        home.put(log, (1, 1))
        log.roll()
        home.clean(log, 2)
        assert last_offsets(log) == [1, 2]
        home.clock.now += DELETE_RETENTION_MS
        home.put(log, (2, 2))
        log.roll()
        home.clean(log, 3)
        assert last_offsets(log) == [2, 3]

    def test_nothing_without_a_key(self, home: CleanHome) -> None:
        log = home.open(cleanup_policy=frozenset({"delete"}))
        while len(log.base_offsets) < 2:
            log.append_as_leader(bytearray(batch(0, [b"no key"], key=None)), leader_epoch=0)
        unkeyed, size = log.end_offset, log.size
        home.fill(log, 3)
        wanted = log.size - size
        stats = home.clean(log).stats
        assert [record.offset for record in records(log)] == [*range(unkeyed, log.end_offset)]
        assert log.size == wanted
        assert stats.invalid_messages_read == unkeyed

    @pytest.mark.parametrize("behind", [0, 1])
    def test_the_last_batch_below_the_high_watermark_empty_if_need_be(self, home: CleanHome, behind: int) -> None:
        """The clean keeps an empty batch only if no later batch below the high watermark marks the log end."""
        log = home.open()
        home.fill(log, 4)
        end = log.base_offsets[-1]
        log.update_high_watermark(end + behind)
        home.rewrite(log, log.segments[:3], obsolete=range(end))
        assert log.base_offsets == [0, end]
        table = batches(log)
        cleaned = table.last_offset < end
        assert table.last_offset[cleaned].tolist() == ([] if behind else [end - 1])
        assert table.record_count[cleaned].tolist() == ([] if behind else [0])

    def test_each_record_with_its_offset_and_timestamp(self, home: CleanHome) -> None:
        log = home.open()
        for number in range(40):
            home.clock.now += 1
            home.put_together(log, [(number % 3, number), (number, number)])
        log.roll()
        before = {record.offset: record for record in records(log)}
        home.clean(log, offset_map=some_map(20))
        after = records(log)
        assert len(after) < len(before)
        assert after == [before[record.offset] for record in after]


class TestHowFar:
    def test_where_nothing_is_dirty_nothing_is_done(self, home: CleanHome) -> None:
        log = overwritten(home)
        before = log.segments
        assert home.clean(log, 40).next_dirty_offset == 40
        assert log.segments == before

    def test_step_by_step_where_one_key_fits(self, home: CleanHome) -> None:
        log = five(home)
        for first_dirty, left in ((2, [1, 2, 3, 4]), (3, [2, 3, 4]), (4, [3, 4])):
            result = home.clean(log, first_dirty, offset_map=some_map(2))
            assert offsets(log) == left
            assert result.next_dirty_offset == first_dirty + 1

    def test_segments_behind_the_first_uncleanable_offset_stay_as_they_are(self, home: CleanHome) -> None:
        log = home.open()
        while len(log.base_offsets) < 7:
            home.put(log, (log.end_offset % 10, log.end_offset))
        before = [segment.size for segment in log.segments]
        home.clean(log, 0, log.base_offsets[2] + 1)
        after = {segment.base_offset: segment.size for segment in log.segments}
        assert [*after.values()][-5:] == before[2:]
        assert sum(after.values()) < sum(before)
        assert len({record.value for record in records(log) if record.offset < log.base_offsets[-5]}) == 10

    @pytest.mark.parametrize("bases", [[11], [15, 30]], ids=["one segment", "several"])
    def test_offsets_that_are_missing_at_the_end_of_a_segment_are_passed(
        self, home: CleanHome, bases: list[int]
    ) -> None:
        for base, count in zip([0, *bases], [*repeat(10, len(bases)), 1], strict=True):
            write_segment(home.directory, base, [plain(base + number, 1) for number in range(count)])
        log = home.open()
        assert home.clean(log).next_dirty_offset == bases[-1]

    def test_segments_that_shrank_become_one_in_the_next_clean(self, home: CleanHome) -> None:
        log = overwritten(home)
        home.clean(log)
        assert len(log.base_offsets) == 11
        home.put(log, (9, 9))
        log.roll()
        before = records(log)
        home.clean(log, 40)
        assert log.base_offsets == [0, 36, 40, 41]
        assert records(log) == before


class TestStats:
    def test_what_was_read_and_written(self, home: CleanHome) -> None:
        log = five(home)
        size = log.size
        result = home.clean(log, 2, offset_map=some_map(4))
        stats = result.stats
        assert result.next_dirty_offset == 5
        assert (stats.messages_read, stats.bytes_read) == (5, size)
        assert (stats.messages_written, stats.bytes_written) == (2, log.size)
        assert (stats.map_messages_read, stats.map_bytes_read) == (3, size - size // 5 * 2)
        assert stats.invalid_messages_read == 0
        assert stats.buffer_utilization == 0.5
        assert stats.end_ms >= stats.map_done_ms >= stats.start_ms

    def test_one_line_of_the_log_says_it(self, home: CleanHome, caplog: pytest.LogCaptureFixture) -> None:
        log = five(home)
        with caplog.at_level(logging.INFO, "tidelog"):
            home.clean(log)
        (line,) = [record.getMessage() for record in caplog.records]
        assert line.startswith("Cleaned t-0 up to offset 5: 5 records in 0.0 MB became 2 in 0.0 MB, 60.0% less;")

    def test_all_bytes_pass_the_throttle(self, home: CleanHome) -> None:
        log, passed = five(home), list[int]()
        stats = home.clean(log, throttle=passed.append).stats
        assert sum(passed) == stats.map_bytes_read + stats.bytes_read + stats.bytes_written


class TestFiles:
    def test_indexes_are_those_of_the_batches(self, home: CleanHome) -> None:
        log = overwritten(home)
        home.clean(log)
        segment = next(segment for segment in reversed(log.segments) if segment.size)
        rows = [*next(iter(segment.chunks(0, verify_crc=True))).table.rows()]
        entries = OffsetIndexReader(segment.path.with_suffix(".index").read_bytes(), segment.base_offset).entries()
        assert [column.tolist() for column in entries] == [
            [row.last_offset for row in rows[1:]],
            [row.position for row in rows[1:]],
        ]
        times = TimeIndexReader(segment.path.with_suffix(".timeindex").read_bytes(), segment.base_offset).entries()
        assert times[0].tolist() == [home.clock.now]

    def test_they_are_as_old_as_the_last_that_was_replaced(self, home: CleanHome) -> None:
        log = five(home)
        home.clock.now += 1
        home.put(log, (5, 5))
        log.roll()
        for segment, time in zip(log.segments, (1_000, 2_000, 3_000), strict=True):
            LOCAL.set_mtime(segment.path, time)
        home.clean(log)
        assert [segment.base_offset for segment in log.segments] == [0, 6]
        for suffix in (".log", ".index", ".timeindex"):
            assert LOCAL.stat(log.segments[0].path.with_suffix(suffix)).mtime_ms == 2_000

    def test_the_snapshots_of_segments_that_were_joined_go_with_them(self, home: CleanHome) -> None:
        log = home.open()
        for _ in range(3):
            home.write(log, 7, [1])
            log.roll()
        assert home.files(".snapshot") == [1, 2, 3]
        home.clean(log)
        assert (log.base_offsets, home.files(".snapshot")) == ([0, 3], [3])

    def test_a_preallocated_one_is_as_long_as_its_batches(self, home: CleanHome) -> None:
        log = five(home, preallocate=True)
        home.clean(log, 2, offset_map=some_map(2))
        assert LOCAL.stat(log.segments[0].path).size == log.segments[0].size < 1024


class TestLargeRecords:
    """``max.decompressed.message.bytes`` was lowered below the size of a record in the log."""

    def filled(self, home: CleanHome, **fields: object) -> PartitionLog:
        log = home.open()
        home.put_together(log, [(10**50, 1), (1, 2)], **fields)
        home.put(log, (1, 3))
        log.roll()
        log.update_config(replace(log.config, max_decompressed_message_bytes=40))
        return log

    @pytest.mark.parametrize("codec", ["gzip", "lz4"])
    def test_a_compressed_one_ends_the_clean(self, home: CleanHome, codec: str) -> None:
        log = self.filled(home, codec=codec)
        with pytest.raises(InvalidRecordError, match="record 0 of its batch is larger than 40 bytes") as caught:
            home.clean(log)
        assert caught.value.offset == 0
        log.update_config(replace(log.config, max_decompressed_message_bytes=80))
        home.clean(log)
        assert keys(log) == [10**50, 1]

    def test_plain_ones_are_of_any_size(self, home: CleanHome) -> None:
        log = self.filled(home)
        home.clean(log)
        assert keys(log) == [10**50, 1]


class TestLargeBatches:
    SIZE = 64 * 1024

    def filled(self, home: CleanHome) -> PartitionLog:
        """Return a log with one segment of large records and an active one, then lower the topic's limit."""
        log = home.open(segment_bytes=self.SIZE * 16, max_message_bytes=self.SIZE * 2)
        while len(log.base_offsets) < 2:
            content = batch(0, [bytes(self.SIZE)], key=b"%d" % log.end_offset)
            log.append_as_leader(bytearray(content), leader_epoch=0)
        log.update_config(replace(log.config, max_message_bytes=self.SIZE // 2))
        return log

    def test_one_larger_than_a_chunk_is_taken_whole(self, home: CleanHome) -> None:
        log = self.filled(home)
        before = keys(log)
        home.rewrite(log, log.segments[:1], obsolete=[1, 3, 5, 7, 9], chunk_bytes=1024)
        assert keys(log) == [key for key in before if key not in (1, 3, 5, 7, 9)]

    @pytest.mark.parametrize("cut", [False, True], ids=["the format is unknown", "more bytes than there are"])
    def test_a_header_that_makes_no_sense_ends_the_clean(self, home: CleanHome, cut: bool) -> None:
        log = self.filled(home)
        with log.segments[0].path.open("r+b") as file:
            if cut:
                file.truncate(1024)
            else:
                file.seek(16)
                file.write(b"\xff")
        with pytest.raises(CorruptRecordError, match="not a complete batch") as caught:
            home.rewrite(log, log.segments[:1], obsolete=[1], chunk_bytes=1024)
        assert (caught.value.path, caught.value.position) == (str(log.segments[0].path), 0)
        assert home.files(".log.cleaned") == []


class TestOldFormats:
    """KAFKA-4298: cleaners of old brokers wrote v0 messages into v1 wrappers."""

    def opened(self, home: CleanHome) -> PartitionLog:
        """Open a log in which every value is its record's offset."""
        duplicates = [Message(25 + number, -1, b"%d" % (number % 2), b"%d" % (25 + number)) for number in range(4)]
        others = [Message(50 + number, -1, b"%d" % (3 + number), b"%d" % (50 + number)) for number in range(2)]
        write_legacy(home, [mixed_wrapper(messages) for messages in (duplicates, others)])
        log = home.open()
        home.put(log, (9, 52))
        log.roll()
        return log

    def test_such_a_wrapper_is_put_right(self, home: CleanHome) -> None:
        log = self.opened(home)
        home.clean(log)
        left = records(log)
        assert [int(record.value or b"") for record in left] == [record.offset for record in left]
        assert [record.offset for record in left] == [27, 28, 50, 51, 52]
        assert set(batches(log).magic.tolist()) == {2}

    def test_a_reader_makes_sense_of_it(self, home: CleanHome) -> None:
        left = records(self.opened(home))
        assert [int(record.value or b"") for record in left] == [record.offset for record in left]
        assert [record.offset for record in left] == [*range(25, 29), 50, 51, 52]


class TestEndedEarly:
    def test_an_abort_leaves_groups_that_are_done_and_no_cleaned_file(self, home: CleanHome) -> None:
        log = overwritten(home)
        last, calls = records(log)[-7:], iter(range(15))

        def check_done() -> None:
            if next(calls, None) is None:
                raise LogCleaningAbortedError("for a test")

        with pytest.raises(LogCleaningAbortedError, match="for a test"):
            home.clean(log, check_done=check_done)
        assert records(log)[-7:] == last
        assert 7 < len(records(log)) < 40
        assert home.files(".log.cleaned") == home.files(".index.cleaned") == []

    def test_an_abort_of_a_group_leaves_it(self, home: CleanHome) -> None:
        log = home.open()
        home.fill(log, 4)
        before = records(log)

        def check_done() -> None:
            raise LogCleaningAbortedError("for a test")

        with pytest.raises(LogCleaningAbortedError, match="for a test"):
            home.rewrite(log, log.segments[:3], obsolete=keys(log), check_done=check_done)
        assert records(log) == before

    def test_damage_ends_it_with_its_place(self, home: CleanHome) -> None:
        log = overwritten(home)
        segment = log.segments[1]
        data = bytearray(segment.path.read_bytes())
        row = next(iter(segment.chunks(0, verify_crc=True))).table.row(2)
        data[row.position + row.size - 1] ^= 0xFF
        segment.path.write_bytes(data)
        with pytest.raises(CorruptRecordError, match="checksum does not fit") as caught:
            home.clean(log)
        assert caught.value.path == str(segment.path)
        assert (caught.value.position, caught.value.offset) == (row.position, row.base_offset)
        assert home.files(".log.cleaned") == []

    def test_a_truncation_beside_it(self, home: CleanHome) -> None:
        log = overwritten(home)
        calls = iter(range(14))

        def check_done() -> None:
            if next(calls, None) is None:
                log.truncate_to(38)

        with pytest.raises(LogCleaningAbortedError, match="have changed since they were read"):
            home.clean(log, check_done=check_done)
        assert log.end_offset == 38
        assert home.files(".log.cleaned") == []

    def test_segments_deleted_beside_it(self, home: CleanHome) -> None:
        """No segment is deleted twice, and none comes back."""
        log = home.open()
        while len(log.base_offsets) < 3:
            home.put(log, (0, log.end_offset))
            log.roll()
        end = log.base_offsets[-1]

        def delete() -> None:
            if log.log_start_offset < end:
                log.maybe_increment_log_start_offset(end)
                log.delete_old_segments()

        with pytest.raises(LogCleaningAbortedError, match="have changed since they were read"):
            home.rewrite(log, log.segments[:2], obsolete=[0], check_done=delete)
        assert log.base_offsets == [end]
        assert home.files(".log.deleted") == [0, 1]
        assert home.files(".log.cleaned") == []

    def test_appends_and_reads_go_on(self, home: CleanHome) -> None:
        log = overwritten(home, 400)
        stop = threading.Event()

        def append() -> None:
            while not stop.wait(0.002):
                home.put(log, (log.end_offset % 7, log.end_offset))

        thread = threading.Thread(target=append)
        thread.start()
        try:
            end = log.base_offsets[-1]
            first = 0
            for _ in range(3):
                first = home.clean(log, first, end).next_dirty_offset
                log.roll()
                end = log.base_offsets[-1]
        finally:
            stop.set()
            thread.join()
        left = [record.offset for record in records(log)]
        assert left == sorted(set(left))
        assert left[-1] == log.end_offset - 1
        assert {offset % 7 for offset in left} == {*range(7)}


def mixed_wrapper(messages: list[Message]) -> bytes:
    """Return a gzip wrapper of v1 with relative offsets around messages of v0."""
    first = messages[0].offset
    inner = b"".join(encode_message(message._replace(offset=message.offset - first), 0) for message in messages)
    return encode_wrapper(messages[-1].offset, -1, inner, 1, 1)


def write_legacy(home: CleanHome, sets: list[bytes]) -> None:
    home.directory.mkdir()
    (home.directory / f"{0:020d}.log").write_bytes(b"".join(sets))
