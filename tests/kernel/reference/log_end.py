"""The end of a segment and of its indexes. This is the twin of _log_end.pyx, which has the contract."""

from __future__ import annotations

import struct

from tidelog.model import InvalidOffsetError
from tidelog.model.offsets import MAX_RELATIVE_OFFSET

IndexState = tuple[int, int, int, int]


class OffsetIndexEnd:
    """The entries are a list, the file has room for ``room`` of them."""

    def __init__(self, base_offset: int, room: int) -> None:
        self.base_offset, self.room = base_offset, room
        self.entries: list[tuple[int, int]] = []

    @property
    def is_full(self) -> bool:
        return len(self.entries) >= self.room

    def append(self, offset: int, position: int) -> None:
        if self.is_full:
            raise ValueError("append to a full index")
        if self.entries and offset <= self.entries[-1][0]:
            raise InvalidOffsetError("does not ascend")
        require_relative(self.base_offset, offset)
        self.entries.append((offset, position))

    def to_bytes(self) -> bytes:
        return b"".join(struct.pack(">ii", offset - self.base_offset, position) for offset, position in self.entries)


class TimeIndexEnd:
    def __init__(self, base_offset: int, room: int) -> None:
        self.base_offset, self.room = base_offset, room
        self.entries: list[tuple[int, int]] = []

    @property
    def is_full(self) -> bool:
        return len(self.entries) >= self.room - 1

    def maybe_append(self, timestamp: int, offset: int, skip_full_check: bool = False) -> None:
        last_timestamp, last_offset = self.entries[-1] if self.entries else (-1, self.base_offset)
        if self.is_full:
            is_brimful = len(self.entries) >= self.room and timestamp > last_timestamp
            if not skip_full_check or is_brimful:
                raise ValueError("append to a full time index")
        if self.entries and offset < last_offset:
            raise InvalidOffsetError("a smaller offset")
        if timestamp > last_timestamp:
            require_relative(self.base_offset, offset)
            self.entries.append((timestamp, offset))
        elif self.entries and timestamp < last_timestamp:
            raise ValueError("a smaller timestamp")

    def to_bytes(self) -> bytes:
        return b"".join(struct.pack(">qi", timestamp, offset - self.base_offset) for timestamp, offset in self.entries)


def require_relative(base_offset: int, offset: int) -> None:
    if not 0 <= offset - base_offset <= MAX_RELATIVE_OFFSET:
        raise OverflowError("not within 31 bits")


def add_one(
    state: IndexState, interval_bytes: int, size: int, last_offset: int, max_timestamp: int
) -> tuple[bool, IndexState]:
    since, best, offset_of_best, last = state
    if max_timestamp > best:
        best, offset_of_best = max_timestamp, last_offset
    is_wanted = since > interval_bytes
    if is_wanted:
        since, last = 0, last_offset
    return is_wanted, (since + size, best, offset_of_best, last)


def allows(*, segment_bytes: int, roll_after_ms: int, end: int, relative_offset: int, waited_ms: int) -> bool:
    return end <= segment_bytes and relative_offset <= MAX_RELATIVE_OFFSET and waited_ms <= roll_after_ms
