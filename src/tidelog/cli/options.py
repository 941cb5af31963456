"""Options that several commands share, and the expansion of path arguments."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

import click

from tidelog.storage.fs import is_url, path_of

F = TypeVar("F", bound=Callable[..., Any])


def output_options(command: F) -> F:
    """Add ``--json``, ``--jsonl``, ``--csv`` and ``--quiet``, which ``main``'s result callback reads."""
    for name, text in (
        ("csv", "Print comma-separated values with a header line."),
        ("jsonl", "Print one JSON object per line."),
        ("json", "Print one JSON array."),
    ):
        option = click.option(f"--{name}", is_flag=True, expose_value=False, callback=_remember(name), help=text)
        command = option(command)
    quiet = _remember("quiet")
    return click.option(
        "--quiet",
        "-q",
        is_flag=True,
        expose_value=False,
        callback=quiet,
        help="No progress bar and no notes.",
    )(command)


def selection(command: F) -> F:
    """Add the parameters ``arguments`` and ``topics``, which ``targets.select`` turns into log directories."""
    command = click.option(
        "--topic",
        "-t",
        "topics",
        multiple=True,
        metavar="NAME",
        help="Only this TOPIC or TOPIC-PARTITION; the wildcards * and ? match several. Repeatable; the same as a name"
        " after the directories.",
    )(command)
    return click.argument("arguments", nargs=-1, required=True, metavar="DIR... [TOPIC | TOPIC-PARTITION]...")(command)


def schemas_option(command: F) -> F:
    """Add ``schemas``, the folder of the Avro schemas that the inspector decodes values with."""
    return click.option(
        "--schemas",
        metavar="DIR",
        help="A folder of Avro schemas, named ID.avsc by their schema id. Schemas of a _schemas topic in the"
        " directories are found without it.",
    )(command)


def threads_option(command: F) -> F:
    return click.option(
        "--threads", type=click.IntRange(1), metavar="N", help="The number of threads.  [default: one per processor]"
    )(command)


def reading_options(command: F) -> F:
    """Add ``isolation`` and ``until``, which limit a read."""
    command = click.option(
        "--until",
        type=click.Choice(["log_end", "high_watermark", "checkpoint"]),
        help="Where reading ends: after the last valid batch, at the checkpointed high watermark, or at the recovery"
        " point.  [default: high_watermark in a directory that a running process holds, else log_end]",
    )(command)
    return click.option(
        "--isolation",
        type=click.Choice(["read_uncommitted", "read_committed"]),
        default="read_uncommitted",
        show_default=True,
        help="read_committed omits aborted records and ends at the last stable offset.",
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
    return bool(_chosen().get("quiet"))


def chosen_format() -> str | None:
    """Return ``json``, ``jsonl`` or ``csv``, or None without an output option."""
    return _chosen().get("format")


def _chosen() -> dict[str, Any]:
    chosen: dict[str, Any] = click.get_current_context().find_root().ensure_object(dict)
    return chosen


def expand(patterns: Iterable[str]) -> list[Path]:
    """Return the paths of arguments, and expand globs that the shell left. Raise UsageError if a glob matches nothing.

    A missing path is kept, so that a later error names it. An object storage URL is not expanded.
    """
    paths: list[Path] = []
    for pattern in patterns:
        is_glob = glob.has_magic(pattern) and not is_url(pattern) and not Path(pattern).exists()
        found = sorted(glob.glob(pattern)) if is_glob else [pattern]
        if not found:
            raise click.UsageError(f"Nothing matches {pattern!r}.")
        paths += (path_of(name) for name in found)
    return paths
