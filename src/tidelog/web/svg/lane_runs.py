"""Lanes of a picture with a bounded number of items: neighbours become runs. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")
MOST_ITEMS = 300
MOST_LANES = 40


def runs_of(
    lanes: Sequence[Sequence[T]], start: int, end: int, offset: Callable[[T], int], most: int = MOST_ITEMS
) -> list[list[list[T]]]:
    """Return the runs of each lane, at most ``most`` in all. A run has one element if all of them fit.

    Otherwise the offsets ``[start, end)`` are divided evenly, and a run has a lane's elements of one part.
    """
    if sum(map(len, lanes)) <= most:
        return [[[one] for one in lane] for lane in lanes]
    parts = max(1, most // len(lanes))
    width = max(1, end - start)
    found: list[list[list[T]]] = []
    for lane in lanes:
        if len(lane) <= parts:
            found.append([[one] for one in lane])
            continue
        by_part: dict[int, list[T]] = {}
        for one in lane:
            part = (min(max(offset(one), start), end - 1) - start) * parts // width
            by_part.setdefault(part, []).append(one)
        found.append(list(by_part.values()))
    return found
