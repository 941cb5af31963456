"""The facts that planning reads from a log: an open log and a view give the same, and only needed facts are read."""

from __future__ import annotations

import pytest

from log_maker import CONTROL, TRANSACTIONAL, batch
from storage.cleaner.cleaner_home import HOUR, NOW, CleanerHome, fill, put, until_segments
from tidelog.model import TopicPartition
from tidelog.storage.cleaner.plan.log_facts import LogFacts, facts_of_log, facts_of_view
from tidelog.storage.cleaner.plan.log_plan import LogPlan, UncleanableLimit, plan_log
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.change.retention import RetentionSegment
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.producer import AppendOrigin

T0 = TopicPartition("orders", 0)
PRODUCER = 15


def facts(home: CleanerHome, log: PartitionLog, last_clean: int | None = 0) -> LogFacts:
    return facts_of_log(log, T0, last_clean_offset=last_clean, now_ms=home.clock.now)


def plan(home: CleanerHome, log: PartitionLog, last_clean: int | None = 0) -> LogPlan:
    return plan_log(facts(home, log, last_clean))


def test_bounded_by_the_high_watermark(home: CleanerHome) -> None:
    log = home.open(T0)
    until_segments(log, 8, replicated=False)
    log.update_high_watermark(50)
    found = plan(home, log)
    assert log.base_offsets[-1] > 50
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, 50)
    assert found.end_offset == max(base for base in log.base_offsets if base <= 50)


def test_bounded_by_the_active_segment(home: CleanerHome) -> None:
    log = home.open(T0)
    until_segments(log, 8)
    found = plan(home, log)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, log.base_offsets[-1])


def test_bounded_by_time(home: CleanerHome) -> None:
    log = home.open(T0, min_compaction_lag_ms=HOUR)
    until_segments(log, 4)
    active = log.base_offsets[-1]
    home.clock.now += HOUR + 1
    until_segments(log, 8, timestamp=home.clock.now)
    found = plan(home, log)
    assert (found.first_dirty_offset, found.first_uncleanable_offset) == (0, active)
    assert found.uncleanable_limit is UncleanableLimit.MIN_COMPACTION_LAG


def test_time_holds_nothing_any_more(home: CleanerHome) -> None:
    log = home.open(T0, min_compaction_lag_ms=HOUR)
    until_segments(log, 8)
    home.clock.now += HOUR + 1
    assert plan(home, log).first_uncleanable_offset == log.base_offsets[-1]


def test_segments_without_timestamps_are_as_old_as_their_files(home: CleanerHome) -> None:
    log = home.open(T0, min_compaction_lag_ms=HOUR)
    until_segments(log, 3, timestamp=-1)
    modified_ms = LOCAL.stat(log.segments[0].path).mtime_ms
    assert facts(home, log).segments[0].time_ms == modified_ms
    home.clock.now = modified_ms + HOUR - 1
    assert plan(home, log).first_uncleanable_offset == 0


def test_open_transactions_and_their_lag(home: CleanerHome) -> None:
    log = home.open(T0, min_compaction_lag_ms=HOUR)

    def produce(values: list[bytes], sequence: int) -> None:
        made = batch(0, values, attributes=TRANSACTIONAL, producer_id=PRODUCER, sequence=sequence, timestamp=NOW)
        log.append_as_leader(bytearray(made), leader_epoch=0)

    produce([b"a", b"b"], 0)
    produce([b"c"], 2)
    log.roll()
    log.update_high_watermark(3)
    home.clock.now += HOUR + 1
    assert plan(home, log).first_uncleanable_offset == 0  # however long they have waited

    attributes, key = TRANSACTIONAL | CONTROL, bytes(4)
    marker = batch(0, [bytes(6)], key=key, attributes=attributes, producer_id=PRODUCER, timestamp=home.clock.now)
    log.append_as_leader(bytearray(marker), leader_epoch=0, origin=AppendOrigin.COORDINATOR)
    log.roll()
    log.update_high_watermark(4)
    assert plan(home, log).first_uncleanable_offset == 3

    home.clock.now += HOUR + 1
    assert plan(home, log).first_uncleanable_offset == 4


def test_a_log_start_inside_the_active_segment(home: CleanerHome) -> None:
    log = home.open(T0)
    for _ in range(9):
        put(log, "k")
    log.maybe_increment_log_start_offset(2)
    found = plan(home, log, 0)
    assert (found.first_dirty_offset, found.resets_checkpoint, found.is_due) == (2, True, False)


def test_a_checkpoint_inside_the_active_segment(home: CleanerHome) -> None:
    log = home.open(T0)
    for _ in range(6):
        put(log, "k")
    found = plan(home, log, 3)
    assert (log.base_offsets, found.first_dirty_offset, found.is_due) == ([0], 3, False)


def test_a_checkpoint_needs_a_reset(home: CleanerHome) -> None:
    log = home.open(T0)
    fill(log, 20)
    log.maybe_increment_log_start_offset(10)
    assert not plan(home, log, 15).resets_checkpoint
    log.maybe_increment_log_start_offset(20)
    assert plan(home, log, 15).resets_checkpoint
    assert plan(home, log, 25).resets_checkpoint


def test_nothing_is_read_that_nobody_asks_for(home: CleanerHome) -> None:
    log = home.open(T0)
    fill(log, 10)
    assert {(one.time_ms, one.first_timestamp_ms) for one in facts(home, log).segments} == {(None, None)}


@pytest.mark.parametrize("last_clean", [None, 6, 7, 100])
def test_times_of_what_is_dirty(home: CleanerHome, last_clean: int | None) -> None:
    log = home.open(T0, min_compaction_lag_ms=HOUR, max_compaction_lag_ms=2 * HOUR)
    for number in range(4):
        for at in range(3):
            put(log, "k", timestamp=NOW + 100 * number + at)
        log.roll()
    expected = [(NOW + 2, NOW), (NOW + 102, NOW + 100), (NOW + 202, NOW + 200), (NOW + 302, NOW + 300)]
    if last_clean in (6, 7):
        expected[:2] = [(None, None)] * 2  # type: ignore[list-item]
    found = [(one.time_ms, one.first_timestamp_ms) for one in facts(home, log, last_clean).segments]
    assert found[:4] == expected
    assert found[4][1] is None  # it is empty


def test_a_view_knows_the_same(home: CleanerHome) -> None:
    log = home.open(T0, min_compaction_lag_ms=HOUR, max_compaction_lag_ms=2 * HOUR)
    fill(log, 23)
    put(log, "k")
    log.flush()
    view = LogView(LOCAL, log.directory)
    ends = [*log.base_offsets[1:], log.end_offset]
    segments = [
        RetentionSegment(
            base_offset=one.base_offset,
            end_offset=end,
            size_bytes=one.size,
            largest_timestamp_ms=one.max_timestamp.timestamp,
            modified_ms=0,
        )
        for one, end in zip(log.segments, ends, strict=True)
    ]
    assert facts(home, log, 5) == facts_of_view(
        view,
        T0,
        config=log.config,
        segments=segments,
        high_watermark=log.high_watermark,
        last_clean_offset=5,
        now_ms=home.clock.now,
    )
