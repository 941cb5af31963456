"""The page about the broker lists the APIs that it serves, and names existing tests."""

from __future__ import annotations

import re

from project.tree import ROOT, load

API_PAGE = load("scripts/api_page.py")


def test_the_page_is_what_the_table_says() -> None:
    page = API_PAGE.PAGE.read_text()
    assert API_PAGE.BEGIN in page
    assert API_PAGE.with_apis(page) == page, "run `make map`"


def test_the_tests_that_it_names_are_there() -> None:
    named = re.findall(r"`([\w/]+\.py)`", API_PAGE.PAGE.read_text())
    assert len(named) > 40
    homes = (ROOT / "tests" / "server", ROOT / "tests")
    assert [path for path in named if not any((home / path).is_file() for home in homes)] == []
