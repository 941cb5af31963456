"""The segments of one log, sorted by base offset.

It owns an immutable sorted tuple that every change replaces, so a reader in another thread keeps the segments as they
were. No I/O. Thread rule: changes under the partition's lock, lookups from any thread.
Source: Kafka's ``LogSegments``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Generic, Protocol, TypeVar


class HasBaseOffset(Protocol):
    @property
    def base_offset(self) -> int: ...


S = TypeVar("S", bound=HasBaseOffset)
_base_offset = attrgetter("base_offset")


class LogSegments(Generic[S]):
    """Segments with lookups by offset."""

    __slots__ = ("_segments",)

    def __init__(self, segments: tuple[S, ...] = ()) -> None:
        self._segments = tuple(sorted(segments, key=_base_offset))

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[S]:
        return iter(self._segments)

    @property
    def at_this_moment(self) -> tuple[S, ...]:
        """The current tuple; a different object after every change."""
        return self._segments

    @property
    def base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self._segments]

    @property
    def first(self) -> S:
        return self._segments[0]

    @property
    def last(self) -> S:
        """The active segment."""
        return self._segments[-1]

    def add(self, segment: S) -> None:
        """Add a segment, replacing one of the same base offset."""
        others = [kept for kept in self._segments if kept.base_offset != segment.base_offset]
        self._segments = tuple(sorted([*others, segment], key=_base_offset))

    def remove(self, base_offset: int) -> None:
        self._segments = tuple(kept for kept in self._segments if kept.base_offset != base_offset)

    def remove_all(self, gone: Iterable[S]) -> None:
        """Remove segments in one step for readers."""
        self.replace(gone, ())

    def replace(self, gone: Iterable[S], new: Iterable[S]) -> None:
        """Replace segments by others in one step for readers."""
        bases = {segment.base_offset for segment in gone}
        kept = (segment for segment in self._segments if segment.base_offset not in bases)
        self._segments = tuple(sorted([*kept, *new], key=_base_offset))

    def reset_to(self, segment: S) -> None:
        """Replace all segments by this one, in one step for readers."""
        self._segments = (segment,)

    def floor(self, offset: int) -> S | None:
        """Return the last segment whose base offset is at or below ``offset``: it would hold the offset."""
        at = bisect_right(self._segments, offset, key=_base_offset)
        return self._segments[at - 1] if at else None

    def lower(self, base_offset: int) -> S | None:
        """Return the last segment whose base offset is below ``base_offset``."""
        at = bisect_left(self._segments, base_offset, key=_base_offset)
        return self._segments[at - 1] if at else None

    def higher(self, base_offset: int) -> S | None:
        """Return the first segment whose base offset is above ``base_offset``."""
        at = bisect_right(self._segments, base_offset, key=_base_offset)
        return self._segments[at] if at < len(self._segments) else None

    def between(self, start: int, end: int | None = None) -> tuple[S, ...]:
        """Return segments that may hold offsets of [start, end), from ``start``'s on; none for an empty range."""
        if end is not None and end <= start:
            return ()
        low = max(0, bisect_right(self._segments, start, key=_base_offset) - 1)
        high = len(self._segments) if end is None else bisect_left(self._segments, end, key=_base_offset)
        return self._segments[low:high]
