"""The progress of a mirror on a terminal: a bar with rate, missing records and time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from tidelog.cli.options import is_quiet
from tidelog.inspect.printable import escaped
from tidelog.mirroring.run.progress import MirrorProgress


@contextmanager
def mirror_bar(description: str) -> Iterator[tuple[Callable[[MirrorProgress], None], Callable[[str], None]]]:
    """Yield a function that shows progress, and a function that prints an event to stderr.

    Show no bar with ``--quiet``, or if stderr is no terminal. Events are printed in each case, but for ``--quiet``.
    """
    if is_quiet():
        yield (lambda _progress: None), (lambda _event: None)
        return
    if not sys.stderr.isatty():
        yield (lambda _progress: None), _print_event
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[bytes]} at"),
        TransferSpeedColumn(),
        TextColumn("{task.fields[lag]} records missing, {task.fields[left]} left"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=None, bytes="", lag="", left="")

        def show(now: MirrorProgress) -> None:
            bar.update(
                task,
                total=max(1, now.copied_records + now.lag),
                completed=now.copied_records,
                bytes=f"{now.copied_bytes / 1e6:,.1f} MB",
                lag=f"{now.lag:,}",
                left="?" if now.left_ms is None else f"{now.left_ms / 1000:,.0f} s",
            )

        yield show, lambda event: bar.console.print(escaped(event), markup=False)


def _print_event(event: str) -> None:
    click.echo(escaped(event), err=True)
