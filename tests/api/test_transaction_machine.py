"""Random producers and transactions over two logs, compared with lists of records, across crashes and closes."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

import tidelog
from state_machines import run_machine
from tidelog import InvalidProducerEpochError, InvalidTransactionStateError, OutOfOrderSequenceError
from tidelog.api.producer import DirectoryProducer
from tidelog.api.transaction import DirectoryTransaction

PRODUCERS = st.sampled_from([3, 2**52])
LOGS = st.integers(0, 1)
COUNTS = st.integers(1, 3)
MARKER = None


@dataclass(eq=False)
class ModelTransaction:
    """A transaction of the model. ``state`` is open, committed or aborted; ``logs`` are those with its records."""

    state: str = "open"
    logs: set[int] = field(default_factory=set)


class ModelRecord(NamedTuple):
    value: bytes | None
    """The record's value, or MARKER for a marker."""
    transaction: ModelTransaction | None = None


class ModelBatch(NamedTuple):
    sequence: int
    offsets: range
    values: list[bytes]


@dataclass
class ModelProducer:
    """The latest granted epoch of one producer id, and each log's knowledge of the producer."""

    epoch: int = -1
    known_epoch: dict[int, int] = field(default_factory=dict)
    batches: dict[int, deque[ModelBatch]] = field(default_factory=lambda: defaultdict(lambda: deque(maxlen=5)))
    transaction: ModelTransaction | None = None

    def forget_batches(self, log: int, epoch: int) -> None:
        if self.known_epoch.get(log) != epoch:
            self.known_epoch[log] = epoch
            self.batches[log].clear()

    def next_sequence(self, log: int) -> int:
        if self.known_epoch.get(log) != self.epoch or not self.batches[log]:
            return 0
        last = self.batches[log][-1]
        return last.sequence + len(last.values)


class TransactionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp(prefix="tidelog-"))
        self.lives = 0
        self.directory = tidelog.open_directory(self.root / "0")
        self.records: list[list[ModelRecord]] = [[], []]
        self.producers: dict[int, ModelProducer] = defaultdict(ModelProducer)
        self.held: dict[int, DirectoryProducer] = {}
        self.open: dict[int, DirectoryTransaction] = {}
        self.written = 0
        self.next_end = 10
        """The number of records to write before the directory may be closed or crash."""

    def teardown(self) -> None:
        for log in range(2):
            self.check(log)
        self.directory.close()
        shutil.rmtree(self.root)

    # --- the model ---

    def values(self, count: int) -> list[bytes]:
        self.written += count
        return [b"%d" % number for number in range(self.written - count, self.written)]

    def note(self, producer_id: int, log: int, values: list[bytes], transaction: ModelTransaction | None) -> range:
        known = self.producers[producer_id]
        sequence = known.next_sequence(log)
        known.forget_batches(log, known.epoch)
        first = len(self.records[log])
        self.records[log] += [ModelRecord(value, transaction) for value in values]
        offsets = range(first, first + len(values))
        known.batches[log].append(ModelBatch(sequence, offsets, values))
        if transaction is not None:
            transaction.logs.add(log)
        return offsets

    def end(self, producer_id: int, state: str, epoch: int | None = None) -> None:
        """End the transaction. The logs with its records get markers."""
        known = self.producers[producer_id]
        transaction, known.transaction = known.transaction, None
        if transaction is not None:
            transaction.state = state
            for log in transaction.logs:
                self.records[log].append(ModelRecord(MARKER))
                known.forget_batches(log, known.epoch if epoch is None else epoch)

    # --- producers ---

    @rule(producer_id=PRODUCERS, bump=st.booleans())
    def take_up(self, producer_id: int, bump: bool) -> None:
        known = self.producers[producer_id]
        epoch = known.epoch + 1 if bump or known.epoch < 0 else known.epoch
        old, late = self.held.pop(producer_id, None), self.open.pop(producer_id, None)
        given = {} if bump else {"epoch": epoch}
        self.held[producer_id] = self.directory.producer(producer_id, **given)
        assert self.held[producer_id].epoch == epoch
        self.end(producer_id, "aborted", epoch)
        known.epoch = epoch
        if old is not None:
            with pytest.raises(InvalidProducerEpochError):
                old.append(self.directory.log("t", 0), b"fenced")
        if late is not None:
            with pytest.raises(InvalidProducerEpochError):
                late.__exit__(None, None, None)

    def holder(self, producer_id: int) -> DirectoryProducer:
        if producer_id not in self.held:
            self.take_up(producer_id, False)
        return self.held[producer_id]

    @rule(producer_id=PRODUCERS, log=LOGS, count=COUNTS)
    def produce(self, producer_id: int, log: int, count: int) -> None:
        producer, opened = self.holder(producer_id), self.directory.log("t", log)
        if producer_id in self.open:
            with pytest.raises(InvalidTransactionStateError):
                producer.append(opened, b"outside")
            return
        assert producer.next_sequence(opened) == self.producers[producer_id].next_sequence(log)
        values = self.values(count)
        offsets = self.note(producer_id, log, values, None)
        if count == 1:
            assert producer.append(opened, values[0]) == offsets.start
        else:
            assert producer.append_batch(opened, values) == offsets

    @rule(producer_id=PRODUCERS, log=LOGS, data=st.data())
    def repeat(self, producer_id: int, log: int, data: st.DataObject) -> None:
        producer, known = self.holder(producer_id), self.producers[producer_id]
        if producer_id in self.open or known.known_epoch.get(log) != known.epoch or not known.batches[log]:
            return
        batch = data.draw(st.sampled_from(list(known.batches[log])))
        opened = self.directory.log("t", log)
        assert producer.append_batch(opened, batch.values, sequence=batch.sequence) == batch.offsets
        with pytest.raises(OutOfOrderSequenceError):
            producer.append(opened, b"a leap", sequence=known.next_sequence(log) + 1)

    @rule(log=LOGS, count=COUNTS)
    def append(self, log: int, count: int) -> None:
        values = self.values(count)
        self.records[log] += [ModelRecord(value) for value in values]
        self.directory.log("t", log).append_batch(values)

    # --- transactions ---

    @rule(producer_id=PRODUCERS)
    def begin(self, producer_id: int) -> None:
        transaction = self.holder(producer_id).transaction()
        if producer_id in self.open:
            with pytest.raises(InvalidTransactionStateError):
                transaction.__enter__()
            return
        self.open[producer_id] = transaction.__enter__()
        self.producers[producer_id].transaction = ModelTransaction()

    @rule(producer_id=PRODUCERS, log=LOGS, count=COUNTS)
    def append_in_transaction(self, producer_id: int, log: int, count: int) -> None:
        if producer_id not in self.open:
            self.begin(producer_id)
        values = self.values(count)
        offsets = self.note(producer_id, log, values, self.producers[producer_id].transaction)
        assert self.open[producer_id].append_batch(self.directory.log("t", log), values) == offsets

    @precondition(lambda self: self.open)
    @rule(how=st.sampled_from(["commit", "abort", "leave", "raise"]), data=st.data())
    def end_transaction(self, how: str, data: st.DataObject) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.open)))
        transaction = self.open.pop(producer_id)
        if how == "commit":
            transaction.commit()
        elif how == "abort":
            transaction.abort()
        error = KeyError() if how == "raise" else None
        transaction.__exit__(type(error) if error else None, error, None)
        self.end(producer_id, "committed" if how in ("commit", "leave") else "aborted")

    # --- restarts ---

    @precondition(lambda self: self.written >= self.next_end)
    @rule()
    def stop_in_order(self) -> None:
        """Close the directory, which aborts open transactions in the order in which their ids were acquired."""
        for producer_id in self.directory._producers._sessions:  # type: ignore[union-attr]
            self.end(producer_id, "aborted")
        self.directory.close()
        self.begin_again(self.directory.paths[0])

    @precondition(lambda self: self.written >= self.next_end)
    @rule()
    def crash(self) -> None:
        """Copy the files before the directory is closed, so without the marker of a clean shutdown."""
        self.lives += 1
        copy = shutil.copytree(self.directory.paths[0], self.root / str(self.lives))
        self.directory.close()
        shutil.rmtree(self.directory.paths[0])
        self.begin_again(copy)

    def begin_again(self, path: Path) -> None:
        self.directory = tidelog.open_directory(path)
        self.next_end = self.written + 10
        self.held.clear()
        self.open.clear()
        for producer in self.producers.values():
            producer.epoch = max(producer.known_epoch.values(), default=-1)
            for batches in producer.batches.values():
                while len(batches) > 1:
                    batches.popleft()

    # --- reading ---

    @rule(log=LOGS)
    def check(self, log: int) -> None:
        records = self.records[log]
        open_at = [at for at, record in enumerate(records) if record.transaction and record.transaction.state == "open"]
        stable = min(open_at, default=len(records))
        data = [(at, record) for at, record in enumerate(records) if record.value is not MARKER]
        opened = self.directory.log("t", log)
        assert opened.offsets().log_end.message_offset == len(records)
        assert opened.offsets().last_stable.message_offset == stable
        assert [(found.offset, found.value) for found in opened.records()] == [
            (at, record.value) for at, record in data
        ]
        assert [(found.offset, found.value) for found in opened.records(isolation="read_committed")] == [
            (at, record.value)
            for at, record in data
            if at < stable and (record.transaction is None or record.transaction.state == "committed")
        ]


def test_logs_are_lists() -> None:
    run_machine(TransactionMachine, steps=50, examples=40)


@pytest.mark.slow
def test_logs_are_lists_for_long() -> None:
    run_machine(TransactionMachine, steps=100, examples=400)
