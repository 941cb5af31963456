"""The results of lookups in a segment: a batch's place, or a range of bytes. The values are immutable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidelog.model import LogOffsetMetadata
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
