"""The offset map learns the keys of a log's dirty part, as many as fit."""

from __future__ import annotations

import pytest

from log_maker import batch, write_segment
from storage.cleaner.clean_home import CleanHome, some_map
from tidelog.kernel import OffsetMap
from tidelog.storage.cleaner.clean.clean_log import CHUNK_BYTES
from tidelog.storage.cleaner.clean.clean_request import CleanerStats, CleanRequest
from tidelog.storage.cleaner.clean.dirty_keys import build_offset_map
from tidelog.storage.cleaner.clean.parallel_map import ParallelMap
from tidelog.storage.cleaner.clean.segment_chunks import BatchTableCache
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_segments import LogSegments


def build(log: PartitionLog, start: int, end: int, offset_map: OffsetMap) -> CleanerStats:
    stats = CleanerStats(start_ms=0)
    request = CleanRequest(
        log=log,
        first_dirty=start,
        first_uncleanable=end,
        offset_map=offset_map,
        now_ms=0,
        chunk_bytes=CHUNK_BYTES,
        check_done=lambda: None,
        throttle=lambda _bytes: None,
    )
    with ParallelMap() as threads:
        end = build_offset_map(
            request, LogSegments(log.segments), stats, table_cache=BatchTableCache(), threads=threads
        )
    assert end == offset_map.latest_offset + 1
    return stats


def test_the_offsets_of_a_range(home: CleanHome) -> None:
    log = home.open()
    home.put(log, *((number, number) for number in range(100)))
    offset_map = some_map()
    bases = log.base_offsets
    for start, end in ((0, bases[1]), (bases[1], bases[3]), (bases[3], log.end_offset)):
        stats = build(log, start, end, offset_map)
        assert offset_map.latest_offset == end - 1
        assert len(offset_map) == stats.map_messages_read == end - start
        assert [offset_map.get(b"%d" % key) for key in range(start - 1, end + 1)] == [-1, *range(start, end), -1]


def test_offsets_far_apart(home: CleanHome) -> None:
    last = 7_206_178
    write_segment(home.directory, 0, [batch(0, [b"0"], key=b"0"), batch(last, [b"1"], key=b"1")])
    offset_map = some_map()
    build(home.open(), 0, last + 1, offset_map)
    assert (offset_map.latest_offset, len(offset_map)) == (last, 2)
    assert (offset_map.get(b"0"), offset_map.get(b"1")) == (0, last)


def test_it_begins_and_ends_inside_a_segment(home: CleanHome) -> None:
    """The map has room for two keys, and the index locates the first dirty offset."""
    log = home.open()
    home.put(log, *((number, number) for number in range(5)))
    log.roll()
    offset_map = some_map(3)
    stats = build(log, 2, 5, offset_map)
    assert [offset_map.get(b"%d" % key) for key in range(5)] == [-1, -1, 2, 3, -1]
    assert offset_map.latest_offset == 3
    assert stats.map_messages_read == 2


@pytest.mark.parametrize("committed", [True, False])
def test_aborted_data_and_markers_make_nothing_obsolete(home: CleanHome, committed: bool) -> None:
    log = home.open()
    home.put(log, (1, 1))
    home.transact(log, 7, [1, 2])
    (home.commit if committed else home.abort)(log, 7)
    log.roll()
    offset_map = some_map()
    stats = build(log, 0, 4, offset_map)
    assert [offset_map.get(b"%d" % key) for key in (1, 2)] == ([1, 2] if committed else [0, -1])
    assert offset_map.get(b"\0\0\0" + bytes([committed])) == -1
    assert (offset_map.latest_offset, stats.map_messages_read) == (3, 4)
