"""A group of commands that imports each of them when it is called, so that its help reads no engine."""

from __future__ import annotations

import builtins
import importlib
import keyword
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """``table``: name of a command (also the module's in ``package``, and the function's) -> what its help says first.

    There ``_`` stands for ``-``, and behind a word that is Python's.

    ``heading`` stands over the table in the group's help.
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
