"""Neighbours joined into runs, so that a picture of 100,000 segments has a few hundred shapes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import groupby, pairwise
from typing import TypeVar

T = TypeVar("T")
MOST_SHAPES = 300


def runs_of(items: Sequence[T], key: Callable[[T], Hashable], most: int = MOST_SHAPES) -> list[Sequence[T]]:
    """Return the items in runs of neighbours with the same key: single items if there are at most ``most``.

    Each change of the key begins a run, so that there may be more runs than ``most`` if the key changes often.
    """
    if len(items) <= most:
        return [items[at : at + 1] for at in range(len(items))]
    size = -(-len(items) // most)
    found: list[Sequence[T]] = []
    start = 0
    for at in range(1, len(items) + 1):
        if at == len(items) or at - start == size or key(items[at]) != key(items[start]):
            found.append(items[start:at])
            start = at
    return found


def join_runs(kinds: Sequence[Hashable], most: int) -> list[range]:
    """Return at most ``most`` runs of neighbours that cover all indexes of ``kinds``.

    Neighbours of equal kind are joined, in a long run more of them. If the kinds change too often for this, runs of
    several kinds are the result.
    """
    count = len(kinds)
    if count <= most:
        return [range(at, at + 1) for at in range(count)]
    equal, start = [], 0
    for _, group in groupby(kinds):
        length = sum(1 for _ in group)
        equal.append(range(start, start + length))
        start += length
    if len(equal) > most:
        return _split(range(count), most)
    spare = most - len(equal)
    return [part for run in equal for part in _split(run, min(len(run), 1 + len(run) * spare // count))]


def _split(run: range, parts: int) -> list[range]:
    bounds = [run.start + len(run) * number // parts for number in range(parts + 1)]
    return [range(start, end) for start, end in pairwise(bounds)]
