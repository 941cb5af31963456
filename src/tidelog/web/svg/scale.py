"""The scale of an axis: values to coordinates, and round values for its ticks. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """Values from ``low`` to ``high`` become coordinates from ``start`` to ``end``. An empty range is ``start``."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """Return the coordinate of a value. Values outside the range are moved to its border."""
        if self.high <= self.low:
            return self.start
        share = (min(max(value, self.low), self.high) - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def size_ticks(self, count: int = 4) -> list[float]:
        """Return about ``count`` sizes in bytes that are round in KiB, MiB or a larger unit."""
        unit = 1024 ** max(0, math.floor(math.log(max(1.0, self.high), 1024)))
        return [unit * tick for tick in Scale(self.low / unit, self.high / unit, 0, 1).ticks(count)]

    def ticks(self, count: int = 5) -> list[float]:
        """Return about ``count`` round values of the range."""
        span = self.high - self.low
        if span <= 0:
            return [self.low]
        step = 10 ** math.floor(math.log10(span / count))
        step = next(size * step for size in (1, 2, 5, 10) if span / (size * step) <= count + 1)
        if isinstance(step, int):  # the quotients of offsets above 2^53 have no exact float
            return [number * step for number in range(int(-(-self.low // step)), int(self.high // step) + 1)]
        first = math.ceil(self.low / step)
        return [number * step for number in range(first, math.floor(self.high / step) + 1)]
