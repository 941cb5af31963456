"""The same work for many partitions in a directory held by the caller: parallel and cancellable.

The largest partitions come first, so that a large one does not run alone at the end. A failure affects only its own
partition. A cancelled or interrupted run sets the event and waits for the running work, which regularly calls
``check_cancelled``. Progress is reported to a listener.

Thread rule: one thread calls ``run``. Any thread may call ``tell`` and ``check_cancelled``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from tidelog.model import CancelledError, TidelogError


class NamedPartition(Protocol):
    @property
    def name(self) -> str: ...


_P = TypeVar("_P", bound=NamedPartition)
_R = TypeVar("_R", bound=NamedPartition)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkProgress:
    """Bytes are those of ``.log`` files."""

    partition: str
    bytes_done: int
    bytes_total: int
    partitions_done: int
    partitions_total: int


ProgressListener = Callable[[WorkProgress], None]
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
        self._bytes_total = sum(map(size, parts))
        self._on_progress = on_progress
        self._cancelled = cancelled or threading.Event()
        self._lock = threading.Lock()
        self._bytes_done = 0
        self._parts_done = 0

    def run(self, work: Callable[[_P], _R], *, threads: int, thread_name: str) -> tuple[tuple[_R, ...], Failures]:
        """Return the results and the failures, each sorted by name. Raise CancelledError if the run was cancelled."""
        done: list[_R] = []
        failures: list[tuple[str, TidelogError]] = []
        with ThreadPoolExecutor(threads, thread_name_prefix=thread_name) as pool:
            futures = {pool.submit(self._one, work, part): part for part in self._parts}
            try:
                for future in as_completed(futures):
                    try:
                        done.append(future.result())
                    except CancelledError:
                        raise
                    except TidelogError as error:
                        failures.append((futures[future].name, error))
            except BaseException:
                self._cancelled.set()
                raise
        return tuple(sorted(done, key=lambda part: part.name)), tuple(sorted(failures, key=lambda part: part[0]))

    def add_progress(self, name: str, count: int, *, partitions: int = 0) -> None:
        """Add finished bytes and partitions to the progress."""
        with self._lock:
            self._bytes_done += count
            self._parts_done += partitions
            if self._on_progress is not None:
                self._on_progress(
                    WorkProgress(
                        partition=name,
                        bytes_done=self._bytes_done,
                        bytes_total=self._bytes_total,
                        partitions_done=self._parts_done,
                        partitions_total=len(self._parts),
                    )
                )

    def check_cancelled(self) -> None:
        require_not_cancelled(self._cancelled, self._path)

    def _one(self, work: Callable[[_P], _R], part: _P) -> _R:
        self.check_cancelled()
        result = work(part)
        self.add_progress(part.name, 0, partitions=1)
        return result


def require_not_cancelled(cancelled: threading.Event, path: Path) -> None:
    if cancelled.is_set():
        raise CancelledError("the run was cancelled; run it again to continue", path=path)
