"""A stream over directories that grow, roll, shrink and vanish, through runs that die: each record is in one batch."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from log_maker import BASE_TIME, data, mark_clean, marker, plain, write_checkpoint, write_segment
from spark.stream_driver import Checkpoint, DriverDiedError, Run
from tidelog.model import ConfigError, OffsetOutOfRangeError, TopicPartition, UnknownTopicOrPartitionError
from tidelog.spark.stream.log_once import LogOnce
from tidelog.storage.fs.local import LocalFileSystem


@pytest.fixture(params=[True, False], ids=["start passed", "start unknown"])
def passes_start(request: pytest.FixtureRequest) -> bool:
    """Return True for the protocol of PySpark 4.2 and later."""
    return bool(request.param)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write ``t-0`` with offsets 0 to 100 in one segment."""
    write_segment(tmp_path / "t-0", 0, [plain(10 * number) for number in range(10)])
    mark_clean(tmp_path)
    return tmp_path


def grow(root: Path, partition: str, base: int, count: int = 10) -> None:
    """Write a further segment with batches of ten records."""
    write_segment(root / partition, base, [plain(base + 10 * number) for number in range(count // 10)])


def offsets(checkpoint: Checkpoint, topic: str = "t", partition: int = 0) -> list[int]:
    return [offset for *place, offset in checkpoint.all_rows() if place == [topic, partition]]


def test_from_the_earliest(root: Path, passes_start: bool) -> None:
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start, startingOffsets="earliest")
    assert run.trigger()
    assert not run.trigger()
    grow(root, "t-0", 100)
    assert run.trigger()
    assert not run.trigger()
    assert checkpoint.sizes() == [100, 10]
    assert offsets(checkpoint) == list(range(110))
    assert checkpoint.ends == ['{"t": {"0": 100}}', '{"t": {"0": 110}}']


def test_from_the_latest_by_default(root: Path, passes_start: bool) -> None:
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start)
    run.all_available()
    grow(root, "t-0", 100)
    run.all_available()
    assert offsets(checkpoint) == list(range(100, 110))


@pytest.mark.parametrize("die_at", ["planned", "read"])
def test_the_latest_stays_the_same_through_a_death_in_the_first_batch(
    root: Path, passes_start: bool, die_at: str
) -> None:
    checkpoint = Checkpoint()
    with pytest.raises(DriverDiedError):
        Run(checkpoint, root, passes_start=passes_start).trigger(die_at)
    grow(root, "t-0", 100)
    grow(root, "t-1", 0)
    run = Run(checkpoint, root, passes_start=passes_start)
    run.all_available()
    assert offsets(checkpoint) == list(range(100, 110))
    assert offsets(checkpoint, "t", 1) == list(range(10))
    assert not run.warnings


@pytest.mark.parametrize("die_at", ["planned", "read"])
@pytest.mark.parametrize("dead_batch", [0, 1, 3])
def test_no_record_is_lost_or_doubled_where_a_run_dies(
    root: Path, passes_start: bool, die_at: str, dead_batch: int
) -> None:
    checkpoint = Checkpoint()
    grow(root, "t-1", 0, 50)
    given: dict[str, Any] = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 30}
    run = Run(checkpoint, root, passes_start=passes_start, **given)
    for _ in range(dead_batch):
        assert run.trigger()
    with pytest.raises(DriverDiedError):
        run.trigger(die_at)
    grow(root, "t-0", 100)
    run = Run(checkpoint, root, passes_start=passes_start, **given)
    run.all_available()
    assert offsets(checkpoint) == list(range(110))
    assert offsets(checkpoint, "t", 1) == list(range(50))
    assert max(checkpoint.sizes()) <= 32


