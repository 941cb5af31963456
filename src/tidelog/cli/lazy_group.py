"""A click group that imports a command's module when the command is called, which keeps ``--help`` fast."""

from __future__ import annotations

import builtins
import importlib
import keyword
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group of commands that are imported on demand.

    ``table`` maps a command's name to the first line of its help. The module in ``package`` and its function both have
    that name, with ``_`` for ``-``, and with a trailing ``_`` if it is a Python keyword or builtin. ``heading`` is the
    title of the table in the group's help.
    """

    def __init__(self, *args: Any, table: Mapping[str, str], package: str, heading: str, **named: Any) -> None:
        super().__init__(*args, **named)
        self._table = table
        self._package = package
        self._heading = heading

    def list_commands(self, _context: click.Context) -> list[str]:
        return sorted(self._table)

    def get_command(self, _context: click.Context, name: str) -> click.Command | None:
        if name not in self._table:
            return None
        is_pythons = keyword.iskeyword(name) or hasattr(builtins, name)
        place = name.replace("-", "_") + "_" * is_pythons
        command: click.Command = getattr(importlib.import_module(f"{self._package}.{place}"), place)
        return command

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(self._heading):
            formatter.write_dl(sorted(self._table.items()))
