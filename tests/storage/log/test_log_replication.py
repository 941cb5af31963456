"""Two diverged logs: the leader reports the divergence, and the follower truncates until both agree."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log_maker import batch
from storage.log.log_harness import NOW, LogHarness
from tidelog.kernel import scan_batches
from tidelog.model import Isolation, OffsetOutOfRangeError
from tidelog.storage.epoch import EpochEndOffset
from tidelog.storage.log.partition_log import LogReadRequest, PartitionLog


@contextmanager
def opened(leader: list[int], follower: list[int]) -> Iterator[tuple[PartitionLog, PartitionLog]]:
    """Open two logs with one record per offset, in these epochs. Records of the same epoch and offset are equal."""
    with tempfile.TemporaryDirectory() as parent:
        homes = [LogHarness(Path(parent) / name) for name in ("leader-0", "follower-0")]
        logs = [harness.open(segment_bytes=400) for harness in homes]
        for log, epochs in zip(logs, (leader, follower), strict=True):
            for offset, epoch in enumerate(epochs):
                made = batch(offset, [b"%d of %d" % (offset, epoch)], timestamp=NOW, epoch=epoch)
                log.append_as_follower(made, epoch)
        yield logs[0], logs[1]
        for harness in homes:
            harness.close()


def content(log: PartitionLog) -> bytes:
    found, offset = b"", log.log_start_offset
    while offset < log.end_offset:
        part = log.read(LogReadRequest(start_offset=offset, max_bytes=1 << 20, isolation=Isolation.LOG_END)).data()
        offset = int(scan_batches(part).last_offset[-1]) + 1
        found += part
    return found


def reconcile(leader: PartitionLog, follower: PartitionLog) -> None:
    """Ask the leader and truncate until the follower's log is part of the leader's. Each round removes records."""
    while (last := follower.epochs.latest) is not None:
        answer = leader.epochs.diverging(last, follower.end_offset)
        if answer is None:
            return
        before = follower.end_offset
        follower.truncate_to(follower.epochs.truncation_for(answer).offset)
        assert follower.end_offset < before


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    """Draw a common ascending part, then epochs that each belong to one side alone."""
    common = sorted(draw(st.lists(st.integers(0, 4), min_size=1, max_size=12), label="common"))
    sides: tuple[list[int], list[int]] = ([], [])
    first = common[-1]
    goes_on = draw(st.integers(0, 1), label="who has more of the last epoch")
    sides[goes_on].extend([first] * draw(st.integers(0, 4), label="more of it"))
    for epoch in range(first + 1, first + 1 + draw(st.integers(0, 5), label="later epochs")):
        sides[draw(st.integers(0, 1))].extend([epoch] * draw(st.integers(1, 4)))
    return common + sides[0], common + sides[1]


@settings(max_examples=40)
@given(histories())
def test_two_replicas_become_the_same(history: tuple[list[int], list[int]]) -> None:
    leader_epochs, follower_epochs = history
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(*history, strict=False)))
    with opened(leader_epochs, follower_epochs) as (leader, follower):
        elected = max(*leader_epochs, *follower_epochs) + 1
        leader.assign_epoch(elected, leader.end_offset)
        reconcile(leader, follower)
        assert follower.end_offset == same, "all that differs was cut, and nothing else"
        assert content(leader).startswith(content(follower))
        missing = leader.read(LogReadRequest(start_offset=same, max_bytes=1 << 20, isolation=Isolation.LOG_END))
        while follower.end_offset < leader.end_offset:
            follower.append_as_follower(missing.data(), elected)
            start = follower.end_offset
            missing = leader.read(LogReadRequest(start_offset=start, max_bytes=1 << 20, isolation=Isolation.LOG_END))
        assert content(follower) == content(leader)
        assert (*follower.epochs.entries, (elected, leader.end_offset)) == leader.epochs.entries


@pytest.mark.parametrize(
    ("last_fetched_epoch", "fetch_offset", "answer"),
    [
        (5, 12, None),
        (5, 9, None),
        (5, 13, EpochEndOffset(5, 12)),
        (2, 5, None),
        (2, 6, EpochEndOffset(2, 5)),
        (3, 5, EpochEndOffset(2, 5)),
        (4, 20, EpochEndOffset(2, 5)),
        (1, 4, EpochEndOffset(0, 3)),
        (9, 12, "unknown"),
        (0, 1, "below the log start"),
        (1, 1, "below the log start"),
    ],
)
def test_what_a_leader_answers(last_fetched_epoch: int, fetch_offset: int, answer: EpochEndOffset | str | None) -> None:
    """The leader has epochs 0 from 0, 2 from 3 and 5 from 5 to 12. Its log starts at 2."""
    with opened([0] * 3 + [2] * 2 + [5] * 7, []) as (leader, _):
        leader.update_high_watermark(12)
        leader.maybe_increment_log_start_offset(2)
        if isinstance(answer, str):
            with pytest.raises(OffsetOutOfRangeError) as caught:
                leader.epochs.diverging(last_fetched_epoch, fetch_offset)
            assert caught.value.offset == fetch_offset
        else:
            assert leader.epochs.diverging(last_fetched_epoch, fetch_offset) == answer


@pytest.mark.parametrize(
    ("leader", "offset", "is_complete"),
    [
        (EpochEndOffset(2, 4), 4, True),
        (EpochEndOffset(2, 9), 5, True),
        (EpochEndOffset(3, 20), 5, False),
        (EpochEndOffset(9, 30), 12, True),
        (EpochEndOffset(9, 7), 7, True),
        (EpochEndOffset(5, 30), 12, True),
    ],
)
def test_where_a_follower_cuts(leader: EpochEndOffset, offset: int, is_complete: bool) -> None:
    with opened([], [0] * 3 + [2] * 2 + [5] * 7) as (_, follower):
        cut = follower.epochs.truncation_for(leader)
        assert (cut.offset, cut.is_complete) == (offset, is_complete)


def test_a_follower_without_epochs_takes_the_leaders_end() -> None:
    with opened([], []) as (_, follower):
        follower.truncate_fully_and_start_at(10)
        assert follower.epochs.truncation_for(EpochEndOffset(3, 7)).offset == 7
        assert follower.epochs.truncation_for(EpochEndOffset(3, 70)).offset == 10
