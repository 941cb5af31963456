"""Read an open log from an offset to another, chunk by chunk: for who takes a whole log into memory.

=================================  =================================================================================
what a read finds                  what follows
=================================  =================================================================================
whole batches                      a chunk; the next one begins behind the last of them
nothing                            the end: compaction has left nothing of the offsets up to it
bytes, but no whole batch, or one  the log is damaged: an error, for to read again would find the same
that lies below what was asked
=================================  =================================================================================

Called by: the coordinators and the cluster metadata when they load. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.kernel import BatchTable, scan_batches
from tidelog.model import CorruptRecordError, Isolation
from tidelog.storage.log.log_read import ReadLimits
from tidelog.storage.log.readable_log import ReadableLog


class LogChunk(NamedTuple):
    """Whole batches; the first may begin below the offset that was asked for. ``data`` may have a cut one behind."""

    data: bytes
    table: BatchTable


def read_through(log: ReadableLog, start: int, end: int, max_bytes: int) -> Iterator[LogChunk]:
    """The batches with records in [start, end), about ``max_bytes`` of them at a time, one at least.

    CorruptRecordError for damage, and the errors of ``ReadableLog.read``.
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
                f"the log goes on to {end}, but no whole batch is found", path=log.directory, offset=start
            )
        yield LogChunk(data, table)
        start = following
