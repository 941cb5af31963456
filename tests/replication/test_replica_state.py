"""The time at which a follower was caught up, fetch by fetch."""

from __future__ import annotations

import pytest

from tidelog.model import LogOffsetMetadata
from tidelog.replication.replica_state import NEVER_MS, FollowerFetch, ReplicaState

LAG_MS = 100


def after(*fetches: tuple[int, int, int], state: ReplicaState | None = None) -> ReplicaState:
    """Return the state after fetches of (fetch offset, leader's log end, time)."""
    state = state or ReplicaState()
    for offset, leader_end, now_ms in fetches:
        state = state.after_fetch(
            FollowerFetch(
                replica_id=2,
                offset=LogOffsetMetadata(offset),
                log_start_offset=1,
                leader_end_offset=leader_end,
                now_ms=now_ms,
                broker_epoch=9,
            )
        )
    return state


@pytest.mark.parametrize(
    ("fetches", "caught_up_ms"),
    [
        ([(10, 10, 5)], 5),
        ([(4, 10, 5)], NEVER_MS),
        ([(4, 10, 5), (10, 12, 7)], 5),
        ([(4, 10, 5), (9, 12, 7)], NEVER_MS),
        ([(10, 10, 5), (10, 14, 7), (12, 16, 9)], 5),
        ([(10, 10, 5), (14, 14, 7), (14, 20, 9)], 7),
        ([(4, 10, 5), (4, 3, 6), (5, 20, 7)], 6),
    ],
    ids=[
        "at the end",
        "behind",
        "at the end of the previous fetch",
        "behind that too",
        "not fast enough",
        "time goes on",
        "the leader's end at the previous fetch never falls",
    ],
)
def test_the_time_at_which_it_was_caught_up(fetches: list[tuple[int, int, int]], caught_up_ms: int) -> None:
    assert after(*fetches).last_caught_up_ms == caught_up_ms


def test_a_fetch_that_is_processed_late_does_not_move_the_time_back() -> None:
    assert after((10, 10, 50), (10, 10, 40)).last_caught_up_ms == 50


def test_a_fetch_sets_all_other_fields() -> None:
    state = after((4, 10, 5))
    assert (state.log_end.message_offset, state.log_start_offset) == (4, 1)
    assert (state.leader_end_at_last_fetch, state.last_fetch_ms, state.broker_epoch) == (10, 5, 9)


@pytest.mark.parametrize(
    ("leader_end", "now_ms", "is_caught_up"),
    [(10, 10**6, True), (11, LAG_MS + 5, True), (11, LAG_MS + 6, False)],
    ids=["at the end", "within the lag time", "beyond it"],
)
def test_caught_up(leader_end: int, now_ms: int, is_caught_up: bool) -> None:
    assert after((10, 10, 5)).is_caught_up(leader_end, now_ms, LAG_MS) == is_caught_up


def test_without_a_fetch_it_is_not_caught_up() -> None:
    assert not ReplicaState().is_caught_up(0, 0, LAG_MS)


@pytest.mark.parametrize("is_in_sync", [True, False])
def test_a_new_leader_forgets_the_log_end(is_in_sync: bool) -> None:
    state = after((10, 10, 5)).in_new_epoch(leader_end_offset=12, now_ms=20, is_new_leader=True, is_in_sync=is_in_sync)
    assert (state.log_end.message_offset, state.broker_epoch) == (-1, None)
    assert state.is_caught_up(12, 20 + LAG_MS, LAG_MS) == is_in_sync
    assert not state.is_caught_up(12, 21 + LAG_MS, LAG_MS)


@pytest.mark.parametrize("is_in_sync", [True, False])
def test_a_leader_elected_again_keeps_the_log_end(is_in_sync: bool) -> None:
    state = after((10, 10, 5)).in_new_epoch(leader_end_offset=12, now_ms=20, is_new_leader=False, is_in_sync=is_in_sync)
    assert (state.log_end.message_offset, state.broker_epoch) == (10, 9)
    assert state.is_caught_up(12, 20 + LAG_MS, LAG_MS) == is_in_sync
    later = after((12, 30, 40), state=state)
    assert later.last_caught_up_ms == (20 if is_in_sync else NEVER_MS), "the election counts as a fetch of a member"
