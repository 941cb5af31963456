"""The same random operations on Kafka's own UnifiedLog and on PartitionLog give the same results and bytes."""

from __future__ import annotations

from pathlib import Path

import pytest

from differential.characters import CHARACTERS
from differential.judging import assert_same
from differential.kafka_side import KafkaSide
from differential.lists import draw_list

pytestmark = pytest.mark.kafka

LISTS = 3 * len(CHARACTERS)
MANY_LISTS = 150 * len(CHARACTERS)
SHARES = 20


@pytest.mark.parametrize("seed", range(LISTS))
def test_a_list(seed: int, kafka: KafkaSide, tmp_path: Path) -> None:
    assert_same(draw_list(seed, CHARACTERS), kafka, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("share", range(SHARES))
def test_many_lists(share: int, kafka: KafkaSide, tmp_path: Path) -> None:
    for seed in range(LISTS + share, MANY_LISTS, SHARES):
        assert_same(draw_list(seed, CHARACTERS, length=60 + seed % 140), kafka, tmp_path / str(seed))
