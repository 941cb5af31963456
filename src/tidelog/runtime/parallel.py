"""The same work for many items in several threads, with the results in the order of the items.

The caller waits for all calls. An error of a call, or an interrupt of the caller, ends the run: calls that have not
begun never begin, ``stop`` asks the others to end, and the error is raised after the last one has ended.

Work of other shapes has modules of its own: results that are taken one by one in bounded memory, background tasks
(``scheduler``), and one thread that runs ahead (``ahead``). Thread rule: any thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar

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
    calls: list[Future[_Result]] = []
    with ExitStack() as pools:
        try:
            for group in groups:
                pool = pools.enter_context(ThreadPoolExecutor(group.threads, thread_name_prefix=group.name))
                calls += [pool.submit(work, item) for item in group.items]
            return [_result(call) for call in calls]
        except BaseException:
            stop()
            for call in calls:
                call.cancel()
            raise


def _result(call: Future[_Result]) -> _Result:
    while not wait((call,), timeout=_STEP_SECONDS).done:
        pass
    return call.result()
