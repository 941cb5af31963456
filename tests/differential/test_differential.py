"""The same random operations on Kafka's own UnifiedLog and on PartitionLog: the same results, offsets and bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from differential.characters import CHARACTERS
from differential.comparison import run_both
from differential.kafka_side import KafkaSide
from differential.lists import draw_list
from differential.operations import Scenario, source
from differential.shrinking import shrink

pytestmark = pytest.mark.kafka

LISTS = 3 * len(CHARACTERS)
MANY_LISTS = 150 * len(CHARACTERS)
SHARES = 20


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaSide]:
    with KafkaSide() as side:
        yield side


def assert_same(scenario: Scenario, kafka: KafkaSide, directory: Path) -> None:
    """A difference is shown for the shortest list that has it."""
    numbers = itertools.count()

    def difference(candidate: Scenario, kind: str | None = None) -> str | None:
        found = run_both(candidate, kafka, directory / str(next(numbers)))
        return None if found is None or kind not in (None, found.kind) else found.text

    found = run_both(scenario, kafka, directory / "whole")
    if found is not None:
        short = shrink(scenario, lambda candidate: difference(candidate, found.kind) is not None)
        pytest.fail(f"{difference(short, found.kind) or found.text}\n{source(short)}", pytrace=False)


@pytest.mark.parametrize("seed", range(LISTS))
def test_a_list(seed: int, kafka: KafkaSide, tmp_path: Path) -> None:
    assert_same(draw_list(seed), kafka, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("share", range(SHARES))
def test_many_lists(share: int, kafka: KafkaSide, tmp_path: Path) -> None:
    for seed in range(LISTS + share, MANY_LISTS, SHARES):
        assert_same(draw_list(seed, length=60 + seed % 140), kafka, tmp_path / str(seed))
