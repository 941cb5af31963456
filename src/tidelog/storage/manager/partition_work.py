"""The same work for many partitions in a directory held by the caller: parallel and cancellable.

The largest partitions come first, so that a large one does not run alone at the end. A failure affects only its own
partition. A cancelled or interrupted run sets the event and waits for the running work, which regularly calls
``check_cancelled``. Progress is reported to a listener.

Thread rule: one thread calls ``run``. Any thread may call ``add_progress`` and ``check_cancelled``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tidelog.model import CancelledError, TidelogError
from tidelog.runtime.parallel import run_parallel
from tidelog.runtime.progress import ProgressCounter, ProgressListener


class NamedWork(Protocol):
    @property
    def name(self) -> str: ...


_P = TypeVar("_P", bound=NamedWork)
_R = TypeVar("_R", bound=NamedWork)

Failures = tuple[tuple[str, TidelogError], ...]
"""The names of partitions with their errors, sorted."""


class PartitionWork(Generic[_P]):
    """A single run over ``parts``. ``size`` returns the bytes that a part adds to the total."""

    def __init__(
        self,
        path: Path,
        parts: Sequence[_P],
        size: Callable[[_P], int],
        *,
        on_progress: ProgressListener | None = None,
        cancelled: threading.Event | None = None,
    ) -> None:
        """Several threads call ``on_progress``, one at a time."""
        self._path = path
        self._parts = sorted(parts, key=lambda part: -size(part))
        self._progress = ProgressCounter(len(parts), sum(map(size, parts)), on_progress)
        self.add_progress = self._progress.add
        """Adds finished bytes and partitions."""
        self._cancelled = cancelled or threading.Event()

    def run(self, work: Callable[[_P], _R], *, threads: int, thread_name: str) -> tuple[tuple[_R, ...], Failures]:
        """Return the results and the failures, each sorted by name. Raise CancelledError if the run was cancelled."""
        done: list[_R] = []
        failures: list[tuple[str, TidelogError]] = []

        def run_one(part: _P) -> None:
            self.check_cancelled()
            try:
                done.append(work(part))
            except CancelledError:
                raise
            except TidelogError as error:
                failures.append((part.name, error))
            else:
                self.add_progress(0, logs=1)

        run_parallel(run_one, self._parts, name=thread_name, threads=threads, stop=self._cancelled.set)
        return tuple(sorted(done, key=lambda part: part.name)), tuple(sorted(failures, key=lambda part: part[0]))

    def check_cancelled(self) -> None:
        require_not_cancelled(self._cancelled, self._path)


def require_not_cancelled(cancelled: threading.Event, path: Path) -> None:
    if cancelled.is_set():
        raise CancelledError("the run was cancelled; run it again to continue", path=path)
