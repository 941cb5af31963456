"""Text from a data directory reaches a terminal only with its control characters escaped (SECURITY.md)."""

from __future__ import annotations

import io

import pytest

from tidelog.cli.output import Format, print_report
from tidelog.cli.report import Report

HOSTILE = b"\x1b]0;owned\x07\x1b[2J\x9b\x7f"


@pytest.mark.parametrize("form", [Format.TABLE, Format.JSON, Format.JSONL])
@pytest.mark.parametrize("value", [HOSTILE[:-2], HOSTILE.decode("latin-1"), [HOSTILE.decode("latin-1")]])
def test_no_escape_sequence_of_a_record_reaches_the_terminal(form: Format, value: object) -> None:
    out = io.StringIO()
    print_report(Report(rows=[{"key": value}], columns=["key"]), form, out)
    assert "owned" in out.getvalue()
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()