def test_a_restart_goes_on_where_the_checkpoint_is(root: Path, passes_start: bool) -> None:
    checkpoint = Checkpoint()
    Run(checkpoint, root, passes_start=passes_start, startingOffsets="earliest").all_available()
    grow(root, "t-0", 100)
    run = Run(checkpoint, root, passes_start=passes_start)  # the option counts for a new query only
    run.all_available()
    assert checkpoint.sizes() == [100, 10]
    run = Run(checkpoint, root, passes_start=passes_start, startingOffsets='{"t":{"0":5}}')
    assert not run.trigger()


def test_starting_offsets_and_timestamps(root: Path, passes_start: bool) -> None:
    grow(root, "t-1", 0)
    for given, first in (
        ({"startingOffsets": '{"t":{"0":95,"1":-1}}'}, {0: list(range(95, 100)), 1: []}),
        ({"startingOffsets": '{"t":{"0":100,"1":-2}}'}, {0: [], 1: list(range(10))}),
        (
            {"startingTimestamp": BASE_TIME + 95, "startingOffsetsByTimestampStrategy": "latest"},
            {0: [95, 96, 97, 98, 99], 1: []},
        ),
    ):
        checkpoint = Checkpoint()
        Run(checkpoint, root, passes_start=passes_start, **given).all_available()
        assert {number: offsets(checkpoint, "t", number) for number in (0, 1)} == first
    with pytest.raises(ConfigError, match="must name exactly"):
        Run(Checkpoint(), root, passes_start=passes_start, startingOffsets='{"t":{"0":95}}').trigger()


def test_a_limit_shared_out_by_lag(root: Path, passes_start: bool) -> None:
    grow(root, "t-1", 0, 50)
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start, startingOffsets="earliest", maxOffsetsPerTrigger=30)
    assert run.trigger()
    assert checkpoint.ends == ['{"t": {"0": 20, "1": 10}}']
    assert run.reader.progress.latest == {TopicPartition("t", 0): 100, TopicPartition("t", 1): 50}
    run.all_available()
    assert checkpoint.sizes() == [30] * 5
    assert offsets(checkpoint) == list(range(100))


def test_a_restart_keeps_to_the_limit(root: Path, passes_start: bool) -> None:
    checkpoint = Checkpoint()
    given: dict[str, Any] = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 30}
    for _ in range(4):
        assert Run(checkpoint, root, passes_start=passes_start, **given).trigger()
    assert checkpoint.sizes() == [30, 30, 30, 10]


def test_a_batch_waits_for_enough_offsets(root: Path, passes_start: bool) -> None:
    checkpoint, now_ms = Checkpoint(), [0]
    given: dict[str, Any] = {"startingOffsets": "earliest", "minOffsetsPerTrigger": 20, "maxTriggerDelay": "10s"}
    run = Run(checkpoint, root, passes_start=passes_start, now_ms=now_ms, **given)
    assert run.trigger()
    grow(root, "t-0", 100)
    now_ms[0] = 9_999
    assert not run.trigger()
    grow(root, "t-0", 110)
    assert run.trigger()
    grow(root, "t-0", 120)
    assert not run.trigger()
    now_ms[0] += 10_000
    assert run.trigger()
    assert checkpoint.sizes() == [100, 20, 10]


def test_available_now_reads_what_there_was(root: Path) -> None:
    """Only PySpark 4.2 and later ask for this. Earlier releases make one batch of it."""
    checkpoint = Checkpoint()
    given: dict[str, Any] = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 40, "minOffsetsPerTrigger": 40}
    run = Run(checkpoint, root, available_now=True, **given)
    grow(root, "t-0", 100)
    grow(root, "t-1", 0)
    run.all_available()
    assert checkpoint.sizes() == [40, 40, 20]
    Run(checkpoint, root, available_now=True, **given).all_available()
    assert offsets(checkpoint) == list(range(110))
    assert offsets(checkpoint, "t", 1) == list(range(10))
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, available_now=True)
    grow(root, "t-0", 110)
    run.all_available()
    assert checkpoint.all_rows() == []
    Run(checkpoint, root, available_now=True).all_available()
    assert offsets(checkpoint) == list(range(110, 120))


