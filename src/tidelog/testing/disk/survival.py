"""Who decides what a disk is found to hold after its power failed: nobody (all or nothing), chance, or everything.

Whatever can be lost asks ``pick(n)`` which of its ``n`` states it is found in, oldest first; ``begin`` announces the
next file, or the names. The questions come in a fixed order, so the answers say all: chance is repeated by its seed,
and ``EveryChoice`` counts through the answers like an odometer.

Called by: the simulated disk. Thread rule: one thread.
"""

from __future__ import annotations

import enum
import random
from typing import Protocol


class Chooser(Protocol):
    def begin(self) -> None:
        """The questions that follow are about something else than those before."""
        ...

    def pick(self, count: int) -> int:
        """One of ``range(count)``: 0 is the oldest state, the last one the newest."""
        ...


class Lost:
    """Nothing is there that was not synced."""

    __slots__ = ()

    def begin(self) -> None: ...

    def pick(self, count: int) -> int:
        return 0


class Kept:
    """All is there, as after an orderly stop."""

    __slots__ = ()

    def begin(self) -> None: ...

    def pick(self, count: int) -> int:
        return count - 1


class _Mood(enum.Enum):
    LOST = enum.auto()
    KEPT = enum.auto()
    BEGINNING = enum.auto()
    """Kept up to some point, lost from there on: what a disk does that writes in order."""
    END = enum.auto()
    """The other way round."""
    ANY = enum.auto()


class Chance:
    """States at random. Each file, and the names, are in one mood, for single choices alone would hardly ever agree."""

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
    """Each state in turn: ask all questions, then ``advance``, until that says that there is no other."""

    __slots__ = ("_asked", "_picked")

    def __init__(self) -> None:
        self._picked: list[int] = []
        self._asked: list[int] = []
        """Of how many states each was picked."""

    def begin(self) -> None: ...

    def pick(self, count: int) -> int:
        at = len(self._asked)
        if at == len(self._picked):
            self._picked.append(0)
        self._asked.append(count)
        return self._picked[at]

    def advance(self) -> bool:
        """Turn to the next state; False after the last one."""
        picked = self._picked[: len(self._asked)]
        while picked and picked[-1] == self._asked[len(picked) - 1] - 1:
            picked.pop()
        if picked:
            picked[-1] += 1
        self._picked, self._asked = picked, []
        return bool(picked)
