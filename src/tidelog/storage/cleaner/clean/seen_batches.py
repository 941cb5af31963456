"""The batches that were read for their keys, so that a batch without surviving records is not read a second time.

Their tables stay in memory, one per chunk, for at most MOST_BATCHES batches. Other batches are read again. Segments
below the active one do not change, so a batch that was valid in the first half of a clean stays valid. Kafka's cleaner
reads every batch twice. Thread rule: one thread adds all batches, then one thread reads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from tidelog.kernel import BatchTable
from tidelog.storage.cleaner.clean.sound_chunks import whole_chunks
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import Chunk

MOST_BATCHES = 100_000
"""A batch takes about 75 bytes."""
_NOTHING = memoryview(b"")


class SeenBatches:
    def __init__(self) -> None:
        self._tables: dict[int, list[BatchTable]] = defaultdict(list)
        """The tables by base offset of their segment."""
        self._room = MOST_BATCHES

    def add(self, segment: LogSegment, table: BatchTable) -> None:
        """Add the next batches of ``segment``, at least one. They are valid, and their keys are in the map."""
        if len(table) <= self._room:
            self._room -= len(table)
            self._tables[segment.base_offset].append(table)

    def chunks(
        self, segment: LogSegment, is_gone: Callable[[BatchTable], bool], *, chunk_bytes: int
    ) -> Iterator[Chunk]:
        """Yield all batches of ``segment`` as ``whole_chunks`` does, but without bytes for a table that ``is_gone``.

        This removes the segment's tables.
        """
        position = 0
        for table in filter(is_gone, self._tables.pop(segment.base_offset, ())):
            start = int(table.position[0])
            yield from whole_chunks(segment, position, start, chunk_bytes=chunk_bytes)
            yield Chunk(_NOTHING, table, start)
            position = table.end_position
        yield from whole_chunks(segment, position, chunk_bytes=chunk_bytes)
