"""`recover` compared with a real broker: both get the same damaged directory and must leave the same files.

Other tests compare the golden sets' own ``unclean`` and ``clean`` without a JVM. Here the input is new: missing or
random indexes, segments truncated inside a batch, and the other damage of damage.py.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
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
from real_kafka.broker_runs import BrokerRuns
from real_kafka.damage import ACCIDENTS, CUTS, deal_out, reset_recovery_points
from real_kafka.directories import differences
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


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerRuns]:
    with BrokerRuns(tmp_path_factory.mktemp("brokers")) as runs:
        yield runs


class Comparison:
    """Both recoveries of one directory, in a test's own directory."""

    def __init__(self, kafka: BrokerRuns, tmp_path: Path) -> None:
        self._kafka = kafka
        self._tmp_path = tmp_path

    def assert_same(self, directory: Path, now_ms: int = WRITTEN_MS) -> None:
        assert self.differences(directory, now_ms) == []

    def differences(self, directory: Path, now_ms: int = WRITTEN_MS) -> list[str]:
        """Return the differences after Kafka has recovered one copy of ``directory`` and tidelog another."""
        ours = Path(shutil.copytree(directory, self._tmp_path / "tidelog"))
        reference = Path(shutil.copytree(directory, self._tmp_path / "kafka"))
        self.by_kafka(reference, now_ms)
        recover(ours, now_ms=now_ms)
        return differences(ours, reference)

    def by_kafka(self, directory: Path, now_ms: int | None = None) -> None:
        self._kafka.recover(directory, work=self._tmp_path / "broker", now_ms=now_ms)


@pytest.fixture
def comparison(kafka: BrokerRuns, tmp_path: Path) -> Comparison:
    return Comparison(kafka, tmp_path)


@pytest.mark.parametrize("set_name", LARGE_SETS)
@pytest.mark.parametrize("now_ms", [WRITTEN_MS, LATER_MS], ids=["that-day", "later"])
def test_undamaged(golden_copy: GoldenFactory, comparison: Comparison, set_name: str, now_ms: int) -> None:
    comparison.assert_same(golden_copy(set_name, "unclean"), now_ms)


@pytest.mark.parametrize("set_name", LARGE_SETS)
@pytest.mark.parametrize("kind", [damage.delete_indexes, damage.randomize_indexes], ids=["deleted", "random"])
def test_without_any_index(
    golden_copy: GoldenFactory, comparison: Comparison, set_name: str, kind: damage.Damage
) -> None:
    directory = golden_copy(set_name, "unclean")
    reset_recovery_points(directory)
    deal_out(directory, [kind])
    comparison.assert_same(directory)


@pytest.mark.parametrize("shift", ALL_SHIFTS)
@pytest.mark.parametrize("set_name", LARGE_SETS)
def test_cut_in_the_last_segment(golden_copy: GoldenFactory, comparison: Comparison, set_name: str, shift: int) -> None:
    directory = golden_copy(set_name, "unclean")
    deal_out(directory, CUTS, shift=shift)
    comparison.assert_same(directory)


@pytest.mark.parametrize("shift", ALL_SHIFTS)
@pytest.mark.parametrize("set_name", LARGE_SETS)
def test_accidents(golden_copy: GoldenFactory, comparison: Comparison, set_name: str, shift: int) -> None:
    directory = golden_copy(set_name, "unclean")
    reset_recovery_points(directory)
    deal_out(directory, ACCIDENTS, shift=shift)
    comparison.assert_same(directory)


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_a_transaction_index_that_stops_the_broker(
    golden_copy: GoldenFactory, comparison: Comparison, tmp_path: Path, kind: str
) -> None:
    """Kafka refuses to start on a .txnindex with a version above 0. tidelog rebuilds it, and the broker starts."""
    damaged = golden_copy(SCENARIOS, kind, "damaged")
    deal_out(damaged, [damage.randomize_transaction_indexes])
    with pytest.raises(BrokerError, match="Unexpected aborted transaction version"):
        comparison.by_kafka(Path(shutil.copytree(damaged, tmp_path / "kafka")))
    intact = golden_copy(SCENARIOS, "unclean", "intact")
    recover(damaged, now_ms=WRITTEN_MS)
    recover(intact, now_ms=WRITTEN_MS)
    assert differences(damaged, intact) == []
    comparison.by_kafka(damaged, WRITTEN_MS + 1000)


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
    golden_copy: GoldenFactory, comparison: Comparison, make: Callable[[Path], Path]
) -> None:
    comparison.assert_same(with_overflow(golden_copy, make, flushed=False))


def test_offsets_that_overflow_a_flushed_segment_that_lost_its_index(
    golden_copy: GoldenFactory, comparison: Comparison
) -> None:
    """Kafka's split rebuilds no transaction index. Ours recovers the pieces and writes one more producer snapshot."""
    found = comparison.differences(with_overflow(golden_copy, without_index, flushed=True))
    assert found == [f"only in tidelog: plain-0/{OVERFLOWED + REACH + 1:020d}.snapshot"]


@pytest.mark.parametrize("stop", [20, 26, 27, 30, 34])
def test_a_split_that_was_interrupted(golden_copy: GoldenFactory, comparison: Comparison, stop: int) -> None:
    """Our split stops halfway, with unfinished copies or mixed file names. Then Kafka and tidelog recover it alike."""
    directory = with_overflow(golden_copy, three_pieces, flushed=False)
    request = LoadRequest(fs=PowerCut(stop), directory=directory / "plain-0", config=LogConfig(), clean_shutdown=False)
    with pytest.raises(StorageError, match="power"):
        load_log(request, now_ms=WRITTEN_MS)
    comparison.assert_same(directory)
