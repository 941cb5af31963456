"""Changes of groups on their way into the log: batches, the time of their append, and failures."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from server.replicas.replica_harness import ReplicaHarness, records
from tidelog.kernel import scan_batches
from tidelog.model import Isolation, StorageError, TopicPartition
from tidelog.protocol.errors import ErrorCode
from tidelog.record.internal_records.committed_offset import OffsetAndMetadata, offset_commit
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.server.groups.partition_journal import ADAPTIVE, PartitionJournal
from tidelog.server.groups.records.replay import Replay
from tidelog.server.groups.state.group_map import GroupMap
from tidelog.server.groups.state.journal import TransactionalProducer
from tidelog.server.groups.state.offset_store import OffsetStore
from tidelog.server.groups.state.settings import CoordinatorSettings
from tidelog.storage.log.partition_log import LogReadRequest

GROUP = "g"
LINGER_MS = 5
TOLD = ErrorCode.NONE


def commit(number: int, *, padding: int = 0) -> GroupRecord:
    """Return a commit of offset ``number`` in partition ``number``."""
    metadata = "x" * padding
    committed = OffsetAndMetadata(offset=number, leader_epoch=-1, metadata=metadata, commit_ms=0, expire_ms=None)
    return offset_commit(GROUP, TopicPartition("t", number), committed)


class Batch(NamedTuple):
    records: int
    is_transactional: bool = False


class Journal:
    """``told`` lists the completed changes with their errors, by time of completion."""

    def __init__(self, harness: ReplicaHarness, *, linger_ms: int = ADAPTIVE) -> None:
        harness.create("t")
        self.harness = harness
        self.offsets = OffsetStore()
        self.told: list[tuple[object, ErrorCode]] = []
        self.times_out_of_step = 0
        self.journal = PartitionJournal(
            harness.partition(),
            timers=harness.timers,
            spawn=harness.loop.create_task,
            settings=CoordinatorSettings(append_linger_ms=linger_ms),
            on_state_diverged=self._out_of_step,
        )
        self.journal.replay = Replay(GroupMap(), self.offsets)

    def _out_of_step(self) -> None:
        self.times_out_of_step += 1

    def write(self, name: object, changes: Sequence[GroupRecord] | None = None, **options: Any) -> None:
        """Write ``changes``, by default the commit with this number."""
        given = [commit(int(str(name)))] if changes is None else changes
        self.journal.write(given, lambda error: self.told.append((name, error)), **options)

    @property
    def batches(self) -> list[Batch]:
        """The batches of the log."""
        log = self.harness.log()
        data = log.read(LogReadRequest(start_offset=0, isolation=Isolation.LOG_END, max_bytes=1 << 20)).data()
        table = scan_batches(data)
        return [Batch(*row) for row in zip(table.record_count.tolist(), table.is_transactional.tolist(), strict=True)]

    @property
    def applied(self) -> dict[int, int]:
        """The committed offsets with the offsets of their records."""
        found = self.offsets.of_group(GROUP)
        return {partition.partition: committed.record_offset for partition, committed in found.items()}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[ReplicaHarness]:
    made = ReplicaHarness(tmp_path, max_message_bytes=4000)
    yield made
    made.close()


@pytest.fixture
def journal(harness: ReplicaHarness) -> Journal:
    return Journal(harness)


@pytest.fixture
def lingering(harness: ReplicaHarness) -> Journal:
    return Journal(harness, linger_ms=LINGER_MS)


class TestAdaptive:
    def test_changes_that_come_together_share_a_batch(self, journal: Journal) -> None:
        async def turns() -> None:
            for number in range(3):
                journal.write(number)
            assert journal.applied == {0: 0, 1: 1, 2: 2}, "the next change builds on it"
            assert (journal.batches, journal.told) == ([], [])
            await asyncio.sleep(0)
            journal.write(3)
            while not journal.told:
                await asyncio.sleep(0)

        journal.harness.run(turns())
        assert journal.batches == [Batch(4)]
        assert journal.told == [(number, TOLD) for number in range(4)]

    def test_each_batch_begins_where_the_one_before_ended(self, journal: Journal) -> None:
        async def one_by_one() -> None:
            for number in range(3):
                journal.write(number)
                while len(journal.told) <= number:
                    await asyncio.sleep(0)

        journal.harness.run(one_by_one())
        assert (journal.batches, journal.applied) == ([Batch(1)] * 3, {0: 0, 1: 1, 2: 2})

    def test_a_flush_in_between_leaves_the_next_batch_its_turns(self, journal: Journal) -> None:
        async def turns() -> None:
            journal.write(0)
            await asyncio.sleep(0)
            journal.journal.flush()
            journal.write(1)
            await asyncio.sleep(0)
            journal.write(2)
            while len(journal.told) < 3:
                await asyncio.sleep(0)

        journal.harness.run(turns())
        assert journal.batches == [Batch(1), Batch(2)]


class TestLinger:
    def test_it_begins_with_the_first_change(self, lingering: Journal) -> None:
        lingering.write(0)
        lingering.harness.clock.sleep_ms(LINGER_MS - 1)
        lingering.write(1)
        assert (lingering.batches, lingering.told) == ([], [])
        lingering.harness.clock.sleep_ms(1)
        assert (lingering.batches, lingering.told) == ([Batch(2)], [(0, TOLD), (1, TOLD)])
        lingering.write(2)
        lingering.harness.clock.sleep_ms(LINGER_MS)
        assert lingering.batches == [Batch(2), Batch(1)]

    def test_what_is_flushed_before_is_not_waited_for(self, lingering: Journal) -> None:
        lingering.write(0)
        lingering.journal.flush()
        assert lingering.told == [(0, TOLD)]
        lingering.harness.clock.sleep_ms(LINGER_MS - 1)
        lingering.write(1)
        lingering.harness.clock.sleep_ms(1)
        assert lingering.batches == [Batch(1)], "the second batch has its own linger"

    def test_none_of_zero(self, harness: ReplicaHarness) -> None:
        journal = Journal(harness, linger_ms=0)
        journal.write(0)
        journal.write(1)
        assert (journal.batches, journal.told) == ([Batch(1)] * 2, [(0, TOLD), (1, TOLD)])

    def test_a_change_without_records_waits_for_those_before(self, lingering: Journal) -> None:
        lingering.write("first", [])
        assert lingering.told == [("first", TOLD)]
        lingering.write(0)
        lingering.write("second", [])
        assert lingering.told == [("first", TOLD)]
        lingering.journal.flush()
        assert lingering.told[1:] == [(0, TOLD), ("second", TOLD)]

    def test_a_full_batch_does_not_wait(self, lingering: Journal) -> None:
        for number in range(4):
            lingering.write(number, [commit(number, padding=1100)])
        assert lingering.batches == [Batch(3)]
        assert lingering.told == [(number, TOLD) for number in range(3)]

    def test_a_transactions_change_goes_behind_it_and_alone(self, lingering: Journal) -> None:
        lingering.write(0)
        guard = lingering.harness.log().start_verification(7, 0, 0)
        producer = TransactionalProducer(producer_id=7, producer_epoch=0, guard=guard)
        lingering.journal.write_transactional([commit(1)], producer, lambda error: lingering.told.append((1, error)))
        assert lingering.batches == [Batch(1), Batch(1, True)]
        assert lingering.told == [(0, TOLD), (1, TOLD)]
        assert lingering.applied == {0: 0}
        lingering.offsets.end_transaction(7, is_commit=True)
        assert lingering.applied == {0: 0, 1: 1}

    def test_one_that_fails_on_its_way_to_the_client_takes_nobody_along(
        self, lingering: Journal, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(_error: ErrorCode) -> None:
            raise ValueError("a bug")

        lingering.journal.write([commit(0)], fail)
        lingering.write(1)
        with caplog.at_level(logging.ERROR):
            lingering.journal.flush()
        assert lingering.told == [(1, TOLD)]
        assert "a bug" in caplog.text


class TestFailures:
    def test_what_cannot_be_appended_is_not_applied(self, lingering: Journal) -> None:
        lingering.harness.change(TopicPartition("t", 0), replicas=(1, 2), isr=(1,))
        lingering.harness.set_config("t", min_insync_replicas="2")
        lingering.write(0)
        assert lingering.told == [(0, ErrorCode.COORDINATOR_NOT_AVAILABLE)]
        lingering.harness.change(TopicPartition("t", 0), leader=2)
        lingering.write(1)
        assert lingering.told[1:] == [(1, ErrorCode.NOT_COORDINATOR)]
        lingering.journal.flush()
        assert (lingering.applied, lingering.batches, lingering.times_out_of_step) == ({}, [], 0)

    def test_what_no_batch_has_room_for_is_not_applied(self, lingering: Journal) -> None:
        lingering.write(0)
        lingering.write(1, [commit(1, padding=5000)])
        assert lingering.told == [(0, TOLD), (1, ErrorCode.UNKNOWN_SERVER_ERROR)]
        assert (lingering.applied, lingering.batches) == ({0: 0}, [Batch(1)])
        assert not lingering.journal.is_lost

    @pytest.mark.parametrize("is_appended", [True, False], ids=["by somebody else", "the disk fails"])
    def test_what_is_applied_and_not_in_the_log_is_read_again(
        self, lingering: Journal, monkeypatch: pytest.MonkeyPatch, is_appended: bool
    ) -> None:
        async def scenario() -> None:
            lingering.write(0)
            lingering.write(1)
            if is_appended:
                lingering.harness.partition().append(records())
            else:
                monkeypatch.setattr(lingering.harness.partition(), "append", failing)
            lingering.journal.flush()
            assert lingering.told == [(0, ErrorCode.NOT_COORDINATOR), (1, ErrorCode.NOT_COORDINATOR)]
            assert lingering.times_out_of_step == 0, "not within the call of a state machine"
            lingering.write(2)
            await asyncio.sleep(0)

        lingering.harness.run(scenario())
        assert lingering.told[2:] == [(2, ErrorCode.NOT_COORDINATOR)]
        assert (lingering.times_out_of_step, lingering.journal.is_lost) == (1, True)
        assert lingering.batches == ([Batch(1), Batch(2)] if is_appended else [])

    def test_what_the_state_has_by_itself_needs_no_reading(
        self, lingering: Journal, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(lingering.harness.partition(), "append", failing)
        lingering.write(0, apply=False)
        lingering.journal.flush()
        assert lingering.told == [(0, ErrorCode.NOT_COORDINATOR)]
        assert (lingering.times_out_of_step, lingering.journal.is_lost) == (0, False)

    def test_another_brokers_partition(self, lingering: Journal) -> None:
        lingering.write(0)
        lingering.journal.resign()
        lingering.write(1)
        lingering.journal.flush()
        assert lingering.told == [(0, ErrorCode.NOT_COORDINATOR), (1, ErrorCode.NOT_COORDINATOR)]
        assert lingering.batches == []


def failing(*_: object, **__: object) -> None:
    raise StorageError("the disk is gone")
