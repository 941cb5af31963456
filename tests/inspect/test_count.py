"""The counts of records, compared with those of a real consumer."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import KRAFT_SETS, SETS, manifest
from log_maker import data, mark_clean, marker, plain, write_checkpoint, write_segment
from tidelog.inspect.count import PartitionCount, count_directory
from tidelog.model import CorruptRecordError, TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.log_view import LogView

DIRECTORIES = [(name, kind) for name in SETS for kind in (("clean", "unclean") if name in KRAFT_SETS else ("clean",))]


@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_counts_are_those_of_the_manifest(golden: GoldenFactory, set_name: str, kind: str) -> None:
    found = {str(count.partition): count for count in count_directory(LOCAL, golden(set_name, kind))}
    for name, levels in manifest(set_name).items():
        count = found[name]
        assert count.error is None
        everything = levels["read_uncommitted"]
        assert (count.log_start, count.high_watermark, count.log_end, count.records) == (
            everything["low"],
            everything["high"],
            everything["high"],
            everything["count"],
        )
        committed = levels.get("read_committed", everything)
        assert (count.last_stable, count.committed) == (committed["high"], committed["count"])
        assert count.records == count.committed + count.aborted + count.held_back


def test_headers_alone_give_the_same_numbers(golden: GoldenFactory) -> None:
    for name in SETS:
        full = count_directory(LOCAL, golden(name), threads=1)
        quick = count_directory(LOCAL, golden(name), headers_only=True)
        for one, other in zip(full, quick, strict=True):
            assert other.tombstones is None
            for field in ("records", "committed", "aborted", "held_back", "control", "batches", "bytes"):
                assert getattr(one, field) == getattr(other, field)


def counted(golden: GoldenFactory, set_name: str, name: str, kind: str = "clean") -> PartitionCount:
    only = [TopicPartition.from_directory_name(name)]
    (found,) = count_directory(LOCAL, golden(set_name, kind), only=only)
    return found


def test_what_offsets_do_not_tell(golden: GoldenFactory) -> None:
    txn = counted(golden, "scenarios-kafka-4.1", "txn-0")
    # The 561 offsets are 60 markers and 501 data records, some of them in an open transaction.
    assert (txn.log_end, txn.records, txn.control) == (561, 501, 60)
    assert txn.held_back == txn.records - txn.committed - txn.aborted > 0
    compacted = counted(golden, "scenarios-kafka-4.1", "compacted-0")
    assert (compacted.log_end, compacted.records) == (2450, 150)
    assert counted(golden, "flights-kafka-4.1", "airports-0").tombstones == 113
    trimmed = counted(golden, "scenarios-kafka-4.1", "trimmed-0")
    assert (trimmed.log_start, trimmed.records) == (777, 1223)


@pytest.mark.parametrize("high_watermark", [0, 7, 16, 17, 18, 25, 30, 99])
def test_records_above_the_high_watermark(tmp_path: Path, high_watermark: int) -> None:
    """The high watermark may lie inside a batch, at a marker, in a gap or past the end."""
    partition = tmp_path / "t-0"
    write_segment(partition, 0, [plain(0, 10), data(10, 6), marker(16, committed=False), data(20, 10)])
    mark_clean(tmp_path)
    write_checkpoint(tmp_path, "replication-offset-checkpoint", {"t-0": high_watermark})
    (count,) = count_directory(LOCAL, tmp_path)
    records = [*range(16), *range(20, 30)]
    assert count.records_above_hw == sum(offset >= high_watermark for offset in records)
    assert count.offsets_above_hw == max(0, 30 - high_watermark)
    between = LogView(LOCAL, partition).count_between()
    assert (count.records_above_hw, count.offsets_above_hw) == (between.records, between.offsets)


def test_damage_is_an_error_of_its_partition_alone(golden_copy: GoldenFactory) -> None:
    directory = golden_copy("flights-kafka-4.1")
    log = directory / "flights-1" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    found = {str(count.partition): count for count in count_directory(LOCAL, directory)}
    error = found.pop("flights-1").error
    assert isinstance(error, CorruptRecordError)
    assert error.path == str(log)
    assert all(count.error is None for count in found.values())


def test_progress_adds_up_to_the_bytes(golden: GoldenFactory) -> None:
    read: list[int] = []
    found = count_directory(LOCAL, golden("flights-kafka-4.1"), advance=read.append)
    assert sum(read) == sum(count.bytes for count in found)
