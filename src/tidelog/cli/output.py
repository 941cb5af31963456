"""Prints a report as a table, JSON, JSON lines or CSV. The only place the command line writes to stdout.

Tables show units a person reads (bytes and counts with separators); the other three keep plain numbers.
"""

from __future__ import annotations

import csv
import enum
import io
import itertools
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from tidelog.cli.report import Report


class Format(enum.StrEnum):
    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"


def print_report(report: Report, form: Format, out: TextIO | None = None) -> None:
    out = sys.stdout if out is None else out
    if report.text is not None:
        for chunk in report.text:
            out.write(chunk)
        out.flush()
        return
    match form:
        case Format.JSON:
            _print_json(report.rows, out)
        case Format.JSONL:
            for row in report.rows:
                out.write(json.dumps(row, default=_plain, ensure_ascii=False) + "\n")
        case Format.CSV:
            _print_csv(report, out)
        case Format.TABLE:
            _print_table(report, out)
    out.flush()


def _print_json(rows: Iterable[Mapping[str, object]], out: TextIO) -> None:
    # Written row by row: a report may be larger than memory.
    separator = "[\n"
    for row in rows:
        out.write(separator + json.dumps(row, default=_plain, ensure_ascii=False))
        separator = ",\n"
    out.write("[]\n" if separator == "[\n" else "\n]\n")


def _print_csv(report: Report, out: TextIO) -> None:
    rows = iter(report.rows)
    first = next(rows, None)
    if first is None:
        if report.columns:
            csv.writer(out, lineterminator="\n").writerow(report.columns)
        return
    names = list(first)
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in itertools.chain((first,), rows):
        writer.writerow([_cell(row.get(name)) for name in names])


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, Mapping | list | tuple):
        return json.dumps(value, default=_plain, ensure_ascii=False)
    return _plain(value) if isinstance(value, bytes) else value


def _plain(value: object) -> object:
    """JSON for what JSON lacks: bytes as text where they are UTF-8, else as hex behind ``0x``."""
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return "0x" + raw.hex()
    if isinstance(value, tuple | set | frozenset):
        return list(value)
    return str(value)


def _print_table(report: Report, out: TextIO) -> None:
    rows = list(report.rows)
    if rows:
        _rich_table(rows, report.columns or list(rows[0]), report.title, out)
    for note in report.notes:
        out.write(note + "\n")


def _rich_table(rows: Sequence[Mapping[str, object]], columns: Sequence[str], title: str, out: TextIO) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, box=box.SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for name in columns:
        numeric = all(_is_number(row.get(name)) for row in rows)
        table.add_column(name.replace("_", " "), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_visible(_human(row.get(name)))) for name in columns))
    buffer = io.StringIO()
    is_terminal = out.isatty()
    # A pipe gets whole lines: nothing is cut to a width that nobody looks at.
    Console(file=buffer, force_terminal=is_terminal, width=None if is_terminal else 1000).print(table)
    for line in buffer.getvalue().splitlines():
        out.write(line.rstrip() + "\n")


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


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
            return json.dumps(value, default=_plain, ensure_ascii=False)
        case bytes() | bytearray():
            return str(_plain(value))
    return str(value)


def _visible(text: str) -> str:
    """Control characters as escapes: a key or a topic of somebody else's may not steer the reader's terminal."""
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)
