"""Every operation of a log, with the power gone before each call of the disk and after the last.

What is promised, and how many moments and states are looked at, is written in docs/durability.md: the moments are
counted again here, the states by the slow test, which looks at all that are written there.
"""

from __future__ import annotations

import re

import pytest

from crash.crash_walk import CrashWalk
from crash.scenarios import SCENARIOS, Scenario
from project.tree import ROOT

STATES = 4
"""At each crash point, in the slow test."""
ROW = re.compile(r"^\| ([a-z][^|]*?) +\| +([\d,]+) \| +([\d,]+) \|", flags=re.MULTILINE)


def written() -> dict[str, tuple[int, int]]:
    """(crash points, states) by operation, as the page has them."""
    rows = ROW.findall((ROOT / "docs" / "durability.md").read_text())
    return {name: (int(points.replace(",", "")), int(states.replace(",", ""))) for name, points, states in rows}


def test_the_page_names_every_operation() -> None:
    named = written()
    total = named.pop("all")
    assert list(named) == [scenario.name for scenario in SCENARIOS]
    assert total == tuple(map(sum, zip(*named.values(), strict=True)))


@pytest.mark.parametrize("number", range(len(SCENARIOS)), ids=[scenario.name for scenario in SCENARIOS])
def test_a_crash_takes_nothing_that_was_promised(number: int) -> None:
    """A sample: one moment in 16, another one in each operation, two states each."""
    scenario = SCENARIOS[number]
    walk = walked(scenario, states=2, every=16, seed=number)
    assert walk.points == written()[scenario.name][0]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_crash_at_any_moment_takes_nothing_that_was_promised(scenario: Scenario) -> None:
    walk = walked(scenario, states=STATES)
    points, states = written()[scenario.name]
    assert walk.points == points
    assert walk.examined >= states


def walked(scenario: Scenario, *, states: int, every: int = 1, seed: int = 0) -> CrashWalk:
    walk = CrashWalk(states=states, every=every, seed=seed)
    walk.run(scenario.prepare(), scenario.operation)
    print(f"{scenario.name}: {walk.points} crash points, {walk.examined} states examined")
    return walk
