"""docs/parity.md names only existing modules and tests, is well-formed, and has no row twice."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from project.parity_page import BEHAVIOURS, KAFKA_CASES, PAGE, code, require_test
from project.tree import ROOT, project_files

SECTIONS = {
    "Files": "F",
    "Segment": "S",
    "Log": "L",
    "Log manager": "M",
    "Cleaner": "C",
    "Server": "B",
    "Brokers and controllers": "K",
    "Replication": "R",
}
PARTS = ("log semantics", "log manager", "cleaner", "server", "replication")
STATE = re.compile(rf"done|(?:partly|later): (?:{'|'.join(PARTS)})")
NOTHING = "–"
MISSING = re.compile(r"\bMissing\b|\bmissing\b|\bNow\b|\bOurs\b")


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


def test_nothing_stands_there_twice() -> None:
    assert not repeated([row.text for row in BEHAVIOURS])
    assert not repeated([f"{row.kafka_class}.{row.name}" for row in KAFKA_CASES])
    assert not repeated(re.findall(r"^#+ .*", PAGE, flags=re.MULTILINE))


def test_what_is_partly_done_says_what_is_missing() -> None:
    assert not [row.id for row in BEHAVIOURS if row.state.startswith("partly") and not MISSING.search(row.text)]


def test_every_module_of_the_engine_is_named_or_belongs_to_one_that_is() -> None:
    """A room of the engine without a row would be unneeded, or a gap in the page."""
    rooms = {path.parent for path in project_files("src/tidelog/storage") if path.name != "__init__.py"}
    named = {(ROOT / "src" / "tidelog" / code(row.module)).parent for row in BEHAVIOURS if row.module != NOTHING}
    assert {ROOT / room for room in rooms} <= named
