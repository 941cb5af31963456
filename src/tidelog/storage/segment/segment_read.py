"""What a look-up in a segment finds: a batch's place, and a range of bytes to hand on. Values; no state, no lock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tidelog.model import LogOffsetMetadata
from tidelog.storage.fs import File


class BatchPosition(NamedTuple):
    """``position`` in the ``.log`` and ``size``, both in bytes."""

    base_offset: int
    position: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRead:
    """``size`` bytes of ``file`` from ``start.position_in_segment`` on: whole batches, but for the last."""

    start: LogOffsetMetadata
    file: File
    size: int
    first_entry_incomplete: bool
    """``size`` was bounded below the first batch's size, but not to 0: then nothing was asked for."""

    def data(self) -> bytes:
        """The bytes; fewer if the log was truncated meanwhile."""
        return self.file.pread(self.size, self.start.position_in_segment) if self.size else b""
