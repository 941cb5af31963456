"""Recovery of a log directory turns a killed broker's directory into the broker's own result, byte for byte."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, KRAFT_SETS, SCENARIOS, footprint
from log_maker import plain, write_checkpoint, write_segment
from real_kafka import damage
from real_kafka.directories import METADATA, differences, partition_files
from tidelog.model import CancelledError, DirectoryError, FileMissingError, LockedError, StorageError
from tidelog.runtime.progress import Progress
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.load.load_plan import RecoveryReason
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.manager.recovery.directory_recovery import recover, recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions, plan_directory
from tidelog.testing import SimulatedDisk

WRITTEN_MS = 1_795_218_000_000
"""The evening when the golden sets were written. A later time would expire their producers."""
OPTIONS = RecoverOptions(now_ms=WRITTEN_MS)


def no_index_at_all(directory: Path) -> None:
    damage.reset_recovery_points(directory)
    for partition in directory.iterdir():
        if partition.is_dir():
            damage.delete_indexes(partition)


def random_bytes_in_every_index(directory: Path) -> None:
    damage.reset_recovery_points(directory)
    for partition in directory.iterdir():
        if partition.is_dir():
            damage.randomize_indexes(partition)


def nothing(directory: Path) -> None:
    pass


@pytest.mark.parametrize("harm", [nothing, no_index_at_all, random_bytes_in_every_index])
@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_a_killed_directory_becomes_what_its_broker_made_of_it(
    golden: GoldenFactory, golden_copy: GoldenFactory, set_name: str, harm: Callable[[Path], None]
) -> None:
    """The result is the same if every index is missing or random and nothing counts as flushed."""
    directory = golden_copy(set_name, "unclean")
    harm(directory)
    result = recover(directory, now_ms=WRITTEN_MS)
    assert not result.failures
    found = differences(directory, golden(set_name, "clean"))
    if set_name == FLIGHTS and harm is not nothing:
        # Its records are from 2001, so a recovery from 0 finds the producers of older snapshots expired, like Kafka's
        # own. tests/real_kafka/test_recover_reference.py compares them with snapshots.
        found = [line for line in found if ".snapshot: " not in line]
    assert found == []
    assert not list(directory.rglob("*.deleted"))
    assert CleanShutdownFile(LOCAL, directory).read() == -1


def test_twice_is_once(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(SCENARIOS, "unclean")
    recover(directory, now_ms=WRITTEN_MS)
    first = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    result = recover(directory, now_ms=WRITTEN_MS)
    assert {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()} == first
    assert [partition.name for partition in result.partitions if partition.recovered_segments] == [METADATA]


def test_a_directory_that_was_stopped_in_order_keeps_its_files_and_its_broker_epoch(golden_copy: GoldenFactory) -> None:
    directory = golden_copy(SCENARIOS)
    before = partition_files(directory)
    epoch = CleanShutdownFile(LOCAL, directory).read()
    assert epoch is not None
    assert epoch > 0
    result = recover(directory, now_ms=WRITTEN_MS)
    assert result.plan.condition is DirectoryCondition.CLEAN
    assert CleanShutdownFile(LOCAL, directory).read() == epoch
    assert partition_files(directory) == {name: data for name, data in before.items() if not name.endswith(".deleted")}


def test_a_plan_changes_nothing_and_foretells(golden: GoldenFactory, golden_copy: GoldenFactory) -> None:
    directory = golden(SCENARIOS, "unclean")
    before = footprint(directory)
    plan = plan_directory(LOCAL, directory, OPTIONS)
    assert footprint(directory) == before
    assert plan.condition is DirectoryCondition.UNCLEAN
    result = recover_directory(LOCAL, golden_copy(SCENARIOS, "unclean"), OPTIONS)
    assert [part.name for part in plan.partitions] == [part.name for part in result.partitions]
    assert plan.segments == sum(part.recovered_segments for part in result.partitions)


def test_a_plan_for_some_partitions(golden: GoldenFactory) -> None:
    directory = golden(SCENARIOS, "unclean")
    everything = {part.topic_partition: part for part in plan_directory(LOCAL, directory, OPTIONS).partitions}
    wanted = sorted(everything)[:2]
    plan = plan_directory(LOCAL, directory, OPTIONS, only=wanted)
    assert {part.topic_partition: part for part in plan.partitions} == {key: everything[key] for key in wanted}


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Write four partitions of two segments each, without a flush."""
    for number in range(4):
        for base in (0, 100):
            write_segment(tmp_path / f"t-{number}", base, [plain(base + 10 * at) for at in range(10)])
    return tmp_path


