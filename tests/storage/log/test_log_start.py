"""A log's start over time: repeated retention, deleted records, and the offsets that they never move."""

from __future__ import annotations

import pytest

from log_maker import plain
from storage.log.log_harness import NOW, RECORD_BYTES, LogHarness, lead, read

MINUTE = 60_000


@pytest.mark.parametrize("records", [0, 1, 25])
def test_the_log_end_stays(harness: LogHarness, records: int) -> None:
    log = harness.open(segment_bytes=2 * RECORD_BYTES, retention_ms=0)
    harness.add(log, records, timestamp=NOW - 10)
    log.update_high_watermark(records)
    log.delete_old_segments()
    for _ in range(2):
        assert (log.end_offset, log.base_offsets, log.log_start_offset) == (records, [records], records)
        assert log.delete_old_segments().deletions == ()
    assert lead(log, plain(0, 1)) == range(records, records + 1)
    assert read(log, records) == [records]


def test_below_a_high_watermark_that_is_not_the_end(harness: LogHarness) -> None:
    log = harness.open(segment_bytes=7 * RECORD_BYTES, retention_ms=999)
    harness.add(log, 100, timestamp=NOW - 1000)
    assert log.update_high_watermark(25) == 25
    decision = log.delete_old_segments()
    assert [deletion.segment.base_offset for deletion in decision.deletions] == [0, 7, 14]
    assert (log.log_start_offset, log.base_offsets[0], log.high_watermark) == (21, 21, 25)
    log.update_high_watermark(100)
    log.delete_old_segments()
    assert (log.log_start_offset, log.base_offsets) == (100, [100])


def test_one_pass_goes_as_far_as_it_can(harness: LogHarness) -> None:
    """The first segment is too young for time retention and protects the second. Once it is deleted, both go."""
    log = harness.open(retention_ms=900, file_delete_delay_ms=0)
    for timestamp in (NOW + 100, NOW, NOW + 100):
        harness.add(log, timestamp=timestamp)
        log.roll()
    harness.clock.now += 901
    log.update_high_watermark(3)
    assert log.delete_old_segments().deletions == (), "the first one keeps the second one"
    log.maybe_increment_log_start_offset(1)
    assert [str(deletion.rule) for deletion in log.delete_old_segments().deletions] == ["log_start", "time"]
    assert log.delete_old_segments().deletions == ()
    assert log.base_offsets == [2, 3]


@pytest.mark.parametrize("rolls", [False, True])
def test_snapshots_go_with_their_segments(harness: LogHarness, rolls: bool) -> None:
    """The snapshot at the log end stays."""
    log = harness.open(retention_bytes=0, retention_ms=MINUTE, file_delete_delay_ms=0)
    for sequence in range(3):
        harness.produce(log, [b"x"], producer_id=1, sequence=sequence)
        if sequence < 2 or rolls:
            log.roll()
    log.update_high_watermark(3)
    assert harness.files(".snapshot") == [1, 2, 3][: 2 + rolls]
    harness.clock.now += MINUTE + 1
    log.delete_old_segments()
    log.remove_deleted()
    assert (harness.files(".snapshot"), harness.files(".*.deleted"), log.log_start_offset) == ([3], [], 3)
    assert list(log.producers) == [1]


def test_snapshots_go_with_deleted_records(harness: LogHarness) -> None:
    log = harness.open(retention_bytes=-1, file_delete_delay_ms=0)
    for sequence in range(3):
        harness.produce(log, [b"x"], producer_id=1, sequence=sequence)
        if sequence < 2:
            log.roll()
    log.update_high_watermark(3)
    assert harness.files(".snapshot") == [1, 2]
    log.maybe_increment_log_start_offset(2)
    assert harness.files(".snapshot") == [1, 2]
    log.delete_old_segments()
    log.remove_deleted()
    assert (harness.files(".snapshot"), log.base_offsets) == ([2], [2])


def test_deleted_records_take_segments_one_by_one(harness: LogHarness) -> None:
    """The active segment stays, even if all its records are deleted."""
    log = harness.open(segment_bytes=5 * RECORD_BYTES)
    harness.add(log, 15)
    log.update_high_watermark(15)
    for start, bases in ((1, [0, 5, 10]), (6, [5, 10]), (15, [10])):
        assert log.maybe_increment_log_start_offset(start)
        log.delete_old_segments()
        assert (log.log_start_offset, log.base_offsets, log.end_offset) == (start, bases, 15)


def test_within_a_segment_nothing_else_moves(harness: LogHarness) -> None:
    log = harness.open()
    harness.add(log, 100)
    log.update_high_watermark(90)
    assert log.maybe_increment_log_start_offset(20)
    assert (log.log_start_offset, log.high_watermark, log.end_offset, log.base_offsets) == (20, 90, 100, [0])
    assert not log.maybe_increment_log_start_offset(20)
    assert not log.maybe_increment_log_start_offset(3)
    assert log.log_start_offset == 20
