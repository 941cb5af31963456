"""A held lock on a file of a simulated disk, with the Lock protocol. Thread rule: any thread."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


class SimulatedLock:
    __slots__ = ("_path", "_release")

    def __init__(self, path: Path, release: Callable[[], None]) -> None:
        self._path = path
        self._release: Callable[[], None] | None = release

    @property
    def path(self) -> Path:
        return self._path

    def release(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()
