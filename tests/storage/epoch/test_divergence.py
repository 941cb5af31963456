"""The divergence of two replicas' logs: leader's results, follower's truncations, and both until the logs agree."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import OffsetOutOfRangeError
from tidelog.storage.epoch import EpochEndOffset, EpochEntry, LeaderEpochCache, diverging_epoch, follower_truncation

LEADER = LeaderEpochCache([EpochEntry(1, 0), EpochEntry(3, 10), EpochEntry(5, 20)])


@pytest.mark.parametrize(
    ("last_fetched_epoch", "fetch_offset", "expected"),
    [
        (5, 30, None),
        (5, 25, None),
        (3, 20, None),
        (3, 21, EpochEndOffset(3, 20)),
        (4, 15, EpochEndOffset(3, 20)),
        (2, 8, EpochEndOffset(1, 10)),
        (1, 10, None),
        (1, 11, EpochEndOffset(1, 10)),
        (5, 31, EpochEndOffset(5, 30)),
    ],
)
def test_what_a_leader_answers(last_fetched_epoch: int, fetch_offset: int, expected: EpochEndOffset | None) -> None:
    answer = diverging_epoch(
        LEADER, log_start=0, log_end=30, last_fetched_epoch=last_fetched_epoch, fetch_offset=fetch_offset
    )
    assert answer == expected


@pytest.mark.parametrize(
    ("last_fetched_epoch", "fetch_offset", "log_start"), [(6, 30, 0), (-1, 30, 0), (5, 4, 5), (3, 2, 3)]
)
def test_what_a_leader_refuses(last_fetched_epoch: int, fetch_offset: int, log_start: int) -> None:
    """The leader refuses an epoch that it does not know, and a fetch below its log start."""
    with pytest.raises(OffsetOutOfRangeError) as caught:
        diverging_epoch(
            LEADER, log_start=log_start, log_end=30, last_fetched_epoch=last_fetched_epoch, fetch_offset=fetch_offset
        )
    assert caught.value.offset == fetch_offset


@pytest.mark.parametrize(
    ("answer", "offset", "is_complete"),
    [
        (EpochEndOffset(5, 30), 25, True),  # the follower's own end of that epoch
        (EpochEndOffset(5, 22), 22, True),  # the leader's end of that epoch
        (EpochEndOffset(3, 20), 20, True),
        (EpochEndOffset(4, 20), 20, False),  # the follower knows a smaller epoch and asks for that one
        (EpochEndOffset(7, 22), 22, True),  # the follower does not know this epoch
        (EpochEndOffset(7, 99), 25, True),  # never above its own log end
    ],
)
def test_where_a_follower_cuts(answer: EpochEndOffset, offset: int, is_complete: bool) -> None:
    cut = follower_truncation(LEADER, 25, answer)
    assert (cut.offset, cut.is_complete) == (offset, is_complete)


def epochs_of(records: list[int]) -> LeaderEpochCache:
    cache = LeaderEpochCache()
    for offset, epoch in enumerate(records):
        cache.assign(epoch, offset)
    return cache


@given(st.data())
def test_a_follower_ends_with_a_part_of_the_leaders_log(data: st.DataObject) -> None:
    """The follower keeps exactly the common beginning of both logs. A log is a list of epochs, one for each record."""
    shared = sorted(data.draw(st.lists(st.integers(0, 4), max_size=8), label="shared"))
    after = shared[-1] if shared else 0
    epochs = st.lists(st.integers(after, after + 5), max_size=8)
    # An epoch has one leader, so records of an epoch after the common part exist on one side only.
    leader_tail = sorted(set(data.draw(epochs, label="leader")))
    follower_tail = sorted(set(data.draw(epochs, label="follower")) - set(leader_tail) - {after})
    leader, follower = shared + leader_tail, shared + follower_tail
    if not leader or leader[-1] < (follower or [0])[-1]:
        leader = [*leader, after + 6]  # the leader has the newest epoch
    for _ in range(20):
        if not follower:
            break
        answer = diverging_epoch(
            epochs_of(leader),
            log_start=0,
            log_end=len(leader),
            last_fetched_epoch=follower[-1],
            fetch_offset=len(follower),
        )
        if answer is None:
            break
        cut = follower_truncation(epochs_of(follower), len(follower), answer)
        assert cut.offset < len(follower), "every answer cuts something"
        follower = follower[: cut.offset]
    assert follower == leader[: len(follower)]
    assert (
        len(follower) >= len([one for one, other in zip(shared, leader, strict=False) if one == other]) or not follower
    )
