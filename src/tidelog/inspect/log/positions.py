"""The places of offsets in a log, in bytes from its first segment's start, as if its segments were one file.

Offsets inside a segment get their place from the offset index: between two entries it is interpolated, so no ``.log``
is read. The result is exact at segment borders and a good approximation elsewhere. Thread rule: ``prepare`` belongs to
one thread; afterwards any thread may call ``of``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.view_state import ViewSegment, ViewState
from tidelog.storage.segment.file_names import FileKind
from tidelog.storage.segment.hints import read_offset_hints

_MOST_INDEXES = 64
"""The indexes that are read. Offsets in further segments are interpolated between the segment's borders."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedSegment:
    """A segment with its place: ``start`` and ``size`` of its ``.log`` in bytes. ``end_offset`` is the next segment's
    base offset, or the log end. ``end`` is the place where its valid bytes end, at the end of the file or before."""

    segment: ViewSegment
    end_offset: int
    start: int
    size: int
    end: int

    @property
    def base_offset(self) -> int:
        return self.segment.base_offset


class LogPositions:
    def __init__(self, fs: FileSystem, directory: Path, placed: Sequence[PlacedSegment]) -> None:
        """Create without reading. ``placed`` ascends; it may be empty."""
        self._fs = fs
        self._directory = directory
        self._placed = tuple(placed)
        self._bases = [one.base_offset for one in placed]
        self._points: dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        """The known offsets and places inside of segments, by the segments' base offsets."""

    def prepare(self, offsets: Iterable[int]) -> None:
        """Read the offset indexes of the segments that hold the offsets."""
        for offset in offsets:
            placed = self._holder(offset)
            if placed is None or offset == placed.base_offset or len(self._points) >= _MOST_INDEXES:
                continue
            if placed.base_offset not in self._points:
                self._points[placed.base_offset] = self._read_points(placed)

    def of(self, offset: int) -> int:
        """Return the place of an offset in bytes. Offsets outside the log have the place of its nearer end."""
        placed = self._holder(offset)
        if placed is None:
            return 0
        if offset >= placed.end_offset:
            return placed.end
        before, after = (placed.base_offset, placed.start), (placed.end_offset, placed.end)
        offsets, places = self._points.get(placed.base_offset, _NO_POINTS)
        at = int(offsets.searchsorted(offset, "right"))
        if at:
            before = (int(offsets[at - 1]), int(places[at - 1]))
        if at < len(offsets):
            after = (int(offsets[at]), int(places[at]))
        return before[1] + (after[1] - before[1]) * (offset - before[0]) // (after[0] - before[0])

    def _read_points(self, placed: PlacedSegment) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the offsets and places of the entries of an offset index that lie inside its segment."""
        path = placed.segment.files.path(self._directory, FileKind.INDEX)
        hints = read_offset_hints(self._fs, path, placed.base_offset, placed.size)
        inside = (hints.offsets > placed.base_offset) & (hints.offsets < placed.end_offset)
        inside &= hints.positions < placed.end - placed.start
        return hints.offsets[inside], hints.positions[inside] + placed.start

    def _holder(self, offset: int) -> PlacedSegment | None:
        at = bisect_right(self._bases, offset)
        return self._placed[at - 1] if at else None


_NO_POINTS = (np.empty(0, np.int64), np.empty(0, np.int64))


def place_segments(state: ViewState) -> tuple[PlacedSegment, ...]:
    """Place the segments of a log one after the other."""
    segments = list(state.segments)
    ends = [*(segment.base_offset for segment in segments), state.log_end.message_offset][1:]
    placed, start = [], 0
    for segment, end_offset in zip(segments, ends, strict=True):
        end = state.end_position(segment)
        size = segment.size if end is None else end
        placed.append(
            PlacedSegment(segment=segment, end_offset=end_offset, start=start, size=segment.size, end=start + size)
        )
        start += segment.size
    return tuple(placed)
