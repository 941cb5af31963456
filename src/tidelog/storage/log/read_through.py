"""A read of an open log between two offsets, chunk by chunk, to load a complete log into memory.

=================================  =================================================================================
a read finds                       result
=================================  =================================================================================
complete batches                   a chunk; the next one begins after the last of them
nothing                            the end: compaction has removed all offsets up to it
bytes, but no complete batch, or   the log is damaged: an error, because another read would find the same
only batches below the start
=================================  =================================================================================

Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.kernel import BatchTable, scan_batches
from tidelog.model import CorruptRecordError, Isolation
from tidelog.storage.log.log_read import ReadLimits
from tidelog.storage.log.readable_log import ReadableLog


class LogChunk(NamedTuple):
    """Complete batches. The first may begin below the requested offset. ``data`` may end with a partial batch."""

    data: bytes
    table: BatchTable


def read_through(log: ReadableLog, start: int, end: int, max_bytes: int) -> Iterator[LogChunk]:
    """Yield batches with records in [start, end), about ``max_bytes`` at a time, but at least one batch.

    Raise CorruptRecordError for damage, and the errors of ``ReadableLog.read``.
    """
    while start < end:
        limits = ReadLimits(start_offset=start, max_bytes=max_bytes, isolation=Isolation.LOG_END)
        data = log.read(limits).data()
        if not data:
            return
        table = scan_batches(data)
        following = int(table.last_offset[-1]) + 1 if len(table) else start
        if following <= start:
            raise CorruptRecordError(
                f"the log continues to offset {end}, but no complete batch was found", path=log.directory, offset=start
            )
        yield LogChunk(data, table)
        start = following
