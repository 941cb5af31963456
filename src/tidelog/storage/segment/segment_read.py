"""The search for the batch with an offset, header by header, and the results of lookups in a segment.

Most fetches begin with the search. An index has an entry every few kilobytes, so a few headers lie between its entry
and the batch. An impossible header ends the search, as the end of the log does. The results are a batch's place or a
range of bytes, and immutable.
Thread rule: any thread; reads only. Source: Kafka's ``FileRecords.searchForOffsetFromPosition``.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Final, NamedTuple

from tidelog.model import LogOffsetMetadata
from tidelog.record.batch_header import PREFIX_BYTES, SMALLEST_LENGTHS
from tidelog.storage.fs import File


class BatchPosition(NamedTuple):
    """A batch's place: ``position`` in the ``.log`` and ``size`` are in bytes."""

    base_offset: int
    position: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRead:
    """The ``size`` bytes of ``file`` from ``position`` on. Only the last batch may be incomplete. The broker passes the
    value to the socket, which sends the bytes from the file."""

    start: LogOffsetMetadata
    file: File
    size: int
    first_entry_incomplete: bool
    """True if ``size`` is below the first batch's size, but was not bounded to 0: 0 means that no data was wanted."""

    @property
    def position(self) -> int:
        return self.start.position_in_segment

    def __len__(self) -> int:
        return self.size

    def data(self) -> bytes:
        """Return the bytes; fewer if the log was truncated meanwhile."""
        return self.file.pread(self.size, self.position) if self.size else b""


_READ_BYTES: Final = 8 * 1024
_HEADER = Struct(">qi4xb6xi")
"""Base offset, length, magic and, in v2, the delta to the last offset. In older formats the offset is the last one."""
_OLD_HEADER = Struct(">qi4xb")
"""The fields that even the smallest v0 message has."""


def find_batch(file: File, position: int, end: int, offset: int) -> BatchPosition | None:
    """Find the first batch in ``[position, end)`` with last offset >= ``offset``; ``position`` is a batch boundary."""
    data, base = b"", position
    while position + _OLD_HEADER.size <= end:
        at = position - base
        if at + _HEADER.size > len(data):
            data, base, at = file.pread(min(_READ_BYTES, end - position), position), position, 0
            if len(data) < _OLD_HEADER.size:
                return None
        if at + _HEADER.size <= len(data):
            base_offset, length, magic, delta = _HEADER.unpack_from(data, at)
        else:
            (base_offset, length, magic), delta = _OLD_HEADER.unpack_from(data, at), 0
        if not 0 <= magic < len(SMALLEST_LENGTHS) or length < SMALLEST_LENGTHS[magic]:
            return None
        size = PREFIX_BYTES + length
        if base_offset + (delta if magic == 2 else 0) >= offset:
            return BatchPosition(base_offset, position, size) if position + size <= end else None
        position += size
    return None
