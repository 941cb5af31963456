"""The high watermark of a log on disk: its moves, its position, and reads up to it."""

from __future__ import annotations

import pytest

from log_maker import batch, plain
from storage.log.log_harness import NOW, RECORD_BYTES, LogHarness
from tidelog.kernel import scan_batches
from tidelog.model import Isolation, LogOffsetMetadata, Record, TimestampType
from tidelog.record.attributes import GZIP
from tidelog.record.build import build_batch
from tidelog.storage.log.partition_log import LogReadRequest, PartitionLog
from tidelog.storage.log.state.log_read import LogRead, resolve_offset
from tidelog.storage.log.state.log_segments import LogSegments

THREE = [b"a", b"b", b"c"]


def add_three(log: PartitionLog) -> None:
    log.append_as_leader(bytearray(batch(0, THREE, timestamp=NOW)), leader_epoch=0)


def read(log: PartitionLog, start: int, *, min_one_message: bool = True) -> LogRead:
    return log.read(LogReadRequest(start_offset=start, max_bytes=1 << 20, min_one_message=min_one_message))


def place(log: PartitionLog) -> LogOffsetMetadata:
    """Return the high watermark's position, which must be the start of a read from its offset."""
    watermark = log.offsets().high_watermark
    assert watermark.message_offset == log.high_watermark
    found = log.read(LogReadRequest(start_offset=log.high_watermark, max_bytes=1 << 20, isolation=Isolation.LOG_END))
    assert watermark == found.start
    assert not watermark.is_offset_only
    return watermark


def test_it_moves(harness: LogHarness) -> None:
    log = harness.open()
    assert place(log).message_offset == 0
    add_three(log)
    assert place(log).message_offset == 0, "nobody has the records yet"
    assert log.maybe_increment_high_watermark(LogOffsetMetadata(1)) == LogOffsetMetadata(0, 0, 0)
    assert place(log) == LogOffsetMetadata(1, 0, 0), "in the batch that holds it"
    assert log.maybe_increment_high_watermark(LogOffsetMetadata(0)) is None, "only forward"
    with pytest.raises(ValueError, match="past the log end"):
        log.maybe_increment_high_watermark(LogOffsetMetadata(4))
    assert log.update_high_watermark(5) == 3, "not past the log end"
    assert place(log).message_offset == 3
    with pytest.raises(ValueError, match="-1"):
        log.update_high_watermark(-1)

    log.append_as_follower(batch(3, THREE, timestamp=NOW), 0)
    assert place(log).message_offset == 3
    log.update_high_watermark(6)
    assert place(log).message_offset == 6

    log.truncate_to(3)
    assert place(log).message_offset == 3, "it comes down with the log end"
    add_three(log)
    assert place(log).message_offset == 3, "and does not go up with it"
    assert (log.log_start_offset, log.end_offset) == (0, 6)

    log.truncate_fully_and_start_at(4)
    assert (log.log_start_offset, log.end_offset) == (4, 4)
    assert place(log) == LogOffsetMetadata(4, 4, 0)


def test_it_moves_with_an_append_that_nobody_else_has_to_have(harness: LogHarness) -> None:
    """The high watermark follows every kind of append: plain, compressed, after a roll, and a duplicate."""
    log = harness.open(segment_bytes=250)
    for sequence in (0, 3, 6, 9, 3):
        produced = batch(0, THREE, timestamp=NOW, producer_id=7, sequence=sequence)
        result = log.append_as_leader(bytearray(produced), leader_epoch=0, is_replicated=True)
        assert result.is_duplicate == (log.end_offset > result.last_offset + 1)
        assert place(log).message_offset == log.end_offset
    assert len(log.base_offsets) > 1
    assert result.offsets == range(3, 6)
    compressed = build_batch(
        [Record(number, NOW, TimestampType.CREATE, None, b"z", ()) for number in range(3)], codec=GZIP
    )
    log.append_as_leader(bytearray(compressed), leader_epoch=0, is_replicated=True)
    assert place(log).message_offset == log.end_offset == 15
    add_three(log)
    assert (place(log).message_offset, log.end_offset) == (15, 18), "it waits again"


