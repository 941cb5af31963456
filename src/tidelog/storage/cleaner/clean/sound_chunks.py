"""The batches of a segment that is cleaned, in chunks; whatever is wrong with them ends the clean.

Batches that lost their sense must not be copied, with a new checksum over them, nor decide what else is obsolete. So
all are checked, and the first that is wrong is an error with its place. Kafka's cleaner does not look at checksums.
To read the chunks is one step (``whole_chunks``), to check them another (``checked``), as threads take the one in turn
and the other side by side. Thread rule: as any iterator's; ``checked``: any thread.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidelog.kernel import scan_batches
from tidelog.model import CorruptRecordError
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import Chunk


def sound_chunks(segment: LogSegment, start_position: int, *, chunk_bytes: int) -> Iterator[Chunk]:
    """``whole_chunks``, checked."""
    for chunk in whole_chunks(segment, start_position, chunk_bytes=chunk_bytes):
        yield checked(segment, chunk)


def whole_chunks(
    segment: LogSegment, start_position: int, end_position: int | None = None, *, chunk_bytes: int
) -> Iterator[Chunk]:
    """All batches from ``start_position``, where one begins, to the end, or to where another begins.

    Their headers and checksums may be wrong still. CorruptRecordError, StorageError.
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
    """The same with checksums that were looked at; CorruptRecordError for the first batch that is wrong."""
    end = chunk.table.end_position - chunk.base_position
    table = scan_batches(chunk.buffer, 0, end, base_position=chunk.base_position, verify_crc=True)
    if table.summary.crcs_ok and table.header_ok.all():
        return chunk._replace(table=table)
    bad = table.row(int(np.argmin(table.crc_ok & table.header_ok)))
    what = "header contradicts itself" if bad.crc_ok else "checksum does not fit"
    raise CorruptRecordError(f"the batch's {what}", path=segment.path, position=bad.position, offset=bad.base_offset)
