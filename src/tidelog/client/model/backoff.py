"""Exponential back-off with jitter: the wait before the next attempt.

The wait doubles with each failure, up to a maximum. A random change of up to a fifth keeps many clients from returning
at the same moment. This module is pure except for the random number.
Source: Kafka's ``ExponentialBackoff``, KIP-144, KIP-580.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_JITTER: Final = 0.2
_MOST_DOUBLINGS: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    initial_ms: int
    max_ms: int
    uniform: Callable[[float, float], float] = random.uniform

    def delay_ms(self, failures: int) -> float:
        """Return the wait after this number of failures in a row; 0 after none."""
        if failures <= 0:
            return 0.0
        delay_ms = float(min(self.initial_ms << min(failures - 1, _MOST_DOUBLINGS), self.max_ms))
        return min(delay_ms * self.uniform(1 - _JITTER, 1 + _JITTER), self.max_ms)
