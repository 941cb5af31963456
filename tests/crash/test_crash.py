"""Every operation of a log, with a power cut before each call of the disk and after the last.

docs/durability.md describes the promises, and gives the numbers of crash points and states. The crash points are
counted again here. The slow test examines all states that the page names.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

from crash.adoption_story import ADOPTION_SCENARIOS, examine_adoption
from crash.commit_story import COMMIT_SCENARIOS, examine_commit
from crash.crash_walk import CrashWalk
from crash.examination import examine
from crash.manager_story import MANAGER_SCENARIOS, examine_start
from crash.scenarios import SCENARIOS
from project.tree import ROOT

OPERATIONS: list[tuple[str, Any, Any, Any]] = [
    *((one.name, one.prepare, one.operation, examine) for one in SCENARIOS),
    *((*one, examine_adoption) for one in ADOPTION_SCENARIOS),
    *((*one, examine_commit) for one in COMMIT_SCENARIOS),
    *((*one, examine_start) for one in MANAGER_SCENARIOS),
]
"""Name, preparation, operation, and the check of a found disk."""
NAMES = [name for name, *_ in OPERATIONS]

STATES = 4
"""The number of states at each crash point in the slow test."""
ROW = re.compile(r"^\| ([a-z][^|]*?) +\| +([\d,]+) \| +([\d,]+) \|", flags=re.MULTILINE)


def written() -> dict[str, tuple[int, int]]:
    """Return (crash points, states) by operation from the page."""
    rows = ROW.findall((ROOT / "docs" / "durability.md").read_text())
    return {name: (int(points.replace(",", "")), int(states.replace(",", ""))) for name, points, states in rows}


def test_the_page_names_every_operation() -> None:
    named = written()
    total = named.pop("all")
    assert list(named) == NAMES
    assert total == tuple(map(sum, zip(*named.values(), strict=True)))


@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_a_crash_takes_nothing_that_was_promised(number: int) -> None:
    """The sample examines two states at one crash point in 16, a different one in each operation."""
    walk = walked(number, states=2, every=16, seed=number)
    assert walk.points == written()[NAMES[number]][0]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("number", range(len(NAMES)), ids=NAMES)
def test_a_crash_at_any_moment_takes_nothing_that_was_promised(number: int) -> None:
    walk = walked(number, states=STATES)
    points, states = written()[NAMES[number]]
    assert walk.points == points
    assert walk.examined >= states


def walked(number: int, *, states: int, every: int = 1, seed: int = 0) -> CrashWalk[Any]:
    name, prepare, operation, look = OPERATIONS[number]
    walk: CrashWalk[Any] = CrashWalk(states=states, every=every, seed=seed, examine=look)
    walk.run(prepare(), operation)
    print(f"{name}: {walk.points} crash points, {walk.examined} states examined")
    return walk
