"""The choice of a disk's state after a power loss: all changes lost or kept, random, or each state.

Each file, and the names together, call ``pick(n)`` to choose one of their ``n`` states, oldest first. ``begin``
announces the next file, or the names. The sequence of the calls is fixed, so the choices determine the result. A seed
repeats a random choice, and ``EveryChoice`` counts through the choices like an odometer. Thread rule: one thread.
"""

from __future__ import annotations

import enum
import random
from typing import Protocol


class Chooser(Protocol):
    def begin(self) -> None:
        """Announce that the next choices are about another file, or the names."""
        ...

    def pick(self, count: int) -> int:
        """Return a number of ``range(count)``: 0 is the oldest state, the last one the newest."""
        ...


class Lost:
    """No unsynced change is there."""

    __slots__ = ()

    def begin(self) -> None: ...

    def pick(self, count: int) -> int:
        return 0


class Kept:
    """Every change is there, as after a clean shutdown."""

    __slots__ = ()

    def begin(self) -> None: ...

    def pick(self, count: int) -> int:
        return count - 1


class _Mood(enum.Enum):
    LOST = enum.auto()
    KEPT = enum.auto()
    BEGINNING = enum.auto()
    """Changes are kept up to some point and lost after it, as on a disk that writes in sequence."""
    END = enum.auto()
    """Changes are lost up to some point and kept after it."""
    ANY = enum.auto()


class Chance:
    """Random states. Each file, and the names, have one mood, because independent choices would hardly ever agree."""

    __slots__ = ("_mood", "_moods", "_random", "_turned")

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._moods = list(_Mood)
        if self._random.random() < 0.3:
            self._moods = [self._random.choice(self._moods)]
        self._mood = _Mood.ANY
        self._turned = False

    def begin(self) -> None:
        self._mood = self._random.choice(self._moods)
        self._turned = False

    def pick(self, count: int) -> int:
        if self._mood is _Mood.ANY:
            return self._random.randrange(count)
        if self._mood in (_Mood.BEGINNING, _Mood.END) and not self._turned and self._random.random() < 0.25:
            self._turned = True
            return self._random.randrange(count)
        kept = self._mood is _Mood.KEPT or (self._mood is _Mood.BEGINNING) != self._turned
        return count - 1 if kept else 0


class EveryChoice:
    """Each state in turn: make all choices, then call ``advance``, until it returns False."""

    __slots__ = ("_asked", "_picked")

    def __init__(self) -> None:
        self._picked: list[int] = []
        self._asked: list[int] = []
        """The number of states at each choice."""

    def begin(self) -> None: ...

    def pick(self, count: int) -> int:
        at = len(self._asked)
        if at == len(self._picked):
            self._picked.append(0)
        self._asked.append(count)
        return self._picked[at]

    def advance(self) -> bool:
        """Go to the next state. Return False after the last one."""
        picked = self._picked[: len(self._asked)]
        while picked and picked[-1] == self._asked[len(picked) - 1] - 1:
            picked.pop()
        if picked:
            picked[-1] += 1
        self._picked, self._asked = picked, []
        return bool(picked)
