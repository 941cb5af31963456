"""Offsets by Kafka's special timestamps, with their leader epochs. The numbers are Kafka's."""

from __future__ import annotations

from pathlib import Path

import pytest

import log_maker
from log_maker import BASE_TIME, data, plain, write_segment
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.list_offsets import ListedOffset, OffsetSpec
from tidelog.storage.log.view.log_view import LogView


@pytest.fixture
def view(tmp_path: Path) -> LogView:
    """Make a log: offsets 10 to 40, log start 12, epoch 3, from 20 on 5, from 40 on 6, open transaction at 30."""
    batches = [plain(10), plain(20, timestamp=BASE_TIME + 500), data(30, 10, timestamp=BASE_TIME + 100)]
    write_segment(tmp_path / "t-0", 10, batches)
    log_maker.write_checkpoint(tmp_path, "log-start-offset-checkpoint", {"t-0": 12})
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n3\n3 10\n5 20\n6 40\n")
    return LogView(LOCAL, tmp_path / "t-0")


def test_the_special_ones(view: LogView) -> None:
    assert view.list_offset(OffsetSpec.EARLIEST) == ListedOffset(offset=12, leader_epoch=3)
    assert view.list_offset(OffsetSpec.EARLIEST_LOCAL) == ListedOffset(offset=12, leader_epoch=3)
    assert view.list_offset(OffsetSpec.LATEST) == ListedOffset(offset=40, leader_epoch=6)
    for spec in (OffsetSpec.LATEST_TIERED, OffsetSpec.EARLIEST_PENDING_UPLOAD):
        assert view.list_offset(spec) == ListedOffset(offset=-1, leader_epoch=-1)
    largest = ListedOffset(offset=29, timestamp=BASE_TIME + 509, leader_epoch=5)
    assert view.list_offset(OffsetSpec.MAX_TIMESTAMP) == largest


def test_by_time(view: LogView) -> None:
    found = view.list_offset(BASE_TIME + 15)
    assert found == ListedOffset(offset=15, timestamp=BASE_TIME + 15, leader_epoch=3)
    assert view.list_offset(BASE_TIME + 10_000) is None


def test_read_committed_ends_at_the_last_stable_offset(view: LogView) -> None:
    latest = view.list_offset(OffsetSpec.LATEST, isolation="read_committed")
    assert latest == ListedOffset(offset=30, leader_epoch=6)


def test_numbers_without_a_meaning(view: LogView) -> None:
    with pytest.raises(ValueError, match="-7"):
        view.list_offset(-7)


def test_a_log_without_records_or_epochs(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    view = LogView(LOCAL, tmp_path / "t-0")
    assert view.list_offset(OffsetSpec.EARLIEST) == ListedOffset(offset=0)
    assert view.list_offset(OffsetSpec.LATEST) == ListedOffset(offset=0)
    assert view.list_offset(OffsetSpec.MAX_TIMESTAMP) is None
    assert view.list_offset(0) is None


def test_epochs_that_begin_above_the_log_start(tmp_path: Path) -> None:
    """The first record's epoch is unknown, as after records of an old format."""
    write_segment(tmp_path / "t-0", 0, [plain(0), plain(10)])
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n1\n4 10\n")
    view = LogView(LOCAL, tmp_path / "t-0")
    assert view.list_offset(OffsetSpec.EARLIEST) == ListedOffset(offset=0)
    assert view.list_offset(BASE_TIME + 3) == ListedOffset(offset=3, timestamp=BASE_TIME + 3)
