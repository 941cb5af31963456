"""The second read of a segment skips batches that are gone and misses no other batch."""

from __future__ import annotations

import pytest

from storage.cleaner.clean_home import CleanHome, batches, keys, last_offsets
from tidelog.kernel import BatchTable
from tidelog.storage.cleaner.clean import segment_chunks
from tidelog.storage.cleaner.clean.segment_chunks import BatchTableCache
from tidelog.storage.segment.segment import LogSegment

CHUNK_BYTES = 200


def segment_of(home: CleanHome) -> LogSegment:
    """Return a segment whose chunks hold two batches each."""
    log = home.open(segment_bytes=10_000)
    home.put(log, *((number, number) for number in range(20)))
    log.roll()
    return log.segments[0]


def seen(segment: LogSegment) -> BatchTableCache:
    found = BatchTableCache()
    for chunk in segment.chunks(0, verify_crc=True, chunk_bytes=CHUNK_BYTES):
        found.add(segment, chunk.table)
    return found


@pytest.mark.parametrize("gone", [(), (0,), (18,), (4, 6, 12), tuple(range(0, 20, 2))])
def test_what_is_gone_comes_without_its_bytes(home: CleanHome, gone: tuple[int, ...]) -> None:
    segment = segment_of(home)
    chunks = [*seen(segment).chunks(segment, lambda table: table.base_offset[0] in gone, chunk_bytes=CHUNK_BYTES)]
    without = [chunk.table for chunk in chunks if not len(chunk.buffer)]
    assert [int(table.base_offset[0]) for table in without] == [*gone]
    assert all(chunk.base_position == chunk.table.position[0] for chunk in chunks)
    assert BatchTable.concat([chunk.table for chunk in chunks]).base_offset.tolist() == [*range(20)]


def test_what_was_not_seen_is_read(home: CleanHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_chunks, "MAX_BATCHES", 6)
    segment = segment_of(home)
    chunks = [*seen(segment).chunks(segment, lambda _table: True, chunk_bytes=CHUNK_BYTES)]
    assert [len(chunk.buffer) > 0 for chunk in chunks] == [False] * 3 + [True] * 7
    chunks = [*BatchTableCache().chunks(segment, lambda _table: True, chunk_bytes=CHUNK_BYTES)]
    assert all(len(chunk.buffer) for chunk in chunks)


def test_a_clean_reads_only_what_may_stay(home: CleanHome) -> None:
    """The throttle counts bytes read and written: the first pass reads the log, the second the last cleaned segment."""
    log = home.open(segment_bytes=300)
    home.put(log, *((number % 4, number) for number in range(40)))
    log.roll()
    told: list[int] = []
    size = log.size
    sizes = [segment.size for segment in log.segments]
    stats = home.clean(log, throttle=told.append).stats
    assert keys(log) == [0, 1, 2, 3]
    assert (stats.bytes_read, stats.messages_read, stats.messages_written) == (size, 40, 4)
    assert sum(told) == size + sizes[-2] + stats.bytes_written


def test_a_producers_last_batch_stays_although_all_is_superseded(home: CleanHome) -> None:
    log = home.open(segment_bytes=100)
    home.write(log, 7, [1, 2])
    for _ in range(4):
        home.put(log, (1, 1), (2, 2))
    log.roll()
    home.clean(log)
    assert last_offsets(log)[0] == 1
    assert batches(log).record_count.tolist()[0] == 0
