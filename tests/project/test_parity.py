"""docs/parity.md against the tree: what it names exists, what it says is well-formed, nothing stands in it twice."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from project.tree import ROOT, project_files

PAGE = (ROOT / "docs" / "parity.md").read_text()
BEHAVIOUR, CASES = PAGE.split("\n## Kafka's own test cases\n")
SECTIONS = {"Files": "F", "Segment": "S", "Log": "L", "Log manager": "M", "Cleaner": "C", "Server": "B"}
PARTS = ("log semantics", "log manager", "cleaner", "server")
STATE = re.compile(rf"done|(?:partly|later): (?:{'|'.join(PARTS)})")
KAFKA_CLASS = re.compile(r"(?:org\.apache\.)?kafka(?:\.[a-z]+)+\.[A-Z]\w*Test")
CASE = re.compile(r"[a-z]\w+")
NOTHING = "–"
MISSING = re.compile(r"\bMissing\b|\bmissing\b|\bNow\b|\bOurs\b")


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
    test: str


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


def repeated(values: list[str]) -> list[str]:
    return [value for value, count in Counter(values).items() if count > 1]


def test_the_sections_are_there_in_order() -> None:
    assert list(dict.fromkeys(row.section for row in BEHAVIOURS)) == list(SECTIONS)


@pytest.mark.parametrize("section", SECTIONS)
def test_rows_are_numbered_in_order(section: str) -> None:
    ids = [row.id for row in BEHAVIOURS if row.section == section]
    assert ids == [f"{SECTIONS[section]}{number}" for number in range(1, len(ids) + 1)]


@pytest.mark.parametrize("section", SECTIONS)
def test_what_a_row_names_exists(section: str) -> None:
    for row in BEHAVIOURS:
        if row.section == section:
            assert STATE.fullmatch(row.state), f"{row.id}: no such state: {row.state}"
            if row.state.startswith("later"):
                assert (row.module, row.test) == (NOTHING, NOTHING), row.id
            else:
                assert (ROOT / "src" / "tidelog" / code(row.module)).is_file(), f"{row.id}: no such module"
                require_test(row.test)


@pytest.mark.parametrize("kafka_class", dict.fromkeys(row.kafka_class for row in KAFKA_CASES))
def test_a_case_is_of_rows_begun_and_covered_by_a_test(kafka_class: str) -> None:
    assert KAFKA_CLASS.fullmatch(kafka_class), "not the name of a test class of Kafka's"
    begun = {row.id for row in BEHAVIOURS if not row.state.startswith("later")}
    for case in KAFKA_CASES:
        if case.kafka_class == kafka_class:
            assert CASE.fullmatch(code(case.name)), f"not the name of a test case: {case.name}"
            assert set(case.rows.split(", ")) <= begun, case.name
            require_test(case.test)


def test_nothing_stands_there_twice() -> None:
    assert not repeated([row.text for row in BEHAVIOURS])
    assert not repeated([f"{row.kafka_class}.{row.name}" for row in KAFKA_CASES])
    assert not repeated(re.findall(r"^#+ .*", PAGE, flags=re.MULTILINE))


def test_what_is_partly_done_says_what_is_missing() -> None:
    assert not [row.id for row in BEHAVIOURS if row.state.startswith("partly") and not MISSING.search(row.text)]


def test_every_module_of_the_engine_is_named_or_belongs_to_one_that_is() -> None:
    """A room of the engine without a row would be one that nobody asked for, or a gap in this page."""
    rooms = {path.parent for path in project_files("src/tidelog/storage") if path.name != "__init__.py"}
    named = {(ROOT / "src" / "tidelog" / code(row.module)).parent for row in BEHAVIOURS if row.module != NOTHING}
    assert {ROOT / room for room in rooms} <= named
