"""Carries out plans for log directories one by one, with a progress bar and cancellation by Ctrl-C."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import click

from tidelog.cli.progress import progress
from tidelog.cli.report import UNREADABLE, ExitCode, Report, Row, Table
from tidelog.cli.targets import Target
from tidelog.inspect.printable import escaped
from tidelog.model import CancelledError, TidelogError
from tidelog.runtime.progress import Progress, ProgressListener

T = TypeVar("T")


def apply_to_each(targets: Sequence[Target], apply: Callable[[Target], T], exit_code: ExitCode) -> list[T]:
    """Return the results. Print the error of a failed directory to stderr (exit code 3) and go on with the next one."""
    results = []
    for target in targets:
        try:
            results.append(apply(target))
        except CancelledError:
            raise
        except TidelogError as error:
            click.echo(f"Error: {escaped(str(error))}", err=True)
            exit_code.at_least(UNREADABLE)
    return results


def applied_report(
    rows: Sequence[Row], columns: Sequence[str], *, several: bool, notes: Sequence[str], exit_code: ExitCode
) -> Report:
    """Report finished work. ``several`` adds a directory column, and a failure adds an error column."""
    where = ["directory"] * several
    failed = any(row["error"] is not None for row in rows)
    table = Table(rows=rows, columns=[*where, *columns, *(["error"] * failed)])
    return Report(rows=rows, tables=[table], notes=notes, exit_code=exit_code)


def with_progress(
    description: str,
    total_bytes: int,
    work: Callable[[ProgressListener, threading.Event], T],
    *,
    interrupted: str,
) -> T:
    """Run ``work``, which reports progress and stops when the event is set. Print ``interrupted`` after a Ctrl-C."""
    cancelled = threading.Event()
    done = 0
    with progress(description, total_bytes) as advance:

        def on_progress(now: Progress) -> None:
            nonlocal done
            advance(now.bytes_done - done)
            done = now.bytes_done

        try:
            return work(on_progress, cancelled)
        except KeyboardInterrupt:
            click.echo(f"Interrupted: {interrupted}", err=True)
            raise


def warn_of_space(path: Path, needed: int) -> None:
    """Warn on stderr if the disk of ``path`` has less than ``needed`` bytes free."""
    free = shutil.disk_usage(path).free
    if free < needed:
        needs = f"up to {needed:,} bytes are needed, {free:,} are free"
        click.echo(f"Warning: {escaped(str(path))}: {needs}.", err=True)
