"""The cost of planning: a few bytes of each log of any size, and a few seconds for thousands of partitions."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from log_maker import BASE_TIME, mark_clean, plain, write_checkpoint, write_segment
from spark.in_process import reader_of, splits_of

PARTITIONS = 5000
MOST_CPU_SECONDS = 60
"""The limit of CPU time: ten times the need of an idle machine."""


def bytes_read() -> int:
    """Return the bytes that this process has read so far from any file."""
    first = Path("/proc/self/io").read_text().splitlines()[0]
    return int(first.removeprefix("rchar:"))


@pytest.fixture
def large(tmp_path: Path) -> Path:
    """Write 8 MB in four segments to ``t-0``, 200 kB each to ``t-1`` to ``t-4``. There is a record a millisecond."""
    for base in range(0, 4000, 1000):
        batches = [plain(base + 10 * number, size=2000) for number in range(100)]
        write_segment(tmp_path / "t-0", base, batches, interval_bytes=4096)
    for partition in range(1, 5):
        batches = [plain(10 * number, size=2000) for number in range(10)]
        write_segment(tmp_path / f"t-{partition}", 0, batches, interval_bytes=4096)
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {"t-0": 4000} | {f"t-{n}": 100 for n in range(1, 5)})
    mark_clean(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"splitBytes": 500_000},
        {"startingTimestamp": BASE_TIME + 50, "endingTimestamp": BASE_TIME + 3500},
        {"kafka__isolation__level": "read_committed"},
        {"minPartitions": 40},
    ],
    ids=lambda given: ",".join(given) or "everything",
)
def test_planning_reads_a_little_of_each_log(large: Path, given: dict[str, Any]) -> None:
    size = sum(path.stat().st_size for path in large.glob("*/*.log"))
    assert splits_of(reader_of(large, **given))  # a first run reads modules and other things that are read only once
    before = bytes_read()
    splits_of(reader_of(large, **given))
    assert bytes_read() - before < size // 5


def test_a_skewed_partition_is_split_by_bytes(large: Path) -> None:
    splits = splits_of(reader_of(large, splitBytes=500_000))
    sizes = [sum(piece.size_bytes for piece in split.pieces) for split in splits]
    assert sum(sizes) >= 8_000_000
    assert max(sizes) <= 600_000
    assert {piece.partition.partition for split in splits for piece in split.pieces} == set(range(5))


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"kafka__isolation__level": "read_committed"},
        {"startingTimestamp": BASE_TIME + 150},
        {"minPartitions": 20_000},
    ],
    ids=lambda given: ",".join(given) or "everything",
)
def test_thousands_of_partitions(tmp_path: Path, given: dict[str, Any]) -> None:
    for base in (0, 100, 200):
        write_segment(tmp_path / "t-0", base, [plain(base + 10 * number) for number in range(10)])
    files = sorted((tmp_path / "t-0").iterdir())
    for number in range(1, PARTITIONS):
        directory = tmp_path / f"t-{number}"
        directory.mkdir()
        for file in files:
            os.link(file, directory / file.name)
    names = [f"t-{number}" for number in range(PARTITIONS)]
    for checkpoint in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        write_checkpoint(tmp_path, checkpoint, dict.fromkeys(names, 300))
    mark_clean(tmp_path)
    reader = reader_of(tmp_path, **given)
    begun = time.process_time()
    splits = splits_of(reader)
    assert time.process_time() - begun < MOST_CPU_SECONDS
    assert len({piece.partition for split in splits for piece in split.pieces}) == PARTITIONS
