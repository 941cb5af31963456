"""`recover` compared with a real broker: both get the same damaged directory and must leave the same files.

Other tests compare the golden sets' own ``unclean`` and ``clean`` without a JVM. Here the input is new: missing or
random indexes, segments truncated inside a batch, and the other damage of damage.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from golden_sets import LARGE_SETS, SCENARIOS
from log_maker import write_checkpoint
from overflowed_log import (
    LAST,
    OVERFLOWED,
    REACH,
    first_record_late,
    last_segment,
    three_pieces,
    with_transactions,
    without_index,
)
from power_cut import PowerCut
from real_kafka import damage
from real_kafka.broker import BrokerError
from real_kafka.damage import ACCIDENTS, CUTS, deal_out, reset_recovery_points
from real_kafka.directories import differences
from real_kafka.tools import kafka_recover
from tidelog.model import StorageError
from tidelog.storage.log.load.loader import LoadRequest, load_log
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.recovery.directory_recovery import recover

pytestmark = pytest.mark.kafka

GoldenFactory = Callable[..., Path]

WRITTEN_MS = 1_795_218_000_000
"""The wall clock when the golden sets were written. Later, a broker has forgotten their producers."""
LATER_MS = WRITTEN_MS + 30 * 24 * 3600 * 1000

ALL_SHIFTS = [pytest.param(shift, marks=[] if shift < 2 else [pytest.mark.slow]) for shift in range(7)]


def assert_same(directory: Path, tmp_path: Path, now_ms: int = WRITTEN_MS) -> None:
    assert compared(directory, tmp_path, now_ms) == []


def compared(directory: Path, tmp_path: Path, now_ms: int = WRITTEN_MS) -> list[str]:
    """Return the differences after Kafka has recovered one copy of ``directory`` and tidelog another."""
    ours = Path(shutil.copytree(directory, tmp_path / "tidelog"))
    reference = Path(shutil.copytree(directory, tmp_path / "kafka"))
    kafka_recover(reference, work=tmp_path / "broker", now_ms=now_ms)
    recover(ours, now_ms=now_ms)
    return differences(ours, reference)


@pytest.mark.parametrize("set_name", LARGE_SETS)
@pytest.mark.parametrize("now_ms", [WRITTEN_MS, LATER_MS], ids=["that-day", "later"])
def test_undamaged(golden_copy: GoldenFactory, tmp_path: Path, set_name: str, now_ms: int) -> None:
    assert_same(golden_copy(set_name, "unclean"), tmp_path, now_ms)


@pytest.mark.parametrize("set_name", LARGE_SETS)
@pytest.mark.parametrize("kind", [damage.delete_indexes, damage.randomize_indexes], ids=["deleted", "random"])
def test_without_any_index(golden_copy: GoldenFactory, tmp_path: Path, set_name: str, kind: damage.Damage) -> None:
    directory = golden_copy(set_name, "unclean")
    reset_recovery_points(directory)
    deal_out(directory, [kind])
    assert_same(directory, tmp_path)


@pytest.mark.parametrize("shift", ALL_SHIFTS)
@pytest.mark.parametrize("set_name", LARGE_SETS)
def test_cut_in_the_last_segment(golden_copy: GoldenFactory, tmp_path: Path, set_name: str, shift: int) -> None:
    directory = golden_copy(set_name, "unclean")
    deal_out(directory, CUTS, shift=shift)
    assert_same(directory, tmp_path)


@pytest.mark.parametrize("shift", ALL_SHIFTS)
@pytest.mark.parametrize("set_name", LARGE_SETS)
def test_accidents(golden_copy: GoldenFactory, tmp_path: Path, set_name: str, shift: int) -> None:
    directory = golden_copy(set_name, "unclean")
    reset_recovery_points(directory)
    deal_out(directory, ACCIDENTS, shift=shift)
    assert_same(directory, tmp_path)


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_a_transaction_index_that_stops_the_broker(golden_copy: GoldenFactory, tmp_path: Path, kind: str) -> None:
    """Kafka refuses to start on a .txnindex with a version above 0. tidelog rebuilds it, and the broker starts."""
    damaged = golden_copy(SCENARIOS, kind, "damaged")
    deal_out(damaged, [damage.randomize_transaction_indexes])
    with pytest.raises(BrokerError, match="Unexpected aborted transaction version"):
        kafka_recover(Path(shutil.copytree(damaged, tmp_path / "kafka")), work=tmp_path / "broker")
    intact = golden_copy(SCENARIOS, "unclean", "intact")
    recover(damaged, now_ms=WRITTEN_MS)
    recover(intact, now_ms=WRITTEN_MS)
    assert differences(damaged, intact) == []
    kafka_recover(damaged, work=tmp_path / "broker", now_ms=WRITTEN_MS + 1000)


def with_overflow(golden_copy: GoldenFactory, make: Callable[[Path], Path], *, flushed: bool) -> Path:
    """Copy the set with one partition's segments replaced."""
    directory = golden_copy(SCENARIOS, "unclean")
    partition = directory / "plain-0"
    for file in partition.iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    make(partition)
    reset_recovery_points(directory)
    if flushed:
        write_checkpoint(directory, "recovery-point-offset-checkpoint", {"plain-0": LAST})
    return directory


@pytest.mark.parametrize("make", [three_pieces, first_record_late, with_transactions, last_segment])
def test_offsets_that_overflow_their_segment(
    golden_copy: GoldenFactory, tmp_path: Path, make: Callable[[Path], Path]
) -> None:
    assert_same(with_overflow(golden_copy, make, flushed=False), tmp_path)


def test_offsets_that_overflow_a_flushed_segment_that_lost_its_index(
    golden_copy: GoldenFactory, tmp_path: Path
) -> None:
    """Kafka's split rebuilds no transaction index. Ours recovers the pieces and writes one more producer snapshot."""
    found = compared(with_overflow(golden_copy, without_index, flushed=True), tmp_path)
    assert found == [f"only in tidelog: plain-0/{OVERFLOWED + REACH + 1:020d}.snapshot"]


@pytest.mark.parametrize("stop", [20, 26, 27, 30, 34])
def test_a_split_that_was_interrupted(golden_copy: GoldenFactory, tmp_path: Path, stop: int) -> None:
    """Our split stops halfway, with unfinished copies or mixed file names. Then Kafka and tidelog recover it alike."""
    directory = with_overflow(golden_copy, three_pieces, flushed=False)
    request = LoadRequest(fs=PowerCut(stop), directory=directory / "plain-0", config=LogConfig(), clean_shutdown=False)
    with pytest.raises(StorageError, match="power"):
        load_log(request, now_ms=WRITTEN_MS)
    assert_same(directory, tmp_path)
