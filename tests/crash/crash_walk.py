"""A power cut before every changing call of an operation and after the last, with a check of each disk found.

An operation runs once. Before each of its calls the disk gives the states that a power cut would leave now, and each of
them is examined. Nothing is skipped: losing the current call means losing its change, which is not durable yet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from tidelog.testing import DiskCall, SimulatedDisk

_P = TypeVar("_P", covariant=True)


class Told(Protocol[_P]):
    """A story with its disk and its current promise."""

    disk: SimulatedDisk

    def promise(self) -> _P: ...


_S = TypeVar("_S", bound=Told[Any])


@dataclass(slots=True, kw_only=True)
class CrashWalk(Generic[_S]):
    """A walk over one in ``every`` crash points, which examines at most ``states`` disks at each.

    ``examine`` raises an error if a found disk does not hold the story's promise.
    """

    states: int
    every: int = 1
    seed: int = 0
    examine: Callable[[SimulatedDisk, Any], None]
    points: int = 0
    """The number of moments at which the power could fail."""
    examined: int = 0
    _failure: BaseException | None = field(default=None, init=False)
    """The error of an examination, stored so that the operation does not handle it as its own."""

    def run(self, story: _S, operation: Callable[[_S], object]) -> None:
        """Run the operation on a prepared story, and examine its crash points."""
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
