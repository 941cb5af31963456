"""A copy that is open in a test, on an event loop in a background thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar

from tidelog.mirroring.target.mirror_directory import DirectorySetup, MirrorDirectory
from tidelog.mirroring.target.target_settings import TargetSettings
from tidelog.runtime import SYSTEM_CLOCK, ThreadScheduler
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.testing.broker.loop_thread import LoopThread

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

SOURCE = "source-cluster-id"


class OpenedCopy:
    def __init__(self, path: Path, fs: FileSystem = LOCAL, *, cluster_id: str = SOURCE) -> None:
        self.loop = LoopThread()
        self._scheduler = ThreadScheduler(2)
        self._scheduler.startup()
        self._pool = ThreadPoolExecutor(2)
        self.directory = MirrorDirectory(
            DirectorySetup(
                fs=fs,
                settings=TargetSettings.of(path),
                source_cluster_id=cluster_id,
                compacts=False,
                clock=SYSTEM_CLOCK,
                scheduler=self._scheduler,
                in_thread=self._in_thread,
                on_failure=lambda _error: None,
            )
        )

    def _in_thread(
        self, function: Callable[Arguments, Result], *args: Arguments.args, **named: Arguments.kwargs
    ) -> Awaitable[Result]:
        return self.loop.loop.run_in_executor(self._pool, lambda: function(*args, **named))

    def open(self) -> None:
        self.loop.run(self.directory.open)

    def close(self) -> None:
        self.loop.run(self.directory.close)

    def end(self) -> None:
        """End the threads. A copy that was not closed stays as a crash leaves it."""
        self._scheduler.shutdown()
        self._pool.shutdown()
        self.loop.stop()


@contextmanager
def opened_copy(path: Path) -> Iterator[OpenedCopy]:
    copy = OpenedCopy(path)
    try:
        copy.open()
        yield copy
        copy.close()
    finally:
        copy.end()
