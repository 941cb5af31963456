"""Kafka's own Cleaner and ``clean_log`` clean the same dirty log, and give the same bytes then and later.

The lists are those of any log, with rounds of cleaning in between. Appends, truncations, deletions, clean shutdowns and
kills follow them, and their results must be the same too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from differential.batches import Batch, Marker
from differential.cleaned_characters import CLEANED_CHARACTERS
from differential.judging import assert_same
from differential.kafka_side import KafkaSide
from differential.lists import START_MS, draw_list
from differential.operations import Append, Clean, Clock, Roll, Scenario, UpdateHighWatermark
from golden_sets import SETS, manifest
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCheckpoint
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView

pytestmark = pytest.mark.kafka

LISTS = 3 * len(CLEANED_CHARACTERS)
MANY_LISTS = 200 * len(CLEANED_CHARACTERS)
SHARES = 20
DAY_MS = 24 * 3_600_000


def data(seed: int, count: int, producer_id: int = -1, base_sequence: int = -1) -> Append:
    """Return an append of ``count`` records with keys that follow from the seed, in a transaction of the producer."""
    batch = Batch(records=count, timestamp=START_MS, value_bytes=50, seed=seed)
    if producer_id >= 0:
        batch = replace(
            batch, producer_id=producer_id, producer_epoch=0, base_sequence=base_sequence, transactional=True
        )
    return Append(batches=(batch,))


def marker(producer_id: int, *, committed: bool) -> Append:
    ended = Marker(committed=committed, producer_id=producer_id, producer_epoch=0, timestamp=START_MS)
    return Append(batches=(ended,), origin="COORDINATOR")


SKIPPED_DATA = Scenario(
    settings=(("index.interval.bytes", "1"),),
    now_ms=START_MS,
    operations=(
        data(1, 1, 3, 0),
        marker(3, committed=False),
        data(2, 3),
        data(3, 2, 3, 1),
        marker(3, committed=True),
        data(3, 2),
        Roll(),
        UpdateHighWatermark(76),
        Clean(map_bytes=72, buffer_bytes=65536),
        Clean(map_bytes=192, buffer_bytes=65536),
    ),
)
"""The second round begins behind the first abort marker, so it takes the next data of its producer for aborted when it
fills the map. When it filters, it reads the marker first."""


@pytest.mark.parametrize("seed", range(LISTS))
def test_a_list(seed: int, kafka: KafkaSide, tmp_path: Path) -> None:
    assert_same(draw_list(seed, CLEANED_CHARACTERS, length=80), kafka, tmp_path)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("share", range(SHARES))
def test_many_lists(share: int, kafka: KafkaSide, tmp_path: Path) -> None:
    for seed in range(LISTS + share, MANY_LISTS, SHARES):
        assert_same(draw_list(seed, CLEANED_CHARACTERS, length=60 + seed % 200), kafka, tmp_path / str(seed))


def test_data_that_is_aborted_only_for_the_map(kafka: KafkaSide, tmp_path: Path) -> None:
    assert_same(SKIPPED_DATA, kafka, tmp_path)


@pytest.mark.parametrize("set_name", SETS)
def test_what_brokers_wrote(set_name: str, golden: Callable[..., Path], kafka: KafkaSide, tmp_path: Path) -> None:
    """Each partition is cleaned with a map for some of its keys, with a map for all, and past the delete horizon."""
    for name in manifest(set_name):
        partition = Path(shutil.copytree(golden(set_name) / name, tmp_path / name))
        if not (partition / LEADER_EPOCH_CHECKPOINT).exists():  # Kafka would create an empty file
            LeaderEpochCheckpoint.write(LOCAL, partition / LEADER_EPOCH_CHECKPOINT, ())
        rounds = (Clean(map_bytes=2400, buffer_bytes=4096), Clean(map_bytes=1 << 20, buffer_bytes=4096))
        later = (Clock(START_MS + 2 * DAY_MS), Roll(), *rounds)
        scenario = Scenario(
            settings=(("cleanup.policy", "compact"),),
            now_ms=START_MS,
            operations=(UpdateHighWatermark(LogView(LOCAL, partition).log_end), Roll(), *rounds, *later),
            start=partition,
        )
        assert_same(scenario, kafka, tmp_path / f"both-{name}")
