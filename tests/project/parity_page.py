"""docs/parity.md as rows: what Kafka does, and the cases of its own tests."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from project.tree import ROOT

PAGE = (ROOT / "docs" / "parity.md").read_text()
BEHAVIOUR, CASES = PAGE.split("\n## Kafka's own test cases\n")
KAFKA_CASE_NAMES: dict[str, list[str]] = json.loads((ROOT / "tests/project/kafka_test_cases.json").read_text())
"""Class -> cases, as scripts/kafka_test_cases.py read them from Kafka's jars; every one has a row on the page."""


class Behaviour(NamedTuple):
    section: str
    id: str
    text: str
    state: str
    module: str
    test: str


class Case(NamedTuple):
    kafka_class: str
    name: str
    rows: str
    answer: str
    """One of our tests, in code style, or ``does not apply: …``, or ``later: …``."""

    @property
    def kind(self) -> str:
        word, separator, _ = self.answer.partition(": ")
        return word if separator and not self.answer.startswith("`") else "tested"


def table_rows(text: str, level: str) -> Iterator[tuple[str, list[str]]]:
    """Each table row with the heading above it; heads and rules left out."""
    heading = ""
    for line in text.splitlines():
        if line.startswith(level + " "):
            heading = line.removeprefix(level + " ")
        elif line.startswith("|") and heading:
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if set(line) - set("|-") and cells[-1] != "test":
                yield heading, cells


BEHAVIOURS = [Behaviour(section, *cells) for section, cells in table_rows(BEHAVIOUR, "##")]
KAFKA_CASES = [Case(name, *cells) for name, cells in table_rows(CASES, "###")]


@cache
def names_in(path: str) -> frozenset[str]:
    """``test_x`` and ``TestY::test_x`` of a test file."""
    names = set()
    for node in ast.parse((ROOT / "tests" / path).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}::{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return frozenset(name for name in names if name.rpartition("::")[2].startswith("test"))


def code(cell: str) -> str:
    assert re.fullmatch("`[^`]+`", cell), f"not in code style: {cell}"
    return cell.strip("`")


def require_test(cell: str) -> None:
    path, _, name = code(cell).partition("::")
    assert (ROOT / "tests" / path).is_file(), f"no such file: tests/{path}"
    assert name in names_in(path), f"no test {name} in tests/{path}"
