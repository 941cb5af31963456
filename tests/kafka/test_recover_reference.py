"""`recover` against a real broker: both get the same damaged directory, and afterwards every file is the same.

The golden sets' own ``unclean`` and ``clean`` are compared elsewhere, without a JVM; here the input is new: indexes
gone or random, segments cut in the middle of a batch, and the other accidents of damage.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from golden_sets import KRAFT_SETS, SCENARIOS
from kafka import damage
from kafka.broker import BrokerError
from kafka.damage import ACCIDENTS, CUTS, deal_out, reset_recovery_points
from kafka.directories import differences
from kafka.tools import kafka_recover
from tidelog.storage.manager.recover import recover

pytestmark = pytest.mark.kafka

GoldenFactory = Callable[..., Path]

WRITTEN_MS = 1_795_218_000_000
"""The evening the golden sets were written: later, a broker has forgotten their producers."""
LATER_MS = WRITTEN_MS + 30 * 24 * 3600 * 1000

ALL_SHIFTS = [pytest.param(shift, marks=[] if shift < 2 else [pytest.mark.slow]) for shift in range(7)]


def assert_same(directory: Path, tmp_path: Path, now_ms: int = WRITTEN_MS) -> None:
    """Kafka recovers one copy of ``directory`` and tidelog another."""
    ours = Path(shutil.copytree(directory, tmp_path / "tidelog"))
    reference = Path(shutil.copytree(directory, tmp_path / "kafka"))
    kafka_recover(reference, work=tmp_path / "broker", now_ms=now_ms)
    recover(ours, now_ms=now_ms)
    assert differences(ours, reference) == []


@pytest.mark.parametrize("set_name", KRAFT_SETS)
@pytest.mark.parametrize("now_ms", [WRITTEN_MS, LATER_MS], ids=["that-day", "later"])
def test_undamaged(golden_copy: GoldenFactory, tmp_path: Path, set_name: str, now_ms: int) -> None:
    assert_same(golden_copy(set_name, "unclean"), tmp_path, now_ms)


@pytest.mark.parametrize("set_name", KRAFT_SETS)
@pytest.mark.parametrize("kind", [damage.delete_indexes, damage.randomize_indexes], ids=["deleted", "random"])
def test_without_any_index(golden_copy: GoldenFactory, tmp_path: Path, set_name: str, kind: damage.Damage) -> None:
    directory = golden_copy(set_name, "unclean")
    reset_recovery_points(directory)
    deal_out(directory, [kind])
    assert_same(directory, tmp_path)


@pytest.mark.parametrize("shift", ALL_SHIFTS)
@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_cut_in_the_last_segment(golden_copy: GoldenFactory, tmp_path: Path, set_name: str, shift: int) -> None:
    directory = golden_copy(set_name, "unclean")
    deal_out(directory, CUTS, shift=shift)
    assert_same(directory, tmp_path)


@pytest.mark.parametrize("shift", ALL_SHIFTS)
@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_accidents(golden_copy: GoldenFactory, tmp_path: Path, set_name: str, shift: int) -> None:
    directory = golden_copy(set_name, "unclean")
    reset_recovery_points(directory)
    deal_out(directory, ACCIDENTS, shift=shift)
    assert_same(directory, tmp_path)


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_a_transaction_index_that_stops_the_broker(golden_copy: GoldenFactory, tmp_path: Path, kind: str) -> None:
    """Kafka 4.1 refuses to start where a .txnindex names a version above 0; ours rebuilds it, and the broker starts."""
    damaged = golden_copy(SCENARIOS, kind, "damaged")
    deal_out(damaged, [damage.randomize_transaction_indexes])
    with pytest.raises(BrokerError, match="Unexpected aborted transaction version"):
        kafka_recover(Path(shutil.copytree(damaged, tmp_path / "kafka")), work=tmp_path / "broker")
    intact = golden_copy(SCENARIOS, "unclean", "intact")
    recover(damaged, now_ms=WRITTEN_MS)
    recover(intact, now_ms=WRITTEN_MS)
    assert differences(damaged, intact) == []
    kafka_recover(damaged, work=tmp_path / "broker", now_ms=WRITTEN_MS + 1000)
