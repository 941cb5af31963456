"""What a command returns: rows for programs, tables of them for people, or text as it is. Printing is ``output``'s."""

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
    """The command's exit code; a lazy report raises it while its rows are read."""

    value: int = CLEAN

    def at_least(self, code: int) -> None:
        self.value = max(self.value, code)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows as a person sees them.

    ``columns`` picks and orders what is shown; ``show`` gives the text of a column's cells that are not None;
    ``total`` is a last row. With ``widths`` (characters a column) rows are printed as they come, never collected; the
    last column has none. A table without rows is not printed.
    """

    rows: Iterable[Row]
    columns: Sequence[str] | None = None
    title: str = ""
    total: Row | None = None
    show: Mapping[str, Callable[[Any], str]] = field(default_factory=dict)
    widths: Mapping[str, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Rows (each a mapping with the same keys), or ``text``. Rows, text and notes may be lazy; notes are read last.

    ``columns`` and ``title`` describe the table that the rows make; ``tables`` replace it where they are given.
    ``notes`` are sentences for people: after the table, or on a terminal's stderr beside JSON and CSV.
    ``live`` rows come slowly: each is shown at once.
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
    """For tables: how many; a hundred names would hide the rest. JSON and CSV have them all."""
    return f"{len(names):,} file{'' if len(names) == 1 else 's'}" if names else "–"
