"""A sample of bounded size of a stream of values, in which newer ones are likelier: what percentiles are taken of.

Each value has the weight ``exp(0.015 * seconds since the start)`` and stays with the priority ``weight / u``, ``u``
uniform in (0, 1]; the 1028 highest stay. The sample is of about the last five minutes, whatever the rate. Priorities
are kept as logarithms, so nothing has to be scaled down as time goes on (Yammer does so each hour).
Called by: Histogram, under its lock. Thread rule: none of its own. Source: Cormode et al., "Forward Decay"; Yammer's
``ExponentiallyDecayingSample`` and ``Snapshot``.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Sequence

SIZE = 1028
ALPHA = 0.015
"""A second."""


class Reservoir:
    def __init__(self, random: Callable[[], float], size: int = SIZE) -> None:
        """``random`` gives numbers in [0, 1)."""
        self._random = random
        self._size = size
        self._kept: list[tuple[float, float]] = []  # a heap of (logarithm of the priority, value)

    def update(self, value: float, seconds: float) -> None:
        """``seconds`` since any start, the same for all values."""
        entry = (ALPHA * seconds - math.log(1 - self._random()), value)
        if len(self._kept) < self._size:
            heapq.heappush(self._kept, entry)
        else:
            heapq.heappushpop(self._kept, entry)

    def values(self) -> list[float]:
        """Those kept, sorted."""
        return sorted(value for _, value in self._kept)


def quantile(values: Sequence[float], fraction: float) -> float:
    """Of sorted ``values``, between two of them in proportion; 0 where there are none."""
    if not values:
        return 0.0
    position = fraction * (len(values) + 1)
    if position < 1:
        return values[0]
    if position >= len(values):
        return values[-1]
    below, above = values[int(position) - 1], values[int(position)]
    return below + (position - int(position)) * (above - below)