def test_a_cancelled_run_can_be_repeated(killed: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = Path(shutil.copytree(killed, tmp_path_factory.mktemp("other") / "whole"))
    cancelled = threading.Event()
    told: list[Progress] = []

    def on_progress(progress: Progress) -> None:
        told.append(progress)
        if len(told) == 2:
            cancelled.set()

    with pytest.raises(CancelledError):
        recover_directory(
            LOCAL, killed, RecoverOptions(now_ms=WRITTEN_MS, threads=1), on_progress=on_progress, cancelled=cancelled
        )
    assert not (killed / ".kafka_cleanshutdown").exists()
    assert not (killed / "recovery-point-offset-checkpoint").exists()
    recover(killed, now_ms=WRITTEN_MS)
    recover(whole, now_ms=WRITTEN_MS)
    assert differences(killed, whole) == []


def test_progress_ends_where_the_plan_says(killed: Path) -> None:
    told: list[Progress] = []
    result = recover_directory(LOCAL, killed, OPTIONS, on_progress=told.append)
    assert told[-1].bytes_done == told[-1].bytes_total == result.plan.read_bytes > 0
    assert told[-1].logs_done == told[-1].logs_total == 4
    assert [part.bytes_done for part in told] == sorted(part.bytes_done for part in told)


def test_a_partition_that_cannot_be_recovered_leaves_the_directory_killed(killed: Path) -> None:
    """The other partitions are recovered, and the next run completes the recovery."""
    bad = killed / "t-2" / f"{0:020d}.log"
    data = bad.read_bytes()
    bad.write_bytes(plain(5_000_000_000) + data)
    result = recover_directory(LOCAL, killed, OPTIONS)
    assert [(name, type(error)) for name, error in result.failures] == [("t-2", StorageError)]
    assert [partition.name for partition in result.partitions] == ["t-0", "t-1", "t-3"]
    assert not (killed / ".kafka_cleanshutdown").exists()
    with pytest.raises(StorageError, match="31 bits"):
        recover(killed, now_ms=WRITTEN_MS)
    bad.write_bytes(data)
    recover(killed, now_ms=WRITTEN_MS)
    assert (killed / ".kafka_cleanshutdown").exists()


def test_an_unreadable_checkpoint_counts_as_zero_and_is_warned_of(killed: Path) -> None:
    write_checkpoint(killed, "recovery-point-offset-checkpoint", {"t-0": 200})
    assert plan_directory(LOCAL, killed, OPTIONS).partitions[0].recovery_point == 200
    (killed / "recovery-point-offset-checkpoint").write_text("nonsense\n")
    (killed / "log-start-offset-checkpoint").write_text("0\n1\nt 0\n")
    plan = plan_directory(LOCAL, killed, OPTIONS)
    assert plan.partitions[0].recovery_point == plan.partitions[0].log_start_offset == 0
    assert len(plan.warnings) == 2
    assert all("treated as empty" in warning for warning in plan.warnings)
    recover(killed, now_ms=WRITTEN_MS)
    assert (killed / "recovery-point-offset-checkpoint").read_text() == "0\n4\nt 0 200\nt 1 200\nt 2 200\nt 3 200\n"
    assert (killed / "log-start-offset-checkpoint").read_text() == "0\n0\n"


def test_the_recovery_point_bounds_what_is_read(killed: Path) -> None:
    write_checkpoint(killed, "recovery-point-offset-checkpoint", {"t-0": 150, "t-1": 0})
    plan = plan_directory(LOCAL, killed, OPTIONS)
    recovered = {
        part.name: [(segment.base_offset, segment.reason) for segment in part.recover] for part in plan.partitions
    }
    assert recovered["t-0"] == [(100, RecoveryReason.UNFLUSHED)]
    assert recovered["t-1"] == [(0, RecoveryReason.UNFLUSHED), (100, RecoveryReason.UNFLUSHED)]


def test_only_segments_from_the_recovery_point_on_are_synced(killed: Path) -> None:
    write_checkpoint(killed, "recovery-point-offset-checkpoint", {"t-0": 150, "t-1": 0})
    disk = SimulatedDisk.load(killed, Path("/data"))
    recover_directory(disk, Path("/data"), OPTIONS)
    synced = {(path.parent.name, path.name) for _, name, path in disk.calls if name == "sync" and path.suffix == ".log"}
    assert {name for partition, name in synced if partition == "t-0"} == {f"{100:020d}.log"}
    assert {name for partition, name in synced if partition == "t-1"} == {f"{0:020d}.log", f"{100:020d}.log"}


def test_a_directory_that_is_held(killed: Path) -> None:
    lock = LOCAL.lock(killed / ".lock")
    before = footprint(killed / "t-0")
    with pytest.raises(LockedError):
        recover(killed, now_ms=WRITTEN_MS)
    lock.release()
    assert footprint(killed / "t-0") == before


def test_directories_on_their_way_and_unfinished_checkpoints(killed: Path) -> None:
    """``-delete`` and ``-stray`` do not change, ``-future`` is recovered as a log, and a ``.tmp`` is deleted."""
    unique = "0" * 32
    (killed / "t-0").rename(killed / f"t-0.{unique}-delete")
    (killed / "t-1").rename(killed / f"t-1.{unique}-stray")
    (killed / "t-2").rename(killed / f"t-2.{unique}-future")
    (killed / "recovery-point-offset-checkpoint.tmp").write_text("0\n")
    before = [footprint(killed / f"t-{number}.{unique}-{word}") for number, word in enumerate(("delete", "stray"))]
    result = recover(killed, now_ms=WRITTEN_MS)
    assert [partition.name for partition in result.partitions] == [f"t-2.{unique}-future", "t-3"]
    assert result.plan.untouched == (f"t-0.{unique}-delete", f"t-1.{unique}-stray")
    assert not (killed / "recovery-point-offset-checkpoint.tmp").exists()
    assert before == [
        footprint(killed / f"t-{number}.{unique}-{word}") for number, word in enumerate(("delete", "stray"))
    ]


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(FileMissingError):
        plan_directory(LOCAL, tmp_path / "gone", OPTIONS)
    (tmp_path / "file").touch()
    with pytest.raises(DirectoryError):
        plan_directory(LOCAL, tmp_path / "file", OPTIONS)


@pytest.mark.parametrize("is_named", [True, False])
def test_the_metadata_log_of_the_same_broker_counts_for_its_other_directories(
    golden_copy: GoldenFactory, tmp_path: Path, is_named: bool
) -> None:
    """plain-0 has its own index.interval.bytes, which changes the bytes of its rebuilt indexes."""
    whole, parted, other = golden_copy(SCENARIOS, "unclean", "whole"), golden_copy(SCENARIOS, "unclean"), tmp_path / "2"
    other.mkdir()
    shutil.copy(parted / "meta.properties", other)
    shutil.copy(parted / "recovery-point-offset-checkpoint", other)
    shutil.move(parted / "plain-0", other)
    for directory in (whole, other):
        damage.reset_recovery_points(directory)
        damage.delete_indexes(directory / "plain-0")
    recover(whole, now_ms=WRITTEN_MS)
    recover(other, now_ms=WRITTEN_MS, sibling_directories=(parted,) if is_named else ())
    of_whole = {name: data for name, data in partition_files(whole).items() if name.startswith("plain-0/")}
    assert (partition_files(other) == of_whole) is is_named
