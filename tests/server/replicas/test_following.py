"""A partition whose leader is another broker, and the changes between leader and follower."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ParamSpec, TypeVar

import pytest

from log_maker import batch
from server.replicas.replica_harness import NODE, T0, ReplicaHarness, in_this_thread, records, soon
from tidelog.model import Isolation
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication import FollowedLeader
from tidelog.server.replicas.partition import ACKS_ALL, Partition
from tidelog.server.replicas.record_deletion import low_watermark
from tidelog.storage.log.partition_log import LogReadRequest
from tidelog.storage.log.view.list_offsets import OffsetSpec

P = ParamSpec("P")
R = TypeVar("R")
LEADER = 2
ALL = LogReadRequest(start_offset=0, max_bytes=1 << 20)
BOTH: dict[str, Any] = {"replicas": (NODE, LEADER), "isr": (NODE, LEADER)}


def refused(code: ErrorCode) -> pytest.RaisesExc[ApiError]:
    return pytest.raises(ApiError, check=lambda error: error.code is code)


def lead_elsewhere(harness: ReplicaHarness, epoch: int = 1) -> Partition:
    harness.change(T0, leader=LEADER, leader_epoch=epoch, partition_epoch=epoch)
    return harness.partition()


def append_as_follower(harness: ReplicaHarness, *values: bytes, epoch: int = 1) -> None:
    """Append the leader's next batch."""
    log = harness.log()
    log.append_as_follower(batch(log.end_offset, values, epoch=epoch), epoch)


# --- changes of the leader ---


def test_a_leader_becomes_a_follower_and_a_leader_again(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH)
    harness.partition().append(records(b"a"))
    partition = lead_elsewhere(harness)
    assert (partition.is_leading, partition.is_following, partition.in_sync.is_leader) == (False, True, False)
    append_as_follower(harness, b"b")
    harness.change(T0, leader=NODE, leader_epoch=2, partition_epoch=2)
    assert (partition.is_leading, partition.is_following) == (True, False)
    partition.append(records(b"c"))
    assert [(entry.epoch, entry.start_offset) for entry in harness.log().epochs.entries] == [(0, 0), (1, 1), (2, 2)]
    assert partition.in_sync.epoch_start_offset == 2


def test_a_new_leader_keeps_its_high_watermark_as_a_follower(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH, leader=LEADER)
    append_as_follower(harness, b"a", b"b", epoch=0)
    harness.log().update_high_watermark(1)
    harness.change(T0, leader=NODE, leader_epoch=1, partition_epoch=1)
    assert harness.partition().high_watermark == 1


def test_a_leadership_ends_following(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH, leader=LEADER)
    partition = harness.partition()
    partition.follower.follow(FollowedLeader(leader_id=LEADER, leader_epoch=0))
    assert partition.follower.poll(0) is not None
    harness.change(T0, leader=NODE, leader_epoch=1, partition_epoch=1)
    assert partition.follower.poll(0) is None


def test_a_partition_without_a_leader_is_not_followed(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH, leader=-1)
    assert not harness.partition().is_following


def test_requests_that_wait_are_refused_when_another_broker_leads(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH)
    partition = harness.partition()
    partition.append(records())

    async def scenario() -> None:
        waiting = await soon(partition.replicated(1, timeout_ms=1000))
        state = harness.image.topics["t"].partitions[0]
        partition.update(replace(state, leader=LEADER, leader_epoch=1, partition_epoch=1))
        await waiting

    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        harness.run(scenario())


def test_another_leader_waits_for_an_append_in_a_background_thread(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH)
    partition, may_write, order = harness.partition(), threading.Event(), []

    async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        def run() -> R:
            assert may_write.wait(30)
            order.append("written")
            return function(*args, **kwargs)

        return await asyncio.get_running_loop().run_in_executor(None, run)

    async def scenario() -> None:
        appending = await soon(partition.append_in_thread(in_thread, records(b"a"), required_acks=1))
        handing_over = await soon(partition.hand_over())
        assert not handing_over.done()
        with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
            partition.append(records(b"b"))
        may_write.set()
        await handing_over
        order.append("handed over")
        await appending

    harness.run(scenario())
    assert order == ["written", "handed over"]
    assert harness.log().end_offset == 1


