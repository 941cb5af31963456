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

    __slots__ = ("at_this_moment",)

    def __init__(self, segments: tuple[S, ...] = ()) -> None:
        self.at_this_moment = tuple(sorted(segments, key=_base_offset))
        """The current tuple, which only this class replaces; a different object after every change."""

    def __len__(self) -> int:
        return len(self.at_this_moment)

    def __iter__(self) -> Iterator[S]:
        return iter(self.at_this_moment)

    @property
    def base_offsets(self) -> list[int]:
        return [segment.base_offset for segment in self.at_this_moment]

    @property
    def first(self) -> S:
        return self.at_this_moment[0]

    @property
    def last(self) -> S:
        """The active segment."""
        return self.at_this_moment[-1]

    def add(self, segment: S) -> None:
        """Add a segment, replacing one of the same base offset."""
        others = [kept for kept in self.at_this_moment if kept.base_offset != segment.base_offset]
        self.at_this_moment = tuple(sorted([*others, segment], key=_base_offset))

    def remove(self, base_offset: int) -> None:
        self.at_this_moment = tuple(kept for kept in self.at_this_moment if kept.base_offset != base_offset)

    def remove_all(self, gone: Iterable[S]) -> None:
        """Remove segments in one step for readers."""
        self.replace(gone, ())

    def replace(self, gone: Iterable[S], new: Iterable[S]) -> None:
        """Replace segments by others in one step for readers."""
        bases = {segment.base_offset for segment in gone}
        kept = (segment for segment in self.at_this_moment if segment.base_offset not in bases)
        self.at_this_moment = tuple(sorted([*kept, *new], key=_base_offset))

    def reset_to(self, segment: S) -> None:
        """Replace all segments by this one, in one step for readers."""
        self.at_this_moment = (segment,)

    def floor(self, offset: int) -> S | None:
        """Return the last segment whose base offset is at or below ``offset``: it would hold the offset."""
        at = bisect_right(self.at_this_moment, offset, key=_base_offset)
        return self.at_this_moment[at - 1] if at else None

    def floor_or_first(self, offset: int) -> S | None:
        """Return the segment at which a read from ``offset`` begins, or None without segments."""
        return self.floor(offset) or next(iter(self), None)

    def lower(self, base_offset: int) -> S | None:
        """Return the last segment whose base offset is below ``base_offset``."""
        at = bisect_left(self.at_this_moment, base_offset, key=_base_offset)
        return self.at_this_moment[at - 1] if at else None

    def higher(self, base_offset: int) -> S | None:
        """Return the first segment whose base offset is above ``base_offset``."""
        at = bisect_right(self.at_this_moment, base_offset, key=_base_offset)
        return self.at_this_moment[at] if at < len(self.at_this_moment) else None

    def between(self, start: int, end: int | None = None) -> tuple[S, ...]:
        """Return segments that may hold offsets of [start, end), from ``start``'s on; none for an empty range."""
        if end is not None and end <= start:
            return ()
        low = max(0, bisect_right(self.at_this_moment, start, key=_base_offset) - 1)
        high = len(self.at_this_moment) if end is None else bisect_left(self.at_this_moment, end, key=_base_offset)
        return self.at_this_moment[low:high]
