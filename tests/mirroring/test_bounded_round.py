"""The order of a round: ends of coordinators' topics, ends of data, data, offsets of groups, states of transactions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from tidelog.mirroring.run.bounded_round import BoundedRound
from tidelog.model import TidelogError, TopicPartition
from tidelog.replication.follower_commands import NamedOffset
from tidelog.replication.follower_events import ListedPartition

DATA = TopicPartition("orders", 0)
OFFSETS = TopicPartition("__consumer_offsets", 0)
STATES = TopicPartition("__transaction_state", 0)


class FakeCopy:
    """A copy that reaches every end that it needs, unless it fails."""

    def __init__(self, partition: TopicPartition, story: list[str], *, fails: bool = False) -> None:
        self.partition = partition
        self.error: TidelogError | None = None
        self.held_ids: frozenset[int] = frozenset()
        self.log = SimpleNamespace(producers={})
        self._story = story
        self._end = 0
        self._fails = fails

    def need(self, end: int) -> None:
        self._story.append(f"{self.partition.topic} up to {end}")
        if self._fails:
            self.error = TidelogError("no leader")
        else:
            self._end = end

    def has_reached(self, end: int) -> bool:
        return self._end >= end


def told(*failing: TopicPartition, without_end: TopicPartition | None = None) -> tuple[bool, list[str]]:
    """Return the result of a round, and its steps. Each look at the source finds ends that have grown by one."""
    story: list[str] = []
    looks = 0

    async def settled_offsets(
        partitions: Sequence[TopicPartition], _timestamp: NamedOffset, *, timeout_s: float
    ) -> Mapping[TopicPartition, ListedPartition]:
        nonlocal looks
        looks += 1
        assert timeout_s == 1
        story.append(f"ends of {', '.join(one.topic for one in partitions)}")
        return {
            one: ListedPartition(error_code=5) if one == without_end else ListedPartition(offset=looks)
            for one in partitions
        }

    async def until(is_over: Callable[[], bool]) -> bool:
        return is_over()

    copies = {one: FakeCopy(one, story, fails=one in failing) for one in (DATA, OFFSETS, STATES)}
    copying: Any = SimpleNamespace(
        copies=copies,
        ids={one.topic: None for one in copies},
        setup=SimpleNamespace(source=SimpleNamespace(settled_offsets=settled_offsets)),
        wake=lambda: None,
    )
    return asyncio.run(BoundedRound(copying, until).run(timeout_s=1)), story


def test_groups_are_bounded_before_their_data_and_copied_after_it() -> None:
    is_whole, story = told()
    assert is_whole
    assert story == [
        "ends of __consumer_offsets, __transaction_state",
        "ends of orders",
        "orders up to 2",
        "__consumer_offsets up to 1",
        "__transaction_state up to 1",
        "ends of __transaction_state",
        "__transaction_state up to 3",
    ]


@pytest.mark.parametrize(("failing", "without_end"), [((DATA,), None), ((), DATA), ((), OFFSETS)])
def test_a_partition_with_an_error_ends_the_round_before_groups(
    failing: tuple[TopicPartition, ...], without_end: TopicPartition | None
) -> None:
    is_whole, story = told(*failing, without_end=without_end)
    assert not is_whole
    assert not [step for step in story if step.startswith("__")]
