"""Options several commands share."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def output_options(command: F) -> F:
    """``--json``, ``--jsonl``, ``--csv`` (a table by default) and ``--quiet``; read by ``main``'s result callback."""
    for name, text in (
        ("csv", "Print comma-separated values with a header line."),
        ("jsonl", "Print one JSON object a line."),
        ("json", "Print one JSON array."),
    ):
        command = click.option(f"--{name}", is_flag=True, expose_value=False, callback=_remember(name), help=text)(command)
    return click.option(
        "--quiet", "-q", is_flag=True, expose_value=False, callback=_remember("quiet"), help="No progress bar, no notes."
    )(command)


def _remember(name: str) -> Callable[[click.Context, click.Parameter, bool], None]:
    def callback(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
        root = context.find_root()
        chosen = root.ensure_object(dict)
        if not value:
            return
        if name != "quiet" and (other := chosen.get("format", name)) != name:
            raise click.UsageError(f"--{other} and --{name} exclude each other.", context)
        chosen["quiet" if name == "quiet" else "format"] = True if name == "quiet" else name

    return callback


def is_quiet() -> bool:
    return bool(click.get_current_context().find_root().ensure_object(dict).get("quiet"))


def expand(patterns: Iterable[str]) -> list[Path]:
    """Paths for arguments that may hold globs the shell did not expand; a path that is not there stays, to be named."""
    paths: list[Path] = []
    for pattern in patterns:
        found = sorted(glob.glob(pattern)) if glob.has_magic(pattern) and not Path(pattern).exists() else [pattern]
        if not found:
            raise click.UsageError(f"Nothing matches {pattern!r}.")
        paths += (Path(name) for name in found)
    return paths
