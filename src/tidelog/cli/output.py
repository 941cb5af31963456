"""Prints a report as tables, JSON, JSON lines or CSV: the command line's only writer to stdout.

Tables format numbers for people, with thousands separators. The other formats keep plain numbers. Control characters in
a data directory's text are escaped before they reach a terminal.
"""

from __future__ import annotations

import csv
import enum
import io
import itertools
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TextIO

from tidelog.cli.report import Report, Row, Table
from tidelog.inspect.printable import escaped

_UNSAFE = re.compile(r"[\x7f-\x9f\ud800-\udfff]")
"""Characters that JSON may leave unescaped but a terminal or UTF-8 cannot take: C1 controls and lone surrogates."""


class Format(enum.StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


def print_report(report: Report, form: Format, out: TextIO | None = None, errors: TextIO | None = None) -> None:
    """Print to ``out`` and ``errors``, by default stdout and stderr. The report's exit code is final on return."""
    out = sys.stdout if out is None else out
    errors = sys.stderr if errors is None else errors
    if report.text is not None:
        for chunk in report.text:
            out.write(chunk)
    else:
        match form:
            case Format.JSON:
                _print_json(report.rows, out)
            case Format.JSONL:
                for row in _flushed_rows(report, out):
                    out.write(json_text(row) + "\n")
            case Format.CSV:
                _print_csv(report, out)
            case Format.TABLE:
                tables = report.tables or [Table(rows=report.rows, columns=report.columns, title=report.title)]
                for table in tables:
                    _print_table(table, out, live=report.live)
    out.flush()
    notes_to = out if form is Format.TABLE and report.text is None else errors
    for note in report.notes:
        if notes_to is out or errors.isatty():
            notes_to.write(escaped(note) + "\n")
    notes_to.flush()


def _flushed_rows(report: Report, out: TextIO) -> Iterable[Row]:
    for row in report.rows:
        yield row
        if report.live:
            out.flush()


def json_text(value: object) -> str:
    """Return JSON that a terminal and UTF-8 can take."""
    text = json.dumps(value, default=_plain, ensure_ascii=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _print_json(rows: Iterable[Row], out: TextIO) -> None:
    # Write row by row: a report may be larger than memory. The output stays a complete JSON array after an error.
    separator = "[\n"
    try:
        for row in rows:
            out.write(separator + json_text(row))
            separator = ",\n"
    finally:
        out.write("[]\n" if separator == "[\n" else "\n]\n")


def _print_csv(report: Report, out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    rows = iter(_flushed_rows(report, out))
    first = next(rows, None)
    if first is None:
        if report.columns:
            writer.writerow(report.columns)
        return
    names = list(first)
    writer.writerow(names)
    escape = out.isatty()
    for row in itertools.chain((first,), rows):
        writer.writerow([_cell(row.get(name), escape=escape) for name in names])


def _cell(value: object, *, escape: bool) -> object:
    if value is None:
        return ""
    if isinstance(value, Mapping | list | tuple):
        return json_text(value)
    if not isinstance(value, str | bytes):
        return value
    text = str(_plain(value))
    return escaped(text) if escape else text


def _plain(value: object) -> object:
    """Convert a type that JSON lacks. Bytes become text if they are UTF-8, else hex after ``0x``."""
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "0x" + raw.hex()
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return str(value)


def _print_table(table: Table, out: TextIO, *, live: bool) -> None:
    if table.widths is not None:
        _print_stream(table, table.widths, out, live=live)
        return
    rows = list(table.rows)
    if rows:
        _rich_table(rows, table, table.columns or list(rows[0]), out)


def _print_stream(table: Table, widths: Mapping[str, int], out: TextIO, *, live: bool) -> None:
    columns: Sequence[str] | None = table.columns
    for number, row in enumerate(table.rows):
        columns = columns or list(row)
        if number == 0:
            out.write(_line([_heading(name) for name in columns], columns, widths) + "\n")
        out.write(_line([_text(row.get(name), table.show.get(name)) for name in columns], columns, widths) + "\n")
        if live:
            out.flush()


def _line(cells: Sequence[str], columns: Sequence[str], widths: Mapping[str, int]) -> str:
    return "  ".join(cell.ljust(widths.get(name, 0)) for name, cell in zip(columns, cells, strict=True)).rstrip()


def _rich_table(rows: Sequence[Row], shown: Table, columns: Sequence[str], out: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    title = Text(escaped(shown.title)) if shown.title else None  # ``Text`` keeps brackets
    table = RichTable(title=title, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in columns:
        numeric = name not in shown.show and all(_is_number(row.get(name)) for row in rows)
        table.add_column(_heading(name), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_text(row.get(name), shown.show.get(name))) for name in columns))
    if shown.total is not None:
        table.add_section()
        table.add_row(*(Text(_human(shown.total[name]) if name in shown.total else "") for name in columns))
    buffer = io.StringIO()
    is_terminal = out.isatty()
    # A pipe has no width: with 1000 characters, a row is not folded.
    Console(file=buffer, force_terminal=is_terminal, width=None if is_terminal else 1000).print(table)
    for line in buffer.getvalue().splitlines():
        out.write(line.rstrip() + "\n")


def _heading(name: str) -> str:
    return name.replace("_", " ")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _text(value: object, show: Callable[[object], str] | None) -> str:
    return escaped(show(value) if show is not None and value is not None else _human(value))


def _human(value: object) -> str:
    match value:
        case None:
            return "–"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.2f}"
        case list() | tuple() | dict():
            return json_text(value) if value else "–"
        case bytes() | bytearray():
            return str(_plain(value))
    return str(value)
