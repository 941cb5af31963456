"""docs/threat-model.md: each row has tests that show it, and each of those tests exists."""

from __future__ import annotations

import re
import tomllib

import pytest

from project.parity_page import require_named_test
from project.tree import ROOT

PAGE = (ROOT / "docs" / "threat-model.md").read_text()
TESTS: dict[str, list[str]] = tomllib.loads((ROOT / "tests/project/threats.toml").read_text())
ROW = re.compile(r"^\| ([A-Z]\d+) \| (.+) \|$", flags=re.MULTILINE)
MAX_ROW_CHARACTERS = 420


def test_every_kind_of_attacker_has_rows_numbered_from_one() -> None:
    parts = PAGE.split("\n## ")[1:]
    assert len(parts) >= 5
    for part in parts:
        ids = [number for number, _ in ROW.findall(part)]
        assert ids == [f"{ids[0][0]}{number}" for number in range(1, len(ids) + 1)], part.partition("\n")[0]


def test_the_page_and_the_list_of_tests_have_the_same_rows() -> None:
    assert [number for number, _ in ROW.findall(PAGE)] == list(TESTS)


@pytest.mark.parametrize("number", TESTS)
def test_a_row_is_shown_by_tests_that_exist(number: str) -> None:
    assert TESTS[number], "no test"
    for test in TESTS[number]:
        require_named_test(test)


def test_rows_are_short() -> None:
    long = [number for number, row in ROW.findall(PAGE) if len(row) > MAX_ROW_CHARACTERS or row.count(" | ") != 2]
    assert not long
