"""Options of the commands that read records: the range, and the format of keys and values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tidelog.inspect.record_rows import BytesFormat, RowShape

F = TypeVar("F", bound=Callable[..., Any])

_BOUND = (
    "an offset, -N for N offsets before the end, a date and time (UTC unless it says otherwise), @MS since 1970,"
    " earliest or latest"
)


def bound_options(command: F) -> F:
    """Add ``start`` and ``end``, texts for ``bounds.parse_bound``."""
    command = click.option(
        "--end",
        default="latest",
        show_default=True,
        metavar="WHERE",
        help="The end, exclusive, in the forms of --start.",
    )(command)
    return click.option(
        "--start", default="earliest", show_default=True, metavar="WHERE", help=f"The start: {_BOUND}."
    )(command)


def shape_options(command: F) -> F:
    """Add ``key_format`` and ``value_format``, from which ``shape_of`` makes a RowShape."""
    for side in ("value", "key"):
        command = click.option(
            f"--{side}-format",
            type=click.Choice([form.value for form in BytesFormat]),
            default=BytesFormat.AUTO.value,
            show_default=True,
            help=f"The form of a {side}: auto is text for UTF-8, else hex after 0x; json parses it; none omits it.",
        )(command)
    return command


def shape_of(key_format: str, value_format: str) -> RowShape:
    return RowShape(key_format=BytesFormat(key_format), value_format=BytesFormat(value_format))