def test_new_partitions_and_topics(root: Path, passes_start: bool) -> None:
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start, subscribePattern="t.*")
    run.all_available()
    grow(root, "t-1", 0)
    grow(root, "tt-0", 0)
    grow(root, "u-0", 0)
    run.all_available()
    assert checkpoint.sizes() == [0, 20]
    assert offsets(checkpoint, "t", 1) == offsets(checkpoint, "tt") == list(range(10))
    assert checkpoint.ends[-1] == '{"t": {"0": 100, "1": 10}, "tt": {"0": 10}}'


def test_nothing_there_yet(root: Path, passes_start: bool) -> None:
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start, subscribePattern="new", startingOffsets="earliest")
    run.all_available()
    grow(root, "new-0", 0)
    run.all_available()
    assert checkpoint.ends == ["{}", '{"new": {"0": 10}}']
    assert offsets(checkpoint, "new") == list(range(10))


@pytest.mark.parametrize("fail", [True, False])
def test_a_new_partition_that_does_not_begin_at_0(root: Path, passes_start: bool, fail: bool) -> None:
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start, failOnDataLoss=fail)
    run.all_available()
    grow(root, "t-1", 50)
    if fail:
        with pytest.raises(OffsetOutOfRangeError, match="t-1 is new and begins at offset 50 instead of 0"):
            run.trigger()
        return
    run.all_available()
    assert offsets(checkpoint, "t", 1) == list(range(50, 60))
    assert "t-1 is new" in run.warnings[-1]


@pytest.mark.parametrize("fail", [True, False])
def test_a_partition_that_is_gone(root: Path, passes_start: bool, fail: bool) -> None:
    grow(root, "t-1", 0)
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start, startingOffsets="earliest", failOnDataLoss=fail)
    run.all_available()
    shutil.rmtree(root / "t-1")
    grow(root, "t-0", 100)
    if fail:
        with pytest.raises(OffsetOutOfRangeError, match=r"t-1 is gone.*failOnDataLoss"):
            run.trigger()
        return
    run.all_available()
    assert offsets(checkpoint) == list(range(110))
    assert any("t-1 is gone" in warning for warning in run.warnings)


def test_a_topic_that_is_gone(root: Path, passes_start: bool) -> None:
    grow(root, "u-0", 0)
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start)
    run.all_available()
    shutil.rmtree(root / "t-0")
    with pytest.raises(UnknownTopicOrPartitionError, match="t not found"):
        run.trigger()


@pytest.mark.parametrize("fail", [True, False])
def test_records_deleted_before_they_were_read(root: Path, passes_start: bool, fail: bool) -> None:
    checkpoint = Checkpoint()
    given: dict[str, Any] = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 30, "failOnDataLoss": fail}
    run = Run(checkpoint, root, passes_start=passes_start, **given)
    run.trigger()
    write_checkpoint(root, "log-start-offset-checkpoint", {"t-0": 50})
    if fail:
        with pytest.raises(OffsetOutOfRangeError, match="records from 30 on were asked for, but the log starts at 50"):
            run.trigger()
        return
    run.all_available()
    assert offsets(checkpoint) == [*range(30), *range(50, 100)]


@pytest.mark.parametrize("fail", [True, False])
def test_a_log_that_was_made_anew(root: Path, passes_start: bool, fail: bool) -> None:
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start, startingOffsets="earliest", failOnDataLoss=fail)
    run.all_available()
    shutil.rmtree(root / "t-0")
    grow(root, "t-0", 0)
    if fail:
        with pytest.raises(OffsetOutOfRangeError, match="the offset of t-0 went back from 100 to 10"):
            run.trigger()
        return
    run.all_available()
    grow(root, "t-0", 10)
    run.all_available()
    assert offsets(checkpoint) == [*range(100), *range(10, 20)]


