"""The same work for many items in several threads, with the results in the order of the items.

The caller waits for all calls. An error of a call, or an interrupt of the caller, ends the run: calls that have not
begun never begin, ``stop`` asks the others to end, and the error is raised after the last one has ended.

Work of other shapes has modules of its own: results that are taken one by one in bounded memory, background tasks
(``scheduler``), and one thread that runs ahead (``ahead``). Thread rule: any thread.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar, cast

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_STEP_SECONDS = 0.5
"""The caller waits in steps: a signal that arrives just before a wait begins is handled when the step ends."""


def usable_processors() -> int:
    """Return the number of processors. It is below the machine's number if the process is bound to some of them."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True, slots=True)
class ThreadGroup(Generic[_Item]):
    """Items with threads of their own, such as the logs of one disk. ``name`` is the prefix of the threads' names."""

    name: str
    threads: int
    items: Iterable[_Item]


def run_parallel(
    work: Callable[[_Item], _Result],
    items: Iterable[_Item],
    *,
    name: str,
    threads: int | None = None,
    stop: Callable[[], None] = lambda: None,
) -> list[_Result]:
    """Return ``work`` of each item. ``threads`` None means one per processor."""
    return run_groups(work, [ThreadGroup(name, threads or usable_processors(), items)], stop=stop)


def run_groups(
    work: Callable[[_Item], _Result], groups: Iterable[ThreadGroup[_Item]], *, stop: Callable[[], None] = lambda: None
) -> list[_Result]:
    """Return ``work`` of each item of all groups, which run at the same time."""
    calls = _Calls(work)
    added = [(group, calls.add(group.items)) for group in groups]
    with ExitStack() as pools:
        try:
            for group, items in added:
                pool = pools.enter_context(ThreadPoolExecutor(group.threads, thread_name_prefix=group.name))
                for _ in range(min(group.threads, len(items))):
                    pool.submit(calls.run, items)
            while calls.left and not calls.is_settled.wait(_STEP_SECONDS):
                pass
        finally:
            if calls.end():
                stop()
    return calls.results()


class _Calls(Generic[_Item, _Result]):
    """The calls of a run. A thread takes one item after the other, because a future for each would cost more."""

    def __init__(self, work: Callable[[_Item], _Result]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._results: list[_Result | None] = []
        self._running: set[int] = set()
        self._errors: dict[int, BaseException] = {}
        self.left = 0
        """The number of calls that have not ended."""
        self._is_ended = False
        self.is_settled = threading.Event()
        """Set after the last call, or when no earlier item than that of the first error is running."""

    def add(self, items: Iterable[_Item]) -> deque[tuple[int, _Item]]:
        """Add the items of a group before any call. Return them with their numbers, for its threads."""
        numbered = deque(enumerate(items, len(self._results)))
        self._results += [None] * len(numbered)
        self.left += len(numbered)
        return numbered

    def run(self, items: deque[tuple[int, _Item]]) -> None:
        """Run the calls of a group. Each of its threads does it."""
        while (taken := self._take(items)) is not None:
            number, item = taken
            try:
                self._results[number] = self._work(item)
            except BaseException as error:
                self._note(number, error)
            else:
                self._note(number, None)

    def end(self) -> bool:
        """Let no other call begin. Return False if all have ended well."""
        with self._lock:
            self._is_ended = True
            return self.left > 0 or bool(self._errors)

    def results(self) -> list[_Result]:
        """Return the results in the order of the items, or raise the error of the first item that has one."""
        if self._errors:
            raise self._errors[min(self._errors)]
        return cast("list[_Result]", self._results)

    def _take(self, items: deque[tuple[int, _Item]]) -> tuple[int, _Item] | None:
        with self._lock:
            if not items or self._errors or self._is_ended:
                return None
            self._running.add(items[0][0])
            return items.popleft()

    def _note(self, number: int, error: BaseException | None) -> None:
        with self._lock:
            self.left -= 1
            self._running.discard(number)
            if error is not None:
                self._errors[number] = error
            if not self.left or (self._errors and min(self._errors) < min(self._running, default=len(self._results))):
                self.is_settled.set()
