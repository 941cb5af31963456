"""docs/configuration.md is what the tables say, in words of our own."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest

from project.tree import ROOT
from tidelog.config.broker_keys import BROKER_AREAS, BROKER_KEYS
from tidelog.config.topic_keys import TOPIC_KEYS

PAGE = (ROOT / "docs" / "configuration.md").read_text()


def configuration_page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("configuration_page", ROOT / "scripts" / "configuration_page.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_tables_say() -> None:
    assert configuration_page().page() == PAGE, "run `make map`"


@pytest.mark.parametrize("key", ["file.delete.delay.ms", "log.dirs"])
def test_a_key_has_its_row(key: str) -> None:
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{key}` |")]
    assert row.count("|") == 7


def test_every_key_is_in_one_area() -> None:
    assert sum(map(len, BROKER_AREAS.values())) == len(BROKER_KEYS)
    assert all(f"| `{name}` |" in PAGE for name in (*BROKER_KEYS, *TOPIC_KEYS))
