"""A partition with this broker as its leader: epochs, in-sync replicas, the high watermark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from server.replicas.replica_harness import NODE, T0, ReplicaHarness, delete_records, records, soon
from tidelog.model import ClosedError, Isolation, OffsetOutOfRangeError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.replicas.purgatory import wait_until
from tidelog.server.replicas.record_deletion import UP_TO_HIGH_WATERMARK, deletable, low_watermark
from tidelog.storage.log.partition_log import LogReadRequest
from tidelog.storage.log.view.list_offsets import OffsetSpec

FOLLOWER = 2
ALL = LogReadRequest(start_offset=0, max_bytes=1 << 20)


READ_BY_FOLLOWER = LogReadRequest(start_offset=0, max_bytes=1 << 20, isolation=Isolation.LOG_END)


def fetch(harness: ReplicaHarness, offset: int, *, broker_epoch: int = -1, replica_id: int = FOLLOWER) -> None:
    """Let a follower fetch at ``offset``."""
    partition = harness.partition()
    partition.require_follower(replica_id, partition.leader_epoch, broker_epoch)
    read = partition.read(replace(READ_BY_FOLLOWER, start_offset=offset))
    partition.follower_fetched(replica_id, read, log_start_offset=0, broker_epoch=broker_epoch)


def refused(code: ErrorCode) -> pytest.RaisesExc[ApiError]:
    return pytest.raises(ApiError, check=lambda error: error.code is code)


# --- the high watermark ---


def test_alone_in_sync_what_was_appended_is_replicated(harness: ReplicaHarness) -> None:
    harness.create("t")
    result = harness.partition().append(records(b"a", b"b"))
    assert (result.first_offset, result.last_offset) == (0, 1)
    assert harness.partition().high_watermark == 2
    assert harness.partition().replication_error(2) is ErrorCode.NONE


def test_with_a_follower_in_sync_the_high_watermark_waits_for_it(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    partition = harness.partition()
    partition.append(records(b"a", b"b"))
    assert partition.high_watermark == 0
    assert partition.replication_error(2) is None
    fetch(harness, 1)
    assert partition.high_watermark == 1
    fetch(harness, 2)
    assert partition.replication_error(2) is ErrorCode.NONE


def test_a_follower_that_leaves_the_in_sync_replicas_is_not_waited_for(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    harness.partition().append(records())
    harness.change(T0, isr=(NODE,), partition_epoch=1)
    assert harness.partition().high_watermark == 1


def test_too_few_in_sync_replicas_take_no_acks_all_and_move_no_high_watermark(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE,))
    harness.set_config("t", min_insync_replicas="2")
    with refused(ErrorCode.NOT_ENOUGH_REPLICAS):
        harness.partition().append(records())
    harness.partition().append(records(), required_acks=1)
    assert (harness.partition().high_watermark, harness.log().end_offset) == (0, 1)


def test_no_more_replicas_are_asked_for_than_there_are(harness: ReplicaHarness) -> None:
    harness.create("t")
    harness.set_config("t", min_insync_replicas="3")
    harness.partition().append(records())
    assert harness.partition().high_watermark == 1


def test_replicas_that_leave_after_the_append_are_told_of(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    harness.partition().append(records())
    fetch(harness, 1)
    harness.set_config("t", min_insync_replicas="2")
    harness.change(T0, isr=(NODE,), partition_epoch=1)
    assert harness.partition().replication_error(1) is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND


# --- in-sync replicas ---


def test_a_follower_that_has_everything_joins_the_in_sync_replicas(harness: ReplicaHarness) -> None:
    harness.register(FOLLOWER, epoch=9)
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE,))
    harness.partition().append(records(b"a", b"b"))
    assert harness.partition().high_watermark == 2
    fetch(harness, 1, broker_epoch=9)
    harness.settle()
    assert harness.alterations == []
    fetch(harness, 2, broker_epoch=9)
    harness.settle()
    assert [(one.isr, one.partition_epoch) for one in harness.alterations] == [([NODE, FOLLOWER], 0)]
    assert harness.partition().in_sync.isr == frozenset({NODE, FOLLOWER})
    assert harness.partition().in_sync.pending is None
    harness.partition().append(records(b"c"))
    assert harness.partition().high_watermark == 2
    fetch(harness, 3, broker_epoch=9)
    assert harness.partition().high_watermark == 3


@pytest.mark.parametrize("state", ["unknown", "fenced", "shutting down", "another epoch"])
def test_a_broker_that_is_not_active_joins_no_in_sync_replicas(harness: ReplicaHarness, state: str) -> None:
    if state != "unknown":
        harness.register(FOLLOWER, epoch=9, is_fenced=state == "fenced", is_shutting_down=state == "shutting down")
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE,))
    fetch(harness, 0, broker_epoch=10 if state == "another epoch" else 9)
    harness.settle()
    assert harness.alterations == []


def test_a_refused_change_of_the_in_sync_replicas_is_proposed_again(harness: ReplicaHarness) -> None:
    harness.register(FOLLOWER, epoch=9)
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE,))
    harness.refusals = [ApiError(ErrorCode.INELIGIBLE_REPLICA, "fenced")]
    for refused_before in (1, 0):
        fetch(harness, 0, broker_epoch=9)
        harness.settle()
        assert len(harness.partition().in_sync.isr) == 2 - refused_before


def test_a_replica_that_was_about_to_join_blocks_the_high_watermark_only_for_the_lag_time(
    harness: ReplicaHarness,
) -> None:
    for broker_id in (FOLLOWER, 3):
        harness.register(broker_id, epoch=9)
    harness.create("t", replicas=(NODE, FOLLOWER, 3), isr=(NODE, FOLLOWER))
    harness.refusals.append(ApiError(ErrorCode.INELIGIBLE_REPLICA))
    fetch(harness, 0, replica_id=3)
    harness.settle()
    partition = harness.partition()
    partition.append(records())
    fetch(harness, 1)
    partition.check_lag()
    assert partition.high_watermark == 0
    harness.clock.sleep_ms(30_001)
    partition.check_lag()
    assert partition.high_watermark == 1
    assert len(harness.alterations) == 1


def test_a_fetch_of_an_earlier_incarnation_is_refused(harness: ReplicaHarness) -> None:
    harness.register(FOLLOWER, epoch=9)
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE,), leader_epoch=3)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        harness.partition().require_follower(FOLLOWER, 3, 8)
    harness.partition().require_follower(FOLLOWER, 3, 9)


@pytest.mark.parametrize(
    ("leader_epoch", "error"),
    [
        (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (2, ErrorCode.FENCED_LEADER_EPOCH),
        (3, ErrorCode.UNKNOWN_LEADER_EPOCH),
        (4, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_a_broker_that_is_no_replica_may_not_fetch(
    harness: ReplicaHarness, leader_epoch: int, error: ErrorCode
) -> None:
    harness.create("t", leader_epoch=3)
    with refused(error):
        harness.partition().require_follower(FOLLOWER, leader_epoch)


def test_a_fetch_that_fails_or_diverges_confirms_no_records(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER), leader_epoch=1)
    partition = harness.partition()
    partition.append(records(b"a", b"b", b"c"))
    harness.change(T0, leader_epoch=5, partition_epoch=1)
    fetch(harness, 1)
    before = partition.in_sync.followers[FOLLOWER]
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        partition.require_follower(FOLLOWER, 4)
    diverged = partition.read(replace(READ_BY_FOLLOWER, start_offset=3), leader_epoch=5, last_fetched_epoch=4)
    assert diverged.diverging is not None
    with pytest.raises(OffsetOutOfRangeError):
        fetch(harness, 4)
    assert partition.in_sync.followers[FOLLOWER] == before
    assert partition.high_watermark == 1


# --- delayed requests ---


def test_waiting_for_replication_ends_with_the_followers_fetch(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    partition = harness.partition()
    partition.append(records())

    async def scenario() -> None:
        waiting = await soon(partition.replicated(1, timeout_ms=1000))
        assert not waiting.done()
        fetch(harness, 1)
        await waiting

    harness.run(scenario())
    assert not partition.purgatory


def test_waiting_for_replication_ends_when_the_time_is_over(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    partition = harness.partition()
    partition.append(records())

    async def scenario() -> None:
        waiting = await soon(partition.replicated(1, timeout_ms=1000))
        harness.clock.now += 999
        assert not (await soon(waiting)).done()
        harness.clock.now += 1
        await waiting

    with refused(ErrorCode.REQUEST_TIMED_OUT):
        harness.run(scenario())
    assert not partition.purgatory


def test_an_append_checks_only_the_operations_that_it_can_complete(
    harness: ReplicaHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    partition = harness.partition()
    partition.append(records())
    replication_error, checked = partition.replication_error, list[int]()

    def noted(end: int) -> ErrorCode | None:
        checked.append(end)
        return replication_error(end)

    async def scenario() -> None:
        monkeypatch.setattr(partition, "replication_error", noted)
        produce = await soon(partition.replicated(1, timeout_ms=1000))
        fetched = await soon(wait_until(lambda _: True, (partition,), harness.timers, 1000))
        checked.clear()
        partition.append(records())
        assert (await soon(fetched)).done()
        assert not checked
        fetch(harness, 1)
        await produce

    harness.run(scenario())
    assert not partition.purgatory


def test_waiting_ends_when_another_broker_leads(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    partition = harness.partition()
    partition.append(records())

    async def scenario() -> None:
        waiting = await soon(partition.replicated(1, timeout_ms=1000))
        state = harness.image.topics["t"].partitions[0]
        partition.update(type(state)(replicas=(1, 2), isr=(1, 2), leader=FOLLOWER, leader_epoch=1))
        await waiting

    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        harness.run(scenario())


def test_a_wait_that_is_given_up_leaves_nothing(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    harness.partition().append(records())

    async def scenario() -> None:
        waiting = await soon(harness.partition().replicated(1, timeout_ms=1000))
        assert len(harness.partition().purgatory) == 1
        waiting.cancel()
        assert (await soon(waiting)).cancelled()

    harness.run(scenario())
    assert not harness.partition().purgatory


# --- leadership ---


def test_a_new_epoch_is_noted_where_the_log_ends(harness: ReplicaHarness) -> None:
    harness.create("t", leader_epoch=3)
    harness.partition().append(records(b"a", b"b"))
    harness.change(T0, leader_epoch=5, partition_epoch=1)
    harness.partition().append(records())
    assert [(entry.epoch, entry.start_offset) for entry in harness.log().epochs.entries] == [(3, 0), (5, 2)]
    found = harness.partition().epoch_end(4, leader_epoch=5)
    assert found is not None
    assert (found.epoch, found.end_offset) == (3, 2)


def test_clients_of_another_epoch_are_told(harness: ReplicaHarness) -> None:
    harness.create("t", leader_epoch=3)
    partition = harness.partition()
    partition.read(ALL, leader_epoch=3)
    with refused(ErrorCode.FENCED_LEADER_EPOCH):
        partition.read(ALL, leader_epoch=2)
    with refused(ErrorCode.UNKNOWN_LEADER_EPOCH):
        partition.offsets(leader_epoch=4)


def test_what_another_broker_leads_is_not_served(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(FOLLOWER,), leader=FOLLOWER)
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        harness.partition().append(records())
    with refused(ErrorCode.NOT_LEADER_OR_FOLLOWER):
        harness.partition().read(ALL)


def test_a_new_leader_that_lags_does_not_say_where_the_log_ends(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    harness.partition().append(records(b"a", b"b"))
    harness.change(T0, leader_epoch=1, partition_epoch=1)
    with refused(ErrorCode.OFFSET_NOT_AVAILABLE):
        harness.partition().list_offset(OffsetSpec.LATEST, Isolation.READ_UNCOMMITTED)
    assert harness.partition().list_offset(OffsetSpec.LATEST, Isolation.LOG_END) is not None
    earliest = harness.partition().list_offset(OffsetSpec.EARLIEST, Isolation.READ_UNCOMMITTED)
    assert earliest is not None
    assert earliest.offset == 0


def test_a_log_that_was_moved_meanwhile_is_appended_to_where_it_is(harness: ReplicaHarness) -> None:
    harness.create("t")
    partition, old = harness.partition(), harness.log()
    old.close()
    del harness.logs._table.current[T0]
    harness.logs.get_or_create(T0)
    partition.append(records())
    assert (harness.log().end_offset, harness.log() is old) == (1, False)


def test_a_closed_log_is_no_reason_to_try_for_ever(harness: ReplicaHarness) -> None:
    harness.create("t")
    harness.log().close()
    with pytest.raises(ClosedError):
        harness.partition().append(records())


# --- reading and deleting ---


def test_readers_see_what_is_replicated(harness: ReplicaHarness) -> None:
    harness.create("t", replicas=(NODE, FOLLOWER), isr=(NODE, FOLLOWER))
    partition = harness.partition()
    partition.append(records())
    assert partition.read(ALL).data() == b""
    everything = LogReadRequest(start_offset=0, max_bytes=1 << 20, isolation=Isolation.LOG_END)
    assert partition.read(everything).data()
    with pytest.raises(OffsetOutOfRangeError):
        partition.read(LogReadRequest(start_offset=2, max_bytes=1))


def test_a_fetcher_whose_log_parted_is_told_where(harness: ReplicaHarness) -> None:
    harness.create("t", leader_epoch=1)
    harness.partition().append(records(b"a", b"b"))
    harness.change(T0, leader_epoch=4, partition_epoch=1)
    harness.partition().append(records())
    found = harness.partition().read(LogReadRequest(start_offset=3, max_bytes=1 << 20), last_fetched_epoch=2)
    assert found.diverging is not None
    assert (found.diverging.epoch, found.diverging.end_offset) == (1, 2)
    assert found.data() == b""


def test_records_are_deleted_up_to_the_high_watermark(harness: ReplicaHarness) -> None:
    harness.create("t")
    harness.partition().append(records(b"a", b"b", b"c"))
    partition = harness.partition()
    assert delete_records(partition, 2) == 2
    assert low_watermark(partition) == 2
    assert delete_records(partition, UP_TO_HIGH_WATERMARK) == 3
    with pytest.raises(OffsetOutOfRangeError):
        delete_records(partition, 4)
    with refused(ErrorCode.OFFSET_OUT_OF_RANGE):
        delete_records(partition, -2)


def test_of_a_topic_that_is_only_compacted_no_records_are_deleted(harness: ReplicaHarness) -> None:
    harness.create("t")
    harness.set_config("t", cleanup_policy="compact")
    with refused(ErrorCode.POLICY_VIOLATION):
        deletable(harness.partition(), 0)
