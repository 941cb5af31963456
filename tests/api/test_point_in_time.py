"""``tidelog.snapshot``: the same as the command, from Python."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

import tidelog
from snapshot_checks import records
from snapshot_source import T0, Source
from tidelog import TopicPartition

PARTITION = TopicPartition("t", 0)


def make(path: Path) -> Source:
    source = Source(path)
    for number in range(5):
        source.log("t-0").append([T0 + number])
    source.finish()
    return source


@pytest.mark.parametrize(
    "at",
    [
        T0 + 2,
        datetime.fromtimestamp((T0 + 2) / 1000, UTC),
        datetime.fromtimestamp((T0 + 2) / 1000, UTC).replace(tzinfo=None),
    ],
)
def test_at_a_time(at: int | datetime, tmp_path: Path) -> None:
    source = make(tmp_path / "data")
    result = tidelog.snapshot(source.path, str(tmp_path / "copy"), at=at)
    assert isinstance(result, tidelog.SnapshotResult)
    assert records(tmp_path / "copy", PARTITION) == source.logs[PARTITION].seen[:3]
    with tidelog.open_log(tmp_path / "copy" / "t-0", read_only=True) as log:
        assert list(log.records())[-1].offset == 2


def test_at_offsets_of_two_directories(tmp_path: Path) -> None:
    one, two = make(tmp_path / "one"), make(tmp_path / "two")
    (two.path / "t-0").rename(two.path / "u-0")
    seen: list[int] = []
    tidelog.snapshot(
        [one.path, two.path],
        [tmp_path / "a", tmp_path / "b"],
        at_offsets={PARTITION: 1, TopicPartition("u", 0): 4},
        links=False,
        on_progress=lambda progress: seen.append(progress.logs_done),
    )
    assert len(records(tmp_path / "a", PARTITION)) == 1
    assert len(records(tmp_path / "b", TopicPartition("u", 0))) == 4
    assert seen[-1] == 2


def test_refused(tmp_path: Path) -> None:
    source = make(tmp_path / "data")
    with pytest.raises(ValueError, match="needs a moment"):
        tidelog.snapshot(source.path, tmp_path / "copy")
    with pytest.raises(ValueError, match="1 log directories need as many destinations, not 2"):
        tidelog.snapshot(source.path, [tmp_path / "a", tmp_path / "b"], at=0)
    with pytest.raises(ValueError, match="forget"):
        tidelog.snapshot(source.path, tmp_path / "copy", at=0, open_transactions="forget")
    with pytest.raises(tidelog.DirectoryError, match="already exists"):
        tidelog.snapshot(source.path, source.path, at=0)
