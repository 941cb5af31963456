"""The horizontal scale of a log's picture: places in bytes to coordinates. Pure.

A width in proportion to the bytes alone would hide small segments next to large ones. So every segment gets the same
small width first, and the rest of the width is shared in proportion to the bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

_LEAST_WIDTH = 21.0
_MOST_FIXED = 0.5
"""The share of the whole width that the equal parts may take."""


@dataclass(frozen=True, slots=True)
class PlacedRun:
    """A segment, or a run of neighbours: its first offset, its place and its size in bytes."""

    base_offset: int
    start: int
    size: int


class ByteScale:
    def __init__(self, runs: Sequence[PlacedRun], left: float, right: float) -> None:
        """Create the scale of one or more runs, at coordinates from ``left`` to ``right``."""
        width, total = right - left, sum(run.size for run in runs)
        fixed = min(_LEAST_WIDTH, _MOST_FIXED * width / len(runs)) if total else width / len(runs)
        shared = width - fixed * len(runs)
        self._runs = runs
        self._bases = [run.base_offset for run in runs]
        self._coordinates = [left]
        for run in runs:
            self._coordinates.append(self._coordinates[-1] + fixed + (shared * run.size / total if total else 0))

    def run(self, number: int) -> tuple[float, float]:
        """Return the left and the right coordinate of a run."""
        return self._coordinates[number], self._coordinates[number + 1]

    def at(self, offset: int, place: int) -> float:
        """Return the coordinate of an offset, whose place is known in bytes. Places outside of the log are moved to
        its border. The offset decides between segments of which one is empty."""
        number = max(bisect_right(self._bases, offset) - 1, 0)
        while number and place < self._runs[number].start:
            number -= 1
        run, (left, right) = self._runs[number], self.run(number)
        share = min(max((place - run.start) / run.size, 0), 1) if run.size else 0
        return left + share * (right - left)
