"""A progress bar on stderr with rate and time left, shown only on a terminal and without ``--quiet``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.cli.options import is_quiet
from tidelog.model.errors import CancelledError


class CancellableAdvance:
    """A callable that counts bytes read, from any thread. After ``cancel`` each call raises CancelledError."""

    def __init__(self, show: Callable[[int], None]) -> None:
        self._show = show
        self._cancelled = False

    def __call__(self, count: int) -> None:
        if self._cancelled:
            raise CancelledError("interrupted")
        self._show(count)

    def cancel(self) -> None:
        self._cancelled = True


@contextmanager
def progress(description: str, total_bytes: int | None) -> Iterator[CancellableAdvance]:
    """Yield the counter for bytes read. Show no bar with ``--quiet``, or if stderr is no terminal."""
    if is_quiet() or not sys.stderr.isatty():
        yield CancellableAdvance(lambda _bytes: None)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    text, left = TextColumn("{task.description}"), TimeRemainingColumn()
    columns = (text, BarColumn(), DownloadColumn(), TransferSpeedColumn(), left)
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total_bytes)
        yield CancellableAdvance(lambda count: bar.advance(task, count))
