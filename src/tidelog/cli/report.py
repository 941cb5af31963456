"""The result of a command: rows for programs, tables for people, or plain text. ``output`` prints it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

CLEAN = 0
FINDINGS = 1
USAGE = 2
UNREADABLE = 3
INTERRUPTED = 130

Row = Mapping[str, object]


@dataclass(slots=True)
class ExitCode:
    """The command's exit code. A lazy report raises it while its rows are read."""

    value: int = CLEAN

    def at_least(self, code: int) -> None:
        self.value = max(self.value, code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows in a form for people. A table without rows is not printed.

    ``columns`` selects and orders the columns. ``show`` formats a column's cells that are not None. ``total`` is a last
    row. With ``widths`` (characters of each column but the last) rows are printed as they arrive and never collected.
    """

    rows: Iterable[Row]
    columns: Sequence[str] | None = None
    title: str = ""
    total: Row | None = None
    show: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    widths: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Rows (mappings with the same keys) or ``text``. All may be lazy, also the notes, which are read last.

    ``columns`` and ``title`` describe the table of ``rows``; ``tables`` replace it if given. ``notes`` are sentences
    for people, printed after the table. With JSON and CSV they go to stderr if that is a terminal. ``live`` rows arrive
    slowly, so each one is flushed at once.
    """

    rows: Iterable[Row] = ()
    columns: Sequence[str] | None = None
    title: str = ""
    tables: Sequence[Table] | None = None
    notes: Iterable[str] = ()
    text: Iterable[str] | None = None
    exit_code: ExitCode = field(default_factory=ExitCode)
    jsonl_by_default: bool = False
    live: bool = False


def count_of_files(names: Sequence[str]) -> str:
    """Return the number of files as text for a table, where many names would hide the rest.

    JSON and CSV list the names.
    """
    return f"{len(names):,} file{'' if len(names) == 1 else 's'}" if names else "–"