def test_appends_go_on_after_a_change_that_keeps_the_leader(harness: ReplicaHarness) -> None:
    harness.create("t")
    harness.run(harness.partition().hand_over())
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        harness.partition().append(records())
    harness.change(T0, leader_epoch=1, partition_epoch=1)
    harness.partition().append(records())
    assert harness.run(harness.partition().append_in_thread(in_this_thread, records(), required_acks=ACKS_ALL))
    assert harness.log().end_offset == 2


# --- reads of a follower's log ---


def test_a_follower_serves_consumers_up_to_its_high_watermark(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH, leader=LEADER)
    append_as_follower(harness, b"a", epoch=0)
    append_as_follower(harness, b"b", epoch=0)
    harness.log().update_high_watermark(1)
    read = harness.partition().read(ALL, leader_only=False)
    assert (read.offsets.high_watermark.message_offset, read.offsets.log_end.message_offset) == (1, 2)
    assert read.data() == bytes(batch(0, (b"a",)))


def test_a_follower_refuses_what_only_a_leader_knows(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH, leader=LEADER)
    partition = harness.partition()
    for call in (
        lambda: partition.read(ALL),
        lambda: partition.offsets(),
        lambda: partition.list_offset(OffsetSpec.LATEST, Isolation.READ_UNCOMMITTED),
        lambda: partition.epoch_end(0),
        lambda: partition.require_follower(LEADER, 0),
        lambda: partition.append(records()),
        lambda: low_watermark(partition),
    ):
        with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
            call()


def test_a_follower_checks_the_clients_leader_epoch(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH, leader=LEADER, leader_epoch=3)
    partition = harness.partition()
    for epoch, code in ((2, ErrorCode.FENCED_LEADER_EPOCH), (4, ErrorCode.UNKNOWN_LEADER_EPOCH)):
        with refused(code):
            partition.read(ALL, leader_epoch=epoch, leader_only=False)
        with refused(code):
            partition.offsets(epoch, leader_only=False)
    assert partition.offsets(3, leader_only=False).log_end.message_offset == 0


def test_a_debugging_consumer_may_list_the_offsets_of_a_follower(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH)
    harness.partition().append(records(b"a", b"b"))
    harness.change(T0, leader_epoch=1, partition_epoch=1)  # it leads behind the start of its epoch
    partition = lead_elsewhere(harness, epoch=2)
    listed = partition.list_offset(OffsetSpec.LATEST, Isolation.READ_UNCOMMITTED, leader_only=False)
    assert listed is not None
    assert (listed.offset, listed.leader_epoch) == (0, 2)


# --- the log ---


def test_the_core_follows_a_log_that_is_replaced(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH, leader=LEADER)
    partition, old = harness.partition(), harness.log()
    partition.follower.follow(FollowedLeader(leader_id=LEADER, leader_epoch=0))
    old.close()
    del harness.logs._table.current[T0]
    new = harness.logs.get_or_create(T0)
    new.append_as_follower(batch(0, (b"a",)), 0)
    position = partition.follower.poll(0)
    assert position is not None
    assert position.offset == 1


def test_the_core_of_an_offline_log_keeps_its_last_offsets(harness: ReplicaHarness) -> None:
    harness.create("t", **BOTH, leader=LEADER)
    partition = harness.partition()
    partition.follower.follow(FollowedLeader(leader_id=LEADER, leader_epoch=0))
    append_as_follower(harness, b"a", epoch=0)
    harness.log().close()
    del harness.logs._table.current[T0]
    position = partition.follower.poll(0)
    assert position is not None
    assert position.offset == 1
    assert not partition.is_online
