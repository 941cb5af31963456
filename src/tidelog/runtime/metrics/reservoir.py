"""A bounded sample of a stream of values that favors newer ones. Percentiles are computed from it.

A value has the weight ``exp(0.015 * seconds since the start)`` and the priority ``weight / u``, with ``u`` uniform in
(0, 1]. The 1028 values of the highest priority stay. The sample covers about the last five minutes, at any rate.
Priorities are kept as logarithms, so they never need to be rescaled (Yammer does so each hour). Thread rule: the caller
holds the Histogram's lock. Source: Cormode et al., "Forward Decay"; Yammer's ``ExponentiallyDecayingSample`` and
``Snapshot``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

SIZE = 1028
ALPHA = 0.015
"""The decay per second."""


class Reservoir:
    def __init__(self, random: Callable[[], float], size: int = SIZE) -> None:
        """``random`` gives numbers in [0, 1)."""
        self._random = random
        self._size = size
        self._kept: list[tuple[float, float]] = []  # a heap of (logarithm of the priority, value)

    def update(self, value: float, seconds: float) -> None:
        """Add a value. ``seconds`` count from any start, the same for all values."""
        entry = (ALPHA * seconds - math.log(1 - self._random()), value)
        if len(self._kept) < self._size:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def values(self) -> list[float]:
        """Return the sample, sorted."""
        return sorted(value for _, value in self._kept)


def quantile(values: Sequence[float], fraction: float) -> float:
    """Return a quantile of sorted ``values``, interpolated between two of them; 0 if there are none."""
    if not values:
        return 0.0
    position = fraction * (len(values) + 1)
    if position < 1:
        return values[0]
    if position >= len(values):
        return values[-1]
    below, above = values[int(position) - 1], values[int(position)]
    return below + (position - int(position)) * (above - below)