def test_after_a_roll_it_lies_in_the_new_segment(harness: LogHarness) -> None:
    """A read from a position in the old segment would return a batch that is not replicated."""
    log = harness.open()
    content = bytearray(batch(0, THREE, timestamp=NOW))
    log.append_as_leader(content, leader_epoch=0)
    assert read(log, 0, min_one_message=False).data() == b""
    log.maybe_increment_high_watermark(log.offsets().log_end)
    for rolls in (False, True):
        if rolls:
            log.roll()
        assert read(log, 0, min_one_message=False).data() == bytes(content)
    assert place(log) == LogOffsetMetadata(3, 3, 0)
    add_three(log)
    assert read(log, 3, min_one_message=False).data() == b""
    assert read(log, 0).data() == bytes(content)


@pytest.mark.parametrize("rolls", [False, True])
def test_reads_end_at_it(harness: LogHarness, rolls: bool) -> None:
    log = harness.open()
    add_three(log)
    if rolls:
        log.roll()
    log.append_as_leader(bytearray(batch(0, THREE[:2], timestamp=NOW)), leader_epoch=0)
    for watermark in (0, 3, 5):
        log.update_high_watermark(watermark)
        for start in range(6):
            found = read(log, start)
            table = scan_batches(found.data())
            assert found.start.message_offset == start
            assert not found.start.is_offset_only
            if start < watermark:
                assert int(table.base_offset[0]) <= start <= int(table.last_offset[0])
                assert table.end_position == len(found.data()), "whole batches"
                assert table.last_offset[-1] < watermark
            else:
                assert len(table) == 0


def test_it_is_found_wherever_it_lies(harness: LogHarness) -> None:
    """An offset below, within or above the log is limited to the log, then looked up without an error."""
    log = harness.open(segment_bytes=11 * RECORD_BYTES)
    harness.add(log, 50)
    log.update_high_watermark(50)
    log.maybe_increment_log_start_offset(15)
    log.delete_old_segments()
    assert (log.base_offsets, log.log_start_offset) == ([11, 22, 33, 44], 15)
    for wanted in range(54):
        log.update_high_watermark(wanted)
        offset = min(max(wanted, 15), 50)
        base = offset // 11 * 11
        assert place(log) == LogOffsetMetadata(offset, base, (offset - base) * RECORD_BYTES)


def test_it_is_found_in_a_gap(harness: LogHarness) -> None:
    """The position in a gap that compaction left is the next batch's, or the log end's."""
    log = harness.open()
    for offset in (0, 10, 20):
        log.append_as_follower(plain(offset, 1, timestamp=NOW), 0)
    for wanted, position in ((0, 0), (1, 1), (10, 1), (11, 2), (20, 2), (21, 3)):
        log.update_high_watermark(wanted)
        assert log.offsets().high_watermark == LogOffsetMetadata(wanted, 0, position * RECORD_BYTES)


def test_places_are_compared_only_where_both_are_known() -> None:
    known, later, offset_only = LogOffsetMetadata(7, 0, 100), LogOffsetMetadata(9, 0, 250), LogOffsetMetadata(12)
    following = LogOffsetMetadata(20, 20, 0)
    assert known.is_on_older_segment(following)
    assert not following.is_on_older_segment(known)
    assert not known.is_on_older_segment(later)
    assert known.is_on_same_segment(later)
    assert not known.is_on_same_segment(following)
    assert later.bytes_after(known) == 150
    for one, other in ((known, offset_only), (offset_only, known), (offset_only, offset_only)):
        for compare in (one.is_on_older_segment, one.is_on_same_segment, one.bytes_after):
            with pytest.raises(ValueError, match="is not known"):
                compare(other)
    with pytest.raises(ValueError, match="different segments"):
        following.bytes_after(known)


def test_a_log_end_that_a_reader_has_seen_keeps_its_position(harness: LogHarness) -> None:
    """The reader's offsets are older than its segments: a roll and an append came in between."""
    log = harness.open()
    harness.add(log, 2)
    end = log.offsets().log_end
    log.roll()
    harness.add(log)
    segments = LogSegments(log.segments)
    assert resolve_offset(segments, 2, end) == end == LogOffsetMetadata(2, 0, 2 * RECORD_BYTES)
    assert resolve_offset(segments, 2, log.offsets().log_end) == LogOffsetMetadata(2, 2, 0)
