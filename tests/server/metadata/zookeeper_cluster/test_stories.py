"""Random stories of brokers with ZooKeeper find no broken rule, and they find each deliberate fault."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from server.metadata.zookeeper_cluster.random_story import run_story
from server.metadata.zookeeper_cluster.story_faults import FAULTS, applied

_SEEDS = 300
_FIRST = 40
"""The number of seeds of every run; the others are slow."""
_FAULT_SEEDS = 60


@pytest.fixture(autouse=True)
def _without_log() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def broken_rules(seeds: range) -> list[str]:
    results = map(run_story, seeds)
    return [str(result) for result in results if result.problems]


def test_the_first_stories() -> None:
    assert not broken_rules(range(_FIRST))


@pytest.mark.slow
def test_more_stories() -> None:
    assert not broken_rules(range(_FIRST, _SEEDS))


def test_a_story_can_be_repeated() -> None:
    for seed in (3, 4):
        first, second = run_story(seed), run_story(seed)
        assert (first.steps, first.commits) == (second.steps, second.commits)
        assert len(first.commits) > 20


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found(name: str) -> None:
    with applied(name):
        assert any(run_story(seed).problems for seed in range(_FAULT_SEEDS)), FAULTS[name].rule
