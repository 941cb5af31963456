"""The rows of docs/parity.md, and of parity.toml: Kafka's behaviours and the cases of Kafka's own tests."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from project.tree import ROOT

PAGE = (ROOT / "docs" / "parity.md").read_text()
KAFKA_CASE_NAMES: dict[str, list[str]] = json.loads((ROOT / "tests/project/kafka_test_cases.json").read_text())
"""Class -> cases, as scripts/kafka_test_cases.py reads them from Kafka's jars. Each has an entry in parity.toml."""


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
    rows: tuple[str, ...]
    """Numbers of behaviours."""
    kind: str
    """``test``, ``does_not_apply``, or ``later``."""
    text: str
    """The test of tidelog that asks the same; or the reason why the case does not apply, or does not apply yet."""


def table_rows(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each table row with the heading above it, without the tables' heads."""
    heading = ""
    for line in text.splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("|") and heading:
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if set(line) - set("|-") and cells[-1] != "test":
                yield heading, cells


def read_cases(text: str) -> list[Case]:
    found = []
    for kafka_class, entries in tomllib.loads(text).items():
        for name, entry in entries.items():
            rows = tuple(entry.pop("rows"))
            ((kind, words),) = entry.items()
            found.append(Case(kafka_class, name, rows, kind, words))
    return found


BEHAVIOURS = [Behaviour(section, *cells) for section, cells in table_rows(PAGE)]
KAFKA_CASES = read_cases((ROOT / "tests/project/parity.toml").read_text())


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the tests of a file as ``test_x`` and ``TestY::test_x``."""
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
    require_named_test(code(cell))


def require_named_test(test: str) -> None:
    path, _, name = test.partition("::")
    assert (ROOT / "tests" / path).is_file(), f"no such file: tests/{path}"
    assert name in names_in(path), f"no test {name} in tests/{path}"
