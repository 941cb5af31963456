"""Plans and runs for callers without an event loop: the command and the Python API.

Each call has an event loop of its own, in the calling thread. Signals are the caller's business: it sets ``stop``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from tidelog.mirroring.planning.options import MirrorOptions
from tidelog.mirroring.planning.plan import MirrorPlan, make_plan
from tidelog.mirroring.run.mirror_run import MirrorRun, RunEnvironment
from tidelog.mirroring.run.progress import EventCallback, MirrorResult, ProgressCallback

Result = TypeVar("Result")

_LOOK_S: Final = 0.1
"""The time between two looks at the stop event, which a signal or another thread sets."""


def plan_mirror(options: MirrorOptions) -> MirrorPlan:
    """Return the plan; see ``make_plan``."""
    return _run(lambda: make_plan(options))


def run_mirror(
    options: MirrorOptions,
    *,
    on_progress: ProgressCallback = lambda _progress: None,
    on_event: EventCallback = lambda _event: None,
    stop: threading.Event | None = None,
    environment: RunEnvironment | None = None,
) -> MirrorResult:
    """Run to the end; see ``MirrorRun.run``. Setting ``stop`` ends the run cleanly, from any thread."""
    stop = stop or threading.Event()

    async def watched() -> MirrorResult:
        run = MirrorRun(options, on_progress=on_progress, on_event=on_event, environment=environment)
        watcher = asyncio.get_running_loop().create_task(_stop_when(stop, run))
        try:
            return await run.run()
        finally:
            watcher.cancel()

    return _run(watched)


async def _stop_when(stop: threading.Event, run: MirrorRun) -> None:
    while not stop.is_set():
        await asyncio.sleep(_LOOK_S)
    run.stop()


def _run(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine function on an event loop of its own, and return its result."""
    import uvloop  # imported late: a plan that fails on its options does not need it

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work())
