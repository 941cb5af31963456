"""The batches of a segment to be cleaned, in chunks; a damaged batch ends the clean.

A damaged batch must not be copied with a new checksum, and must not make other records obsolete. So all batches are
validated, and the first damaged one raises an error with its place. Kafka's cleaner does not verify checksums.
Reading chunks (``complete_chunks``) and validating them (``validated``) are two steps: threads read in turn and
validate in parallel.

A clean reads its dirty part for the keys first. ``BatchTableCache`` keeps the tables of these batches, one per chunk.
Batches without surviving records are then not read again. Segments below the active one do not change, so a batch that
was valid in the first half of a clean stays valid. Kafka's cleaner reads every batch twice.
Thread rule: one thread at a time for an iterator; any thread for ``validated``. One thread adds all batches to a
cache, then one thread reads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import numpy as np

from tidelog.kernel import BatchTable, scan_batches
from tidelog.model import CorruptRecordError
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import Chunk

MAX_BATCHES = 100_000
"""A batch takes about 75 bytes."""
_NOTHING = memoryview(b"")


def validated_chunks(segment: LogSegment, start_position: int, *, chunk_bytes: int) -> Iterator[Chunk]:
    """Yield ``complete_chunks`` after validation."""
    for chunk in complete_chunks(segment, start_position, chunk_bytes=chunk_bytes):
        yield validated(segment, chunk)


def complete_chunks(
    segment: LogSegment, start_position: int, end_position: int | None = None, *, chunk_bytes: int
) -> Iterator[Chunk]:
    """Yield all batches from ``start_position`` to ``end_position`` or the end. Both must be batch boundaries.

    Headers and checksums are not validated yet. Raise CorruptRecordError or StorageError.
    """
    position, end = start_position, segment.size if end_position is None else end_position
    for chunk in segment.chunks(position, end, verify_crc=False, chunk_bytes=chunk_bytes):
        position = chunk.table.end_position
        if len(chunk.table):
            yield chunk
    if position < end:
        raise CorruptRecordError(
            f"{end - position} bytes at the end of the segment are not a complete batch",
            path=segment.path,
            position=position,
        )


def validated(segment: LogSegment, chunk: Chunk) -> Chunk:
    """Return the chunk with verified checksums. Raise CorruptRecordError for the first damaged batch."""
    end = chunk.table.end_position - chunk.base_position
    table = scan_batches(chunk.buffer, 0, end, base_position=chunk.base_position, verify_crc=True)
    if table.summary.crcs_ok and table.header_ok.all():
        return chunk._replace(table=table)
    bad = table.row(int(np.argmin(table.crc_ok & table.header_ok)))
    what = "header contradicts itself" if bad.crc_ok else "checksum does not fit"
    raise CorruptRecordError(f"the batch's {what}", path=segment.path, position=bad.position, offset=bad.base_offset)


class BatchTableCache:
    def __init__(self) -> None:
        self._tables: dict[int, list[BatchTable]] = defaultdict(list)
        """The tables by base offset of their segment."""
        self._room = MAX_BATCHES

    def add(self, segment: LogSegment, table: BatchTable) -> None:
        """Add the next batches of ``segment``, at least one. They are valid, and their keys are in the map."""
        if len(table) <= self._room:
            self._room -= len(table)
            self._tables[segment.base_offset].append(table)

    def chunks(
        self, segment: LogSegment, is_gone: Callable[[BatchTable], bool], *, chunk_bytes: int
    ) -> Iterator[Chunk]:
        """Yield all batches of ``segment`` as ``complete_chunks`` does, but without bytes for a table that ``is_gone``.

        This removes the segment's tables.
        """
        position = 0
        for table in filter(is_gone, self._tables.pop(segment.base_offset, ())):
            start = int(table.position[0])
            yield from complete_chunks(segment, position, start, chunk_bytes=chunk_bytes)
            yield Chunk(_NOTHING, table, start)
            position = table.end_position
        yield from complete_chunks(segment, position, chunk_bytes=chunk_bytes)
