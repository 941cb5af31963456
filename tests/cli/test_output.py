"""A report printed as a table, JSON, JSON lines and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pytest

from tidelog.cli.output import Format, print_report
from tidelog.cli.report import Report, Row, Table
from tidelog.model import CorruptRecordError

ROWS: list[Row] = [
    {"name": "first", "count": 1234567, "share": 0.5, "ok": True, "list": ["a", 1], "none": None},
    {"name": 'second,\n"2"', "count": -1, "share": 1.0, "ok": False, "list": [], "none": None},
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def printed(report: Report, form: Format) -> str:
    out = io.StringIO()
    print_report(report, form, out, io.StringIO())
    return out.getvalue()


def test_json_is_one_array_and_jsonl_one_object_a_line() -> None:
    assert json.loads(printed(Report(rows=ROWS), Format.JSON)) == ROWS
    assert [json.loads(line) for line in printed(Report(rows=ROWS), Format.JSONL).splitlines()] == ROWS
    assert json.loads(printed(Report(rows=[]), Format.JSON)) == []


def test_csv_has_a_header_line_even_without_rows() -> None:
    found = list(csv.DictReader(io.StringIO(printed(Report(rows=ROWS), Format.CSV))))
    assert [row["name"] for row in found] == [row["name"] for row in ROWS]
    assert found[0]["count"] == "1234567"
    assert json.loads(found[0]["list"]) == ["a", 1]
    assert found[0]["none"] == ""
    assert printed(Report(rows=[], columns=["a", "b"]), Format.CSV) == "a,b\n"


def test_a_table_is_for_people() -> None:
    table = Table(
        rows=ROWS, columns=["name", "count", "ok"], title="Some", total={"count": 7}, show={"name": str.upper}
    )
    text = printed(Report(tables=[table], notes=["A note."]), Format.TABLE)
    for part in ("Some", "FIRST", "1,234,567", "yes", "no", "A note.\n"):
        assert part in text
    assert "share" not in text
    assert printed(Report(rows=[], notes=["Nothing."]), Format.TABLE) == "Nothing.\n"


def test_wide_rows_of_a_streaming_table_come_one_by_one() -> None:
    out = io.StringIO()

    def endless() -> Iterator[Row]:
        yield {"offset": 1, "value": "x" * 300}
        assert "x" * 300 in out.getvalue()
        yield {"offset": 2, "value": "\x1b[2J"}

    rows = endless()
    print_report(Report(tables=[Table(rows=rows, widths={"offset": 6})], live=True), Format.TABLE, out, io.StringIO())
    assert out.getvalue().splitlines()[0] == "offset  value"
    assert "\x1b" not in out.getvalue()


@pytest.mark.parametrize("form", [Format.JSON, Format.JSONL, Format.CSV])
def test_notes_stand_beside_data_only_on_a_terminal(form: Format) -> None:
    out, pipe, terminal = io.StringIO(), io.StringIO(), Terminal()
    report = Report(rows=ROWS, notes=["A note."])
    print_report(report, form, out, pipe)
    print_report(report, form, out, terminal)
    assert "A note." not in out.getvalue()
    assert pipe.getvalue() == ""
    assert terminal.getvalue() == "A note.\n"


def test_an_error_in_the_middle_leaves_whole_json() -> None:
    def failing() -> Iterator[Row]:
        yield {"a": 1}
        raise CorruptRecordError("bad")

    out = io.StringIO()
    with pytest.raises(CorruptRecordError):
        print_report(Report(rows=failing()), Format.JSON, out, io.StringIO())
    assert json.loads(out.getvalue()) == [{"a": 1}]


@pytest.mark.parametrize("text", ["\x9b2J", "\x7f", "\udc80", "\x1b[2J"])
def test_json_escapes_what_steers_a_terminal(text: str) -> None:
    line = printed(Report(rows=[{"key": text}]), Format.JSONL)
    assert json.loads(line) == {"key": text}
    assert line.isascii()
    assert line.strip().isprintable()


def test_csv_is_escaped_on_a_terminal_and_left_alone_in_a_file() -> None:
    report = Report(rows=[{"key": "\x1b[2J"}])
    assert "\x1b" in printed(report, Format.CSV)
    out = Terminal()
    print_report(report, Format.CSV, out, io.StringIO())
    assert "\x1b" not in out.getvalue()
