"""One log is cleaned: of each key the last value is left, all else is as it was."""

from __future__ import annotations

import pytest

from storage.cleaner.clean_home import CleanHome
from tidelog.model import CorruptRecordError, LogCleaningAbortedError
from tidelog.storage.log.partition_log import PartitionLog


def overwritten(home: CleanHome, keys: int = 7, records: int = 40) -> PartitionLog:
    log = home.open(segment_bytes=300)
    home.put(log, *((number % keys, number) for number in range(records)))
    log.roll()
    return log


def test_the_last_value_of_each_key_stays(home: CleanHome) -> None:
    log = overwritten(home)
    result = home.clean(log)
    assert [(record.offset, record.key, record.value) for record in home.kept()] == [
        (offset, b"%d" % (offset % 7), b"%d" % offset) for offset in range(33, 40)
    ]
    assert result.next_dirty_offset == log.end_offset == 40
    stats = result.stats
    assert (stats.map_messages_read, stats.messages_read, stats.messages_written) == (40, 40, 7)
    assert stats.bytes_written == log.size < stats.bytes_read == stats.map_bytes_read


def test_segments_that_shrank_become_one_in_the_next_clean(home: CleanHome) -> None:
    log = overwritten(home)
    home.clean(log)
    home.put(log, (9, 9))
    log.roll()
    before = home.kept()
    home.clean(log, 40)
    assert log.base_offsets == [0, 36, 40, 41]
    assert home.kept() == before


def test_where_nothing_is_dirty_nothing_is_done(home: CleanHome) -> None:
    log = overwritten(home)
    before = log.segments
    assert home.clean(log, 40).next_dirty_offset == 40
    assert log.segments == before


def test_an_abort_leaves_groups_that_are_done_and_no_draft(home: CleanHome) -> None:
    log = overwritten(home)
    last, calls = home.kept()[-7:], iter(range(15))

    def check_done() -> None:
        if next(calls, None) is None:
            raise LogCleaningAbortedError("for a test")

    with pytest.raises(LogCleaningAbortedError, match="for a test"):
        home.clean(log, check_done=check_done)
    assert home.kept()[-7:] == last
    assert 7 < len(home.kept()) < 40
    assert home.files(".log.cleaned") == home.files(".index.cleaned") == []


def test_damage_ends_it_with_its_place(home: CleanHome) -> None:
    log = overwritten(home)
    segment = log.segments[1]
    data = bytearray(segment.path.read_bytes())
    data[len(data) // 2 + 65] ^= 0xFF
    segment.path.write_bytes(data)
    with pytest.raises(CorruptRecordError, match="checksum does not fit") as caught:
        home.clean(log)
    assert (caught.value.path, caught.value.offset) == (str(segment.path), 6)
    assert home.files(".log.cleaned") == []
