"""Batches that were read for their keys, remembered so that those of which nothing stays are not read again.

Their tables stay in memory, chunk by chunk, those of MOST_BATCHES at most; of all others nothing is known. Segments do
not change below the active one, so what was sound when its keys were read is sound still. Thread rule: one thread adds,
then one asks. Kafka's cleaner reads all of them twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from tidelog.kernel import BatchTable
from tidelog.storage.cleaner.clean.sound_chunks import whole_chunks
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import Chunk

MOST_BATCHES = 100_000
"""Some 75 bytes each."""
_NOTHING = memoryview(b"")


class SeenBatches:
    def __init__(self) -> None:
        self._tables: dict[int, list[BatchTable]] = defaultdict(list)
        """By the base offset of their segment."""
        self._room = MOST_BATCHES

    def add(self, segment: LogSegment, table: BatchTable) -> None:
        """The next batches of ``segment``, one or more, sound, with their keys in the map."""
        if len(table) <= self._room:
            self._room -= len(table)
            self._tables[segment.base_offset].append(table)

    def chunks(
        self, segment: LogSegment, is_gone: Callable[[BatchTable], bool], *, chunk_bytes: int
    ) -> Iterator[Chunk]:
        """All batches of ``segment``, as ``whole_chunks``; those of tables that are gone without their bytes.

        What was remembered of them goes.
        """
        position = 0
        for table in filter(is_gone, self._tables.pop(segment.base_offset, ())):
            start = int(table.position[0])
            yield from whole_chunks(segment, position, start, chunk_bytes=chunk_bytes)
            yield Chunk(_NOTHING, table, start)
            position = table.end_position
        yield from whole_chunks(segment, position, chunk_bytes=chunk_bytes)
