"""A progress bar on stderr with rate and time left: only on a terminal, and not with ``--quiet``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tidelog.cli.options import is_quiet

Advance = Callable[[int], None]


@contextmanager
def progress(description: str, total_bytes: int | None) -> Iterator[Advance]:
    """Yields ``advance(bytes)``, safe to call from several threads; shows nothing where nobody looks."""
    if is_quiet() or not sys.stderr.isatty():
        yield lambda _bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total_bytes)
        yield lambda count: bar.advance(task, count)
