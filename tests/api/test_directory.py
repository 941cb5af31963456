"""A directory's checkpoints are read once, on first use, for all its partitions. Ids of new partitions."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog
from conftest import GoldenFactory
from golden_sets import FLIGHTS
from log_maker import mark_clean, plain, write_checkpoint, write_segment
from tidelog.api.directory import Directory
from tidelog.model import TopicPartition
from tidelog.storage.checkpoint import LOG_START_CHECKPOINT, PARTITION_METADATA_FILE, PartitionMetadata
from tidelog.storage.fs import LOCAL, File, LocalFileSystem


class Watching(LocalFileSystem):
    def __init__(self) -> None:
        self.opened: list[str] = []

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:  # type: ignore[override]
        self.opened.append(path.name)
        return super().open(path, write=write, create=create)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for number in range(3):
        write_segment(tmp_path / f"foo-{number}", 0, [plain(0)])
    write_checkpoint(tmp_path, LOG_START_CHECKPOINT, {"foo-0": 3, "foo-1": 7})
    mark_clean(tmp_path)
    return tmp_path


def test_checkpoints_are_read_once_and_late(home: Path) -> None:
    fs = Watching()
    directory = Directory(fs, [home])
    assert LOG_START_CHECKPOINT not in fs.opened
    assert [directory.log("foo", number).offsets().log_start for number in range(3)] == [3, 7, 0]
    assert fs.opened.count(LOG_START_CHECKPOINT) == 1
    assert TopicPartition("foo", 2) not in directory.state(home).log_start_offsets


def test_a_path_that_is_not_one_of_them(home: Path) -> None:
    with pytest.raises(ValueError, match="elsewhere is not one of"):
        Directory(LocalFileSystem(), [home]).state(home / "elsewhere")


@pytest.mark.parametrize("housekeeping", [False, True])
def test_a_new_partition_has_the_id_that_the_cluster_knows(golden_copy: GoldenFactory, housekeeping: bool) -> None:
    """A broker treats a partition without an id as a stray, and sets it aside."""
    path = golden_copy(FLIGHTS)
    theirs = PartitionMetadata.read(LOCAL, path / "flights-0" / PARTITION_METADATA_FILE)
    with tidelog.open_directory(path, housekeeping=housekeeping) as directory:
        directory.log("flights", 99).append(b"new")
        ours = PartitionMetadata.read(LOCAL, path / "flights-99" / PARTITION_METADATA_FILE)
        directory.log("unknown", 0).append(b"new")
        assert PartitionMetadata.read(LOCAL, path / "unknown-0" / PARTITION_METADATA_FILE) is None
    assert ours is not None
    assert ours == theirs
