"""The option ``--now``, apart from the others: it needs the inspector's times, and few commands need it."""

from __future__ import annotations

import click

from tidelog.cli.options import F
from tidelog.inspect.bounds import BoundKind, parse_time
from tidelog.runtime import SYSTEM_CLOCK

_HELP = "Judge as of this time: ms since 1970, or a date and time.  [default: now]"


def now_option(command: F) -> F:
    """Add ``now_ms``, the time as of which a report judges."""
    return click.option("--now", "now_ms", metavar="TIME", callback=_moment, help=_HELP)(command)


def _moment(_context: click.Context, _option: click.Parameter, text: str | None) -> int:
    if text is None:
        return SYSTEM_CLOCK.now_ms()
    bound = parse_time(text)
    if bound.kind is not BoundKind.TIMESTAMP:
        raise click.UsageError(f"--now {text!r} is not a time.")
    return bound.number
