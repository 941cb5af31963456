"""The batches of a segment that is cleaned, in chunks; whatever is wrong with them ends the clean.

Batches that lost their sense must not be copied, with a new checksum over them, nor decide what else is obsolete. So
all are checked, and the first that is wrong is an error with its place. Kafka's cleaner does not look at checksums.
The next chunks are read while the caller works on this one. Thread rule: as any iterator's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tidelog.model import CorruptRecordError
from tidelog.storage.segment.read_ahead import read_ahead
from tidelog.storage.segment.segment import LogSegment
from tidelog.storage.segment.segment_reader import Chunk


def sound_chunks(segment: LogSegment, start_position: int, *, chunk_bytes: int) -> Iterator[Chunk]:
    """All whole batches from ``start_position`` on, which is where one begins. CorruptRecordError, StorageError."""
    position, end = start_position, segment.size
    for chunk in read_ahead(segment.chunks(position, end, verify_crc=True, chunk_bytes=chunk_bytes)):
        _require_sound(segment.path, chunk)
        position = chunk.table.end_position
        if len(chunk.table):
            yield chunk
    if position < end:
        raise CorruptRecordError(
            f"{end - position} bytes at the end of the segment are no whole batch", path=segment.path, position=position
        )


def _require_sound(path: Path, chunk: Chunk) -> None:
    table = chunk.table
    if table.summary.crcs_ok and table.header_ok.all():
        return
    bad = table.row(int(np.argmin(table.crc_ok & table.header_ok)))
    what = "header contradicts itself" if bad.crc_ok else "checksum does not fit"
    raise CorruptRecordError(f"the batch's {what}", path=path, position=bad.position, offset=bad.base_offset)
