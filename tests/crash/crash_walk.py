"""Takes the power of a disk before every changing call of an operation, and after the last, and looks at what is found.

An operation runs once: before each of its calls the disk says what may be found if the power went now, and each such
disk is examined. Nothing is skipped: the loss of a call that is under way is the loss of what it changed, which is not
safe yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from tidelog.testing import DiskCall, SimulatedDisk

_P = TypeVar("_P", covariant=True)


class Told(Protocol[_P]):
    """A story: its disk, and what it has promised at the moment."""

    disk: SimulatedDisk

    def promise(self) -> _P: ...


_S = TypeVar("_S", bound=Told[Any])


@dataclass(slots=True, kw_only=True)
class CrashWalk(Generic[_S]):
    """``states``: how many found disks are examined at a crash point, at most; ``every``: one point in so many.

    ``examine``: raises where a found disk does not hold what the story had promised.
    """

    states: int
    every: int = 1
    seed: int = 0
    examine: Callable[[SimulatedDisk, Any], None]
    points: int = 0
    """Moments at which the power could go."""
    examined: int = 0
    _failure: BaseException | None = field(default=None, init=False)
    """What an examination raised, lest the operation takes it for a failure of its own."""

    def run(self, story: _S, operation: Callable[[_S], None]) -> None:
        """``story`` is set up, and safe where it should be."""
        story.disk.before_call = lambda call: self._point(story, call)
        try:
            operation(story)
            self._point(story, None)
        finally:
            story.disk.before_call = None
            if self._failure is not None:
                raise self._failure

    def _point(self, story: _S, call: DiskCall | None) -> None:
        self.points += 1
        if call is not None and (self.points + self.seed) % self.every:
            return
        promise = story.promise()
        for number, found in enumerate(story.disk.survivors(self.states, seed=self.seed + self.points)):
            self.examined += 1
            try:
                self.examine(found, promise)
            except BaseException as error:
                where = "after the last call" if call is None else f"before {call}"
                error.add_note(f"crash {where}, state {number} of seed {self.seed + self.points}")
                error.add_note(f"promised: {promise}"[:2000])
                error.add_note("\n".join(f"{path.name}: {len(data)}" for path, data in found.files().items()))
                self._failure = self._failure or error
                raise
