"""The page about the broker lists the APIs that it serves, and names existing tests."""

from __future__ import annotations

import importlib.util
import re
from types import ModuleType

from project.tree import ROOT


def api_page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("api_page", ROOT / "scripts" / "api_page.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_table_says() -> None:
    module = api_page()
    page = module.PAGE.read_text()
    assert module.BEGIN in page
    assert module.with_apis(page) == page, "run `make map`"


def test_the_tests_that_it_names_are_there() -> None:
    named = re.findall(r"`([\w/]+\.py)`", api_page().PAGE.read_text())
    assert len(named) > 40
    assert [path for path in named if not (ROOT / "tests" / "server" / path).is_file()] == []
