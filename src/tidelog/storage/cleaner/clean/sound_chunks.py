"""The batches of a segment to be cleaned, in chunks; a damaged batch ends the clean.

A damaged batch must not be copied with a new checksum, and must not make other records obsolete. So all batches are
validated, and the first damaged one raises an error with its place. Kafka's cleaner does not verify checksums.
Reading chunks (``whole_chunks``) and validating them (``checked``) are two steps: threads read in turn and validate in
parallel. Thread rule: one thread at a time for an iterator; any thread for ``checked``.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidelog.kernel import scan_batches
from tidelog.model import CorruptRecordError
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import Chunk


def sound_chunks(segment: LogSegment, start_position: int, *, chunk_bytes: int) -> Iterator[Chunk]:
    """Yield ``whole_chunks`` after validation."""
    for chunk in whole_chunks(segment, start_position, chunk_bytes=chunk_bytes):
        yield checked(segment, chunk)


def whole_chunks(
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
            f"{end - position} bytes at the end of the segment are no whole batch", path=segment.path, position=position
        )


def checked(segment: LogSegment, chunk: Chunk) -> Chunk:
    """Return the chunk with verified checksums. Raise CorruptRecordError for the first damaged batch."""
    end = chunk.table.end_position - chunk.base_position
    table = scan_batches(chunk.buffer, 0, end, base_position=chunk.base_position, verify_crc=True)
    if table.summary.crcs_ok and table.header_ok.all():
        return chunk._replace(table=table)
    bad = table.row(int(np.argmin(table.crc_ok & table.header_ok)))
    what = "header contradicts itself" if bad.crc_ok else "checksum does not fit"
    raise CorruptRecordError(f"the batch's {what}", path=segment.path, position=bad.position, offset=bad.base_offset)
