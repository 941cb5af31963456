"""Plans and runs for callers without an event loop: the command and the Python API.

Signals are handled only if the caller asks for it, and only in the main thread: SIGINT and SIGTERM then stop the run
cleanly. A second signal has Python's usual effect.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, Final, TypeVar

from tidelog.mirroring.planning.options import MirrorOptions
from tidelog.mirroring.planning.plan import MirrorPlan, make_plan
from tidelog.mirroring.run.mirror_run import MirrorRun, RunEnvironment
from tidelog.mirroring.run.progress import EventCallback, MirrorResult, ProgressCallback

Result = TypeVar("Result")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_LOOK_S: Final = 0.1
"""The time between two looks at the stop event of another thread."""


def plan_mirror(options: MirrorOptions) -> MirrorPlan:
    """Return the plan; see ``make_plan``."""
    return _run(lambda: make_plan(options))


def run_mirror(
    options: MirrorOptions,
    *,
    on_progress: ProgressCallback = lambda _progress: None,
    on_event: EventCallback = lambda _event: None,
    stop: threading.Event | None = None,
    handles_signals: bool = False,
    environment: RunEnvironment | None = None,
) -> MirrorResult:
    """Run to the end; see ``MirrorRun.run``. Setting ``stop`` ends the run cleanly, from any thread."""
    stop = stop or threading.Event()

    async def watched() -> MirrorResult:
        run = MirrorRun(options, on_progress=on_progress, on_event=on_event, environment=environment)
        watcher = asyncio.get_running_loop().create_task(_stop_when(stop, run))
        if handles_signals:
            _handle_signals(stop)
        try:
            return await run.run()
        finally:
            watcher.cancel()

    with _kept_handlers() if handles_signals else nullcontext():
        return _run(watched)


@contextmanager
def _kept_handlers() -> Iterator[None]:
    """Restore the handlers of this process: an event loop leaves Python's own or none."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _stop_when(stop: threading.Event, run: MirrorRun) -> None:
    while not stop.is_set():
        await asyncio.sleep(_LOOK_S)
    run.stop()


def _handle_signals(stop: threading.Event) -> None:
    loop = asyncio.get_running_loop()

    def on_signal() -> None:
        stop.set()
        for number in _SIGNALS:
            loop.remove_signal_handler(number)

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal)


def _run(work: Callable[[], Coroutine[Any, Any, Result]]) -> Result:
    """Run a coroutine function on an event loop of its own, and return its result."""
    import uvloop  # imported late: a plan that fails on its options does not need it

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work())
