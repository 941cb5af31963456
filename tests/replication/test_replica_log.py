"""A partition's log on a disk is a log for the cores: a follower becomes the leader's copy, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from log_maker import batch
from storage.log.log_harness import NOW, LogHarness
from tidelog.kernel import scan_batches
from tidelog.model import Isolation, OffsetOutOfRangeError, UnexpectedAppendOffsetError
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import (
    Append,
    Command,
    Commands,
    FetchedPartition,
    FetchPosition,
    FollowedLeader,
    Follower,
    ListedPartition,
    ListOffsets,
    NamedOffset,
    Phase,
    RaiseLogStart,
    ReplicaLog,
    SetHighWatermark,
    TruncateFully,
    TruncateTo,
)
from tidelog.storage.log.partition_log import LogReadRequest, PartitionLog


def content(log: PartitionLog, start: int) -> bytes:
    """Return the batches from ``start`` on."""
    if start == log.end_offset:
        return b""
    request = LogReadRequest(start_offset=start, max_bytes=1 << 20, isolation=Isolation.LOG_END)
    data = log.read(request).data()  # it ends with its segment
    return data + content(log, int(scan_batches(data).last_offset[-1]) + 1)


def fetch(leader: PartitionLog, asked: FetchPosition) -> FetchedPartition:
    diverging = None
    try:
        if asked.last_fetched_epoch >= 0:
            diverging = leader.epochs.diverging(asked.last_fetched_epoch, asked.offset)
        records = b"" if diverging else content(leader, asked.offset)
    except OffsetOutOfRangeError:
        return FetchedPartition(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
    return FetchedPartition(
        high_watermark=leader.high_watermark,
        log_start_offset=leader.log_start_offset,
        diverging_epoch=diverging,
        records=records,
    )


def perform(command: Command, log: PartitionLog) -> None:
    match command:
        case TruncateTo(offset=offset):
            log.truncate_to(offset)
        case TruncateFully(offset=offset):
            log.truncate_fully_and_start_at(offset)
        case Append(records=records, leader_epoch=leader_epoch):
            log.append_as_follower(records, leader_epoch)
        case SetHighWatermark(offset=offset):
            log.update_high_watermark(offset)
        case RaiseLogStart(offset=offset):
            log.maybe_increment_log_start_offset(offset)
        case _:
            pytest.fail(f"an unexpected command: {command}")


def execute(follower: Follower, commands: Commands, log: PartitionLog, leader: PartitionLog) -> None:
    while commands:
        if isinstance(commands[0], ListOffsets):
            is_start = commands[0].timestamp is NamedOffset.EARLIEST
            offset = leader.log_start_offset if is_start else leader.end_offset
            commands = follower.listed(commands[0], ListedPartition(offset=offset), 0)
            continue
        try:
            for command in commands:
                perform(command, log)
        except UnexpectedAppendOffsetError as error:
            commands = follower.write_failed(error, 0)
        else:
            commands = follower.written(0)


def follow(log: PartitionLog, leader: PartitionLog, epoch: int) -> Follower:
    """Fetch until a response brings nothing new."""
    reads: ReplicaLog = log
    follower = Follower(reads)
    execute(follower, follower.follow(FollowedLeader(leader_id=1, leader_epoch=epoch)), log, leader)
    last = None
    while (position := follower.poll(0)) != last:
        assert position is not None, follower.phase
        last = position
        execute(follower, follower.fetched(position, fetch(leader, position), 0), log, leader)
    assert follower.phase is Phase.FETCHING
    return follower


def fill(log: PartitionLog, epochs: list[int], *, name: bytes = b"record") -> None:
    for epoch in epochs:
        offset = log.end_offset
        log.append_as_follower(batch(offset, [b"%s %d" % (name, offset)], timestamp=NOW, epoch=epoch), epoch)


def test_a_diverged_log_becomes_the_leaders_copy(tmp_path: Path) -> None:
    harness, other = LogHarness(tmp_path / "leader-0"), LogHarness(tmp_path / "follower-0")
    leader, log = harness.open(segment_bytes=400), other.open(segment_bytes=400)
    fill(leader, [0, 0, 0, 2, 2, 5, 5])
    leader.update_high_watermark(6)
    fill(log, [0, 0, 0])
    fill(log, [1, 3, 3, 3, 3, 3], name=b"unclean")
    follower = follow(log, leader, 5)
    assert content(log, 0) == content(leader, 0)
    assert (log.high_watermark, log.end_offset, follower.lag) == (6, 7, 0)
    assert log.epochs.entries == leader.epochs.entries
    harness.close()
    other.close()


@pytest.mark.parametrize("start", [0, 2], ids=["an empty log", "a log that ends below the leader's start"])
def test_a_log_below_the_leaders_start_begins_inside_its_first_batch(tmp_path: Path, start: int) -> None:
    harness, other = LogHarness(tmp_path / "leader-0"), LogHarness(tmp_path / "follower-0")
    leader, log = harness.open(), other.open()
    for base in (0, 4, 8):
        records = [b"record %d" % (base + at) for at in range(4)]
        leader.append_as_follower(batch(base, records, timestamp=NOW, epoch=1), 1)
    leader.update_high_watermark(12)
    leader.maybe_increment_log_start_offset(6)
    fill(log, [1] * start)
    follow(log, leader, 1)
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (6, 12, 12)
    assert content(log, 6) == content(leader, 6)
    harness.close()
    other.close()


def test_a_log_of_an_older_epoch_starts_over_inside_the_leaders_first_batch(tmp_path: Path) -> None:
    """The follower truncates to the leader's log start, where its own log ends then: inside a batch of the leader."""
    harness, other = LogHarness(tmp_path / "leader-0"), LogHarness(tmp_path / "follower-0")
    leader, log = harness.open(), other.open()
    for base in (0, 4, 8):
        records = [b"record %d" % (base + at) for at in range(4)]
        leader.append_as_follower(batch(base, records, timestamp=NOW, epoch=2), 2)
    leader.update_high_watermark(12)
    leader.maybe_increment_log_start_offset(6)
    fill(log, [1] * 9, name=b"unclean")
    follow(log, leader, 2)
    assert (log.log_start_offset, log.high_watermark, log.end_offset) == (6, 12, 12)
    assert content(log, 6) == content(leader, 6)
    assert log.epochs.entries == leader.epochs.entries
    harness.close()
    other.close()
