"""The disk of a copy runs full or loses its power at any moment: nothing is destroyed, and the next run goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from mirroring.source_and_copy import KEEPING, assert_equal, options, produce
from tidelog.mirroring.blocking import run_mirror
from tidelog.mirroring.run.mirror_run import RunEnvironment
from tidelog.model import StorageError, TidelogError
from tidelog.storage.checkpoint import CLEAN_SHUTDOWN_FILE
from tidelog.testing import Broker, DiskCall, Lost, PowerLoss, SimulatedDisk

COPY = Path("/copy")
CUTS = range(0, 230, 19)
"""The changing calls of the disk before which the power fails."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with Broker(tmp_path_factory.mktemp("source"), configs=KEEPING) as broker:
        broker.create_topic("orders", 2, {"segment.bytes": "1048576"})
        for partition in range(2):
            for turn in range(15):
                produce(
                    broker, "orders", [b"%01000d" % (turn * 100 + number) for number in range(100)], partition=partition
                )
        yield broker


def mirror(source: Broker, disk: SimulatedDisk) -> None:
    environment = RunEnvironment(fs=disk, free_bytes=lambda _path: 1 << 40)
    chosen = options(source, COPY, topics="orders", with_coordinators=False, fetch_max_bytes=200_000)
    assert run_mirror(chosen, environment=environment).is_complete


def assert_true_copy(source: Broker, disk: SimulatedDisk, target: Path) -> None:
    disk.export(target)
    assert_equal(source.directory, target / "copy", "orders-0", "orders-1")


def test_a_full_disk_is_an_error_and_the_copy_goes_on_with_more_space(source: Broker, tmp_path: Path) -> None:
    disk = SimulatedDisk()
    disk.free_bytes = 1_500_000
    with pytest.raises(StorageError, match="no space left on the disk"):
        mirror(source, disk)
    disk.free_bytes = 100 << 20
    mirror(source, disk)
    assert_true_copy(source, disk, tmp_path)


def test_a_recovered_copy_without_its_first_segment_is_no_silent_success(source: Broker, tmp_path: Path) -> None:
    copy = tmp_path / "copy"

    def notes() -> list[str]:
        chosen = options(source, copy, topics="orders", with_coordinators=False)
        return [note for note in run_mirror(chosen).notes if "The copy of orders-1 was not shut down cleanly." in note]

    assert notes() == []
    (copy / CLEAN_SHUTDOWN_FILE).unlink()
    assert notes() == [], "the copy begins where the source does"
    (copy / CLEAN_SHUTDOWN_FILE).unlink()
    lost, kept, *_ = sorted((copy / "orders-1").glob("*.log"))
    for path in lost.parent.glob(f"{lost.stem}.*"):
        path.unlink()
    starts = f"It begins at offset {int(kept.stem)}, but the source's log begins at 0."
    assert [starts in note for note in notes()] == [True]
    shutil.rmtree(lost.parent)
    assert notes() == []
    assert_equal(source.directory, copy, "orders-0", "orders-1")


def test_a_segment_is_on_the_disk_before_the_next_one_begins(source: Broker) -> None:
    """Otherwise a power cut could leave later records without earlier ones, and the next run would not miss them."""
    disk = SimulatedDisk()
    found: dict[Path, bool] = {}

    def look(call: DiskCall) -> None:
        begins = call.name == "create" and call.path.suffix == ".log" and call.path.parent.name.startswith("orders-")
        if begins and int(call.path.stem):
            safe = disk.after_crash(Lost()).files()
            earlier = {path: data for path, data in disk.files(call.path.parent).items() if path.suffix == ".log"}
            found[call.path] = bool(earlier) and earlier.items() <= safe.items()

    disk.before_call = look
    mirror(source, disk)
    assert {path.parent.name for path in found} == {"orders-0", "orders-1"}
    assert all(found.values()), found


@pytest.mark.parametrize("cut", CUTS)
def test_a_power_cut_leaves_a_copy_that_goes_on(source: Broker, tmp_path: Path, cut: int) -> None:
    disk = SimulatedDisk()
    disk.crash_before(cut)
    with pytest.raises((TidelogError, PowerLoss)):
        mirror(source, disk)
    survived = disk.after_crash(cut)
    mirror(source, survived)
    assert_true_copy(source, survived, tmp_path)
