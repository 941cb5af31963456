"""Counts the calls of Python and C functions, for tests that bound work without a clock."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Self


class CountedCalls:
    """Counts the calls of this thread inside a ``with`` block."""

    def __init__(self) -> None:
        self.number = 0

    def __enter__(self) -> Self:
        self._before = sys.getprofile()
        sys.setprofile(self._count)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)

    def _count(self, _frame: FrameType, event: str, _argument: Any) -> None:
        self.number += event in ("call", "c_call")
