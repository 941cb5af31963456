"""Snapshots of directories that real brokers wrote, at ten times each."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import KRAFT_SETS, SETS
from snapshot_checks import Seen, data_partitions, digests, records, snapshot, until
from tidelog.inspect.verify.directory_check import verify_directory
from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL

CASES = [(name, "clean") for name in SETS] + [(name, "unclean") for name in KRAFT_SETS]
TIMES = 10


def moments(found: dict[TopicPartition, list[Seen]]) -> list[int]:
    """Return times between the first and the last record of a directory, those two, and the times of single records."""
    times = sorted({record.timestamp for seen in found.values() for record in seen if record.timestamp >= 0})
    return [times[(len(times) - 1) * number // (TIMES - 1)] for number in range(TIMES)]


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_records_are_exactly_those_before_the_time(
    name: str, kind: str, golden: GoldenFactory, tmp_path: Path
) -> None:
    source = golden(name, kind)
    before = digests(source)
    found = {one: records(source, one) for one in data_partitions(source)}
    for number, at_ms in enumerate(moments(found)):
        target = tmp_path / str(number)
        snapshot(source, target, at_ms=at_ms, open_transactions="keep")
        assert data_partitions(target) == list(found)
        for partition, seen in found.items():
            assert records(target, partition) == until(seen, at_ms), (partition, at_ms)
        checked = verify_directory(LOCAL, target)
        assert checked.has_no_errors, list(checked.all_findings)
    assert digests(source) == before