def test_segments_rolled_deleted_and_compacted_meanwhile(root: Path, passes_start: bool) -> None:
    grow(root, "t-0", 100, 100)
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start, startingOffsets="earliest", maxOffsetsPerTrigger=150)
    assert run.trigger()
    for name in ("log", "index", "timeindex"):
        (root / "t-0" / f"{0:020}.{name}").unlink(missing_ok=True)
    write_checkpoint(root, "log-start-offset-checkpoint", {"t-0": 100})
    write_segment(root / "t-0", 100, [plain(160), plain(190, 1)])  # compacted
    grow(root, "t-0", 200)
    run.all_available()
    assert offsets(checkpoint) == [*range(150), *range(160, 170), 190, *range(200, 210)]
    assert not run.warnings


def test_committed_records_only(root: Path, passes_start: bool) -> None:
    (root / ".kafka_cleanshutdown").unlink()
    write_segment(root / "t-0", 100, [data(100, 3), marker(103, committed=True), data(104, 2)])
    checkpoint = Checkpoint()
    given: dict[str, Any] = {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"}
    run = Run(checkpoint, root, passes_start=passes_start, **given)
    run.all_available()
    assert checkpoint.ends == ['{"t": {"0": 104}}']
    write_segment(
        root / "t-0", 100, [data(100, 3), marker(103, committed=True), data(104, 2), marker(106, committed=False)]
    )
    grow(root, "t-0", 107)
    run.all_available()
    assert offsets(checkpoint) == [*range(103), *range(107, 117)]


def test_a_live_directory_is_read_to_its_high_watermark(
    root: Path, passes_start: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(root, "replication-offset-checkpoint", {"t-0": 40})
    checkpoint = Checkpoint()
    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "lock_holder", lambda self, path: 4711)
        run = Run(checkpoint, root, passes_start=passes_start, startingOffsets="earliest")
        run.all_available()
        assert checkpoint.ends == ['{"t": {"0": 40}}']
        write_checkpoint(root, "replication-offset-checkpoint", {"t-0": 60})
        run.all_available()
        assert offsets(checkpoint) == list(range(60))
        assert sum("4711" in warning for warning in run.warnings) >= 1
    run.all_available()  # the lock is gone
    assert offsets(checkpoint) == list(range(100))
    monkeypatch.setattr(LocalFileSystem, "lock_holder", lambda self, path: 4712)
    # The lock is back, with a high watermark below the last read. Nothing is lost, and nothing is read twice.
    assert not run.trigger()
    grow(root, "t-0", 100)
    write_checkpoint(root, "replication-offset-checkpoint", {"t-0": 105})
    run.all_available()
    assert offsets(checkpoint) == list(range(105))


def test_bytes_behind_the_end_are_not_told(root: Path, passes_start: bool) -> None:
    with (root / "t-0" / f"{0:020}.log").open("ab") as log:
        log.write(b"\xff" * 100)
    (root / ".kafka_cleanshutdown").unlink()
    checkpoint = Checkpoint()
    run = Run(checkpoint, root, passes_start=passes_start, startingOffsets="earliest", onCorrupt="report")
    run.all_available()
    assert offsets(checkpoint) == list(range(100))


def test_a_stream_that_waits_says_each_thing_once(passes_start: bool, caplog: pytest.LogCaptureFixture) -> None:
    warning = LogOnce(logging.getLogger("tidelog.spark"))
    with caplog.at_level(logging.WARNING):
        for number in range(1500):
            warning("again")
            warning(f"{number}")
    assert len(caplog.records) <= 1503


def test_a_query_of_sparks_kafka_source_goes_on_here(root: Path, passes_start: bool) -> None:
    grow(root, "t-1", 0)
    checkpoint = Checkpoint(ends=['{"t":{"1":4,"0":50}}'], committed=1)
    run = Run(checkpoint, root, passes_start=passes_start)
    run.all_available()
    assert offsets(checkpoint) == list(range(50, 100))
    assert offsets(checkpoint, "t", 1) == list(range(4, 10))
    assert json.loads(checkpoint.ends[-1]) == {"t": {"0": 100, "1": 10}}
