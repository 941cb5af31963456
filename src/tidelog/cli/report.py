"""What a command returns: rows for programs and people, or text as it is. Printing is ``output``'s business."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

CLEAN = 0
FINDINGS = 1
USAGE = 2
UNREADABLE = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Rows (each a mapping with the same keys) or ``text``; ``columns`` picks and orders what a table shows.

    ``notes`` are sentences for people, printed after the table and never into JSON or CSV.
    ``findings`` and ``unreadable`` decide the exit code once the rows have been read; callables, since rows may be lazy.
    """

    rows: Iterable[Mapping[str, object]] = ()
    columns: Sequence[str] | None = None
    title: str = ""
    notes: Sequence[str] = ()
    text: Iterable[str] | None = None
    exit_code: ExitCode = field(default_factory=lambda: ExitCode())


@dataclass(slots=True)
class ExitCode:
    """The command's exit code; a lazy report raises it while its rows are read."""

    value: int = CLEAN

    def at_least(self, code: int) -> None:
        self.value = max(self.value, code)
