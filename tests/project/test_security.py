"""SECURITY.md's threat model: each row names the tests that show it, and each of them exists."""

from __future__ import annotations

import re

import pytest

from project.tree import ROOT

PAGE = (ROOT / "SECURITY.md").read_text()
TEST = re.compile(r"`([\w/]+\.py)::(\w+)`")
ROW = re.compile(r"^\| (?!an attacker |an attacker$|-)(.+) \|$", flags=re.MULTILINE)

ROWS = ROW.findall(PAGE)


def test_there_are_rows_of_every_attacker() -> None:
    headings = re.findall(r"^### (.+)$", PAGE, flags=re.MULTILINE)
    assert len(headings) >= 5
    for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]:
        assert ROW.search(part.partition("\n## ")[0]), part.partition("\n")[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.partition(" |")[0][:60])
def test_a_row_is_shown_by_tests_that_exist(row: str) -> None:
    cells = row.split(" | ")
    assert len(cells) == 4, "who controls what, what comes of it at most, why, the tests"
    named = TEST.findall(cells[-1])
    assert named, "no test"
    for path, name in named:
        text = (ROOT / "tests" / path).read_text()
        assert re.search(rf"^ *(async )?def {name}\(", text, flags=re.MULTILINE), f"{path} has no {name}"
    assert TEST.sub("", cells[-1]).strip(", ") == "", "tests only, each as `path::name`"
