"""Counts and lookups through the public API, on logs that are open for writing and for reading."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog
from conftest import GoldenFactory
from golden_sets import SCENARIOS
from log_maker import write_checkpoint
from tidelog import ClosedError, OffsetOutOfRangeError
from tidelog.api.log import SpecName

NOW = 1_700_000_000_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "events-0"


class TestCountBetween:
    def test_of_a_log_without_replicas_nothing_lies_above_the_high_watermark(self, path: Path) -> None:
        with tidelog.open_log(path) as log:
            log.append_batch([b"x"] * 10)
            found = log.count_between()
            assert (found.start, found.end, found.records, found.control_records, found.offsets) == (10, 10, 0, 0, 0)
            assert log.count_between(3, 7).records == 4
            log.append(b"y")
            assert log.count_between(0).records == 11
        with pytest.raises(ClosedError):
            log.count_between()

    def test_above_the_checkpointed_high_watermark(self, path: Path) -> None:
        with tidelog.open_log(path) as log:
            log.append_batch([b"x"] * 10)
        write_checkpoint(path.parent, "replication-offset-checkpoint", {"events-0": 4})
        with tidelog.open_log(path, read_only=True) as log:
            found = log.count_between()
            assert (found.start, found.end, found.records) == (4, 10, 6)
            with pytest.raises(OffsetOutOfRangeError):
                log.count_between(0, 11)

    def test_markers_are_told_apart(self, golden: GoldenFactory) -> None:
        with tidelog.open_log(golden(SCENARIOS) / "txn-0", read_only=True) as log:
            found = log.count_between(0)
            assert (found.records, found.control_records, found.offsets) == (501, 60, 561)


class TestListOffset:
    def test_by_name_by_number_and_by_time(self, path: Path) -> None:
        with tidelog.open_log(path) as log:
            log.append_batch([b"x"] * 4, timestamps=[NOW, NOW + 9, NOW + 9, NOW + 5])
            cases: list[tuple[SpecName, int, int]] = [("earliest", -2, 0), ("latest", -1, 4), ("max_timestamp", -3, 1)]
            for name, number, offset in cases:
                by_name, by_number = log.list_offset(name), log.list_offset(number)
                assert by_name == by_number
                assert by_name is not None
                assert by_name.offset == offset
                assert by_name.leader_epoch == 0
            assert log.offset_of_max_timestamp() == 1
            found = log.list_offset(NOW + 1)
            assert found is not None
            assert (found.offset, found.timestamp) == (1, NOW + 9)
            assert log.list_offset(NOW + 10) is None
            with pytest.raises(ValueError, match="'newest'"):
                log.list_offset("newest")  # type: ignore[arg-type]
        with pytest.raises(ClosedError):
            log.offset_of_max_timestamp()

    def test_nothing_to_find(self, path: Path) -> None:
        with tidelog.open_log(path) as log:
            assert log.offset_of_max_timestamp() is None
            assert log.list_offset("max_timestamp") is None

    def test_of_a_real_partition(self, golden: GoldenFactory) -> None:
        with tidelog.open_log(golden(SCENARIOS) / "txn-0", read_only=True) as log:
            committed = log.list_offset("latest", isolation="read_committed")
            assert committed is not None
            assert committed.offset == 516
            largest = log.offset_of_max_timestamp()
            times = [(record.timestamp, -record.offset) for record in log.records()]
            assert largest is not None
            assert largest >= -max(times)[1]
