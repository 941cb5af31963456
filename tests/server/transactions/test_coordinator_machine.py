"""Producers begin, write, commit, abort, die and return, with a coordinator that crashes at any point.

These facts always hold:

* Only the newest producer of a transactional id writes.
* Committed data is read and aborted data is not. Data without a response exists completely or not at all.
* Every record of the log follows its predecessor as the table allows, and every decision is carried out.
* Nothing hangs at the end.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from itertools import count, pairwise
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

import tidelog
from server.transactions.coordinator_harness import STATE_PARTITIONS, TIMEOUT_MS, CoordinatorHarness
from server.transactions.modelled_producer import Fate, ModelledProducer, ModelledTransaction
from state_machines import run_machine
from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import TRANSACTION_STATE_TOPIC
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.transaction_record import (
    ProducerIdAndEpoch,
    TransactionRecord,
    record_of,
    transactional_id_of,
)
from tidelog.record.internal_records.transaction_record import TransactionState as State
from tidelog.server.transactions.rules.transaction import PREVIOUS_STATES
from tidelog.server.transactions.verification import Operation

NAMES = ("orders", "bills")
PARTITIONS = (TopicPartition("events", 0), TopicPartition("audit", 0))
STATE_LOGS = tuple(TopicPartition(TRANSACTION_STATE_TOPIC, number) for number in range(STATE_PARTITIONS))
OVER = {
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_EPOCH,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
}
"""Errors that end a producer."""


class CoordinatorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.producers: list[ModelledProducer] = []
        self.transactions: list[ModelledTransaction] = []
        self.asked: dict[ModelledProducer, asyncio.Task[ProducerIdAndEpoch]] = {}
        self.values = count()

    @initialize(server_version=st.sampled_from([1, 2]))
    def begin(self, server_version: int) -> None:
        self.harness = CoordinatorHarness(self.directory, server_version=server_version)
        for name in PARTITIONS:
            self.harness.replicas.make(name)
        for producer in NAMES:
            self.come(producer)

    # --- producers ---

    @rule(name=st.sampled_from(NAMES))
    def come(self, name: str) -> None:
        """A producer starts and fences its predecessors. It may have to start again."""
        if self.harness.state_partition(name).is_held:
            return
        try:
            producer = self.harness.initialize(name)
        except ApiError:
            return
        for other in self.producers:
            other.is_fenced |= other.name == name
        self.producers.append(ModelledProducer(name, producer))

    @rule(data=st.data(), partitions=st.sets(st.sampled_from(PARTITIONS), min_size=1))
    def write(self, data: st.DataObject, partitions: set[TopicPartition]) -> None:
        writer = self._one(data, [one for one in self.producers if one.may_write])
        if writer is None or self.harness.state_partition(writer.name).is_held:
            return
        for partition in sorted(partitions):
            value = f"{next(self.values)}".encode()
            try:
                self._append(writer, partition, value)
            except TidelogError as error:
                if error.code in OVER:
                    writer.dies()
                    break
                continue
            assert not writer.is_fenced, "a producer that was fenced off has written"
            if not writer.current.values:
                self.transactions.append(writer.current)
            writer.has_written(partition, value)

    def _append(self, writer: ModelledProducer, partition: TopicPartition, value: bytes) -> None:
        bumps = self.harness.server_version >= 2
        if not bumps:
            self.harness.add(writer.producer, partition, name=writer.name)
        operation = Operation.ADD if bumps else Operation.CHECK
        verified = self.harness.verify(writer.producer, partition, operation=operation, name=writer.name)[partition]
        if verified.error:
            raise ApiError(verified.error)
        self.harness.append(
            self.harness.replicas.partition(partition),
            writer.producer,
            value,
            sequence=writer.sequences.get(partition, 0),
            guard=verified.guard,
        )

    @rule(data=st.data(), committed=st.booleans(), then=st.sampled_from(["hear", "hear", "crash", "come"]))
    def end(self, data: st.DataObject, committed: bool, then: str) -> None:
        """Ask for the end, or repeat the request. The coordinator or the client may fail in the meantime."""
        ready = [one for one in self.producers if not one.is_dead and one.current.values and one not in self.asked]
        writer = self._one(data, ready)
        if writer is None:
            return
        writer.asked = committed if writer.asked is None else writer.asked
        self.asked[writer] = self.harness.begin(self.harness.ending(writer.producer, writer.asked, name=writer.name))
        if then == "crash":
            self.harness.crash()
        if then == "come":
            self.asked[writer].cancel()
            self.harness.settle()
            self.come(writer.name)
        self._hear()

    def _hear(self) -> None:
        for writer, task in [(writer, task) for writer, task in self.asked.items() if task.done()]:
            del self.asked[writer]
            if task.cancelled():
                continue
            error = task.exception()
            if error is None:
                assert writer.asked is not None
                writer.has_ended(writer.asked, task.result())
            else:
                assert isinstance(error, ApiError), error
                if error.code in OVER:
                    writer.dies()

    # --- failures ---

    @rule(name=st.sampled_from(PARTITIONS), trouble=st.sampled_from(["none", "held", "moved", "shrunk"]))
    def trouble_partition(self, name: TopicPartition, trouble: str) -> None:
        self._trouble(name, trouble)

    @rule(name=st.sampled_from(STATE_LOGS), trouble=st.sampled_from(["none", "none", "held", "shrunk"]))
    def trouble_log(self, name: TopicPartition, trouble: str) -> None:
        """The log fails only between requests: a refused record may be written and read after a crash."""
        if not self.asked or trouble in ("none", "held"):
            self._trouble(name, trouble)

    def _trouble(self, name: TopicPartition, trouble: str) -> None:
        errors = {"moved": ErrorCode.NOT_LEADER_OR_FOLLOWER, "shrunk": ErrorCode.NOT_ENOUGH_REPLICAS}
        partition = self.harness.replicas.partition(name)
        if partition.is_held and trouble != "none":
            return
        partition.error = errors.get(trouble)
        if trouble == "held":
            partition.is_held = True
        else:
            partition.release()
        self.harness.pass_time(100)
        self._hear()

    @rule()
    def crash(self) -> None:
        self.harness.crash()
        self._hear()

    @rule()
    def time_out(self) -> None:
        self.harness.pass_time(TIMEOUT_MS + 11_000)
        self._hear()

    # --- invariants ---

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            try:
                self._heal()
                self._check_state()
                self._check_reads()
            finally:
                self.harness.close()
        shutil.rmtree(self.directory)

    def _heal(self) -> None:
        """Everything works again, and open transactions time out."""
        for name in (*PARTITIONS, *STATE_LOGS):
            partition = self.harness.replicas.partition(name)
            partition.error = None
            partition.release()
        self.harness.settle()
        self._hear()
        self.harness.pass_time(3 * TIMEOUT_MS)
        self._hear()
        for producer in self.producers:
            if not producer.is_dead:
                producer.dies()

    def _check_state(self) -> None:
        for name in STATE_LOGS:
            histories: dict[str, list[TransactionRecord]] = {}
            with tidelog.open_log(self.directory / name.directory_name, read_only=True) as log:
                for record in log.records(until="log_end"):
                    assert record.key is not None
                    assert record.value is not None
                    histories.setdefault(str(transactional_id_of(record.key)), []).append(record_of(record.value))
            for history in histories.values():
                _check_history(history)

    def _check_reads(self) -> None:
        read: list[tuple[TopicPartition, bytes]] = []
        for name in PARTITIONS:
            offsets = self.harness.replicas.partition(name).offsets
            assert offsets.last_stable == offsets.log_end, "a transaction hangs"
            with tidelog.open_log(self.directory / name.directory_name, read_only=True) as log:
                records = list(log.records(isolation="read_committed", until="log_end"))
            read += [(name, record.value or b"") for record in records]
        assert len(set(read)) == len(read)
        for transaction in self.transactions:
            there = set(read).intersection(transaction.values)
            assert there == set(transaction.values) or not there, "a part of a transaction"
            assert bool(there) == (transaction.fate is Fate.COMMITTED) or transaction.fate is Fate.EITHER, transaction
        assert set(read) <= {value for transaction in self.transactions for value in transaction.values}

    @staticmethod
    def _one(data: st.DataObject, ready: list[ModelledProducer]) -> ModelledProducer | None:
        return data.draw(st.sampled_from(ready)) if ready else None


def _check_history(history: list[TransactionRecord]) -> None:
    for before, after in pairwise(history):
        assert before.state in PREVIOUS_STATES[after.state], (before, after)
        assert after.producer_id != before.producer_id or after.producer_epoch >= before.producer_epoch
        if before.is_prepared:
            committed = before.state is State.PREPARE_COMMIT
            assert after.state is (State.COMPLETE_COMMIT if committed else State.COMPLETE_ABORT)
    assert history[-1].is_idle, history[-1]


def test_whatever_happens() -> None:
    run_machine(CoordinatorMachine, steps=30, examples=50)


@pytest.mark.slow
def test_whatever_happens_for_long() -> None:
    run_machine(CoordinatorMachine, steps=100, examples=1000)
