"""The reports of writers, and the checks of a log directory against them after the writers were killed.

SIGKILL does not lose the page cache, so every acknowledged append must exist, flushed or not. A partition's records are
settled when they were read once after a kill: no later crash may change them. ``Judge.look`` only reads.
``Judge.settle`` checks a directory after its owner has aborted all open transactions.

Rules for a record: a writer tried to append exactly these bytes, it occurs once, a writer's numbers ascend, and it has
the acknowledged offset. Rules for a transaction: in each partition all or none of it is visible, as acknowledged. If
the kill interrupted a commit, the partitions with a marker are decided. They are the first ones, because markers are
written in the order of the partitions.
"""

from __future__ import annotations

import enum
import signal
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from real_kafka.real_crashes.nursery import Report
from real_kafka.real_crashes.payload import author
from tidelog.api.directory import Directory
from tidelog.api.log import Log
from tidelog.storage.checkpoint import RECOVERY_POINT_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.fs import LOCAL

SHORT_BYTES = 100_000
"""Retention keeps at least this many bytes of each log of the topic ``short``, and everything of other topics."""

Author = tuple[str, int]


class Outcome(enum.Enum):
    """The end of a transaction according to its writer."""

    OPEN = "open"
    COMMITTING = "committing"
    ABORTING = "aborting"
    COMMITTED = "committed"
    ABORTED = "aborted"


class Acknowledged(NamedTuple):
    writer: str
    number: int
    offsets: range


@dataclass(slots=True, eq=False)
class Transaction:
    outcome: Outcome = Outcome.OPEN
    partitions: list[str] = field(default_factory=list)
    """The partitions in the order in which the transaction added them, which is also the order of the markers."""
    committed_in: set[str] = field(default_factory=set)

    @property
    def may_be_visible(self) -> bool:
        return self.outcome in (Outcome.COMMITTING, Outcome.COMMITTED)


@dataclass(slots=True)
class PartitionLedger:
    records: list[Author | None] = field(default_factory=list)
    """The settled records by offset. None is a marker."""
    start: int = 0
    """The log start offset after retention."""
    acknowledged: list[Acknowledged] = field(default_factory=list)
    """The acknowledged appends since the last look."""
    flushed: int = 0
    last_number: dict[str, int] = field(default_factory=lambda: defaultdict(lambda: -1))
    stable_end: int = 0
    """The offset below which every transaction is decided."""


@dataclass(slots=True)
class Counts:
    """Counts of all rounds."""

    records: int = 0
    acknowledged: int = 0
    repeated: int = 0
    committed: int = 0
    aborted: int = 0
    left_open: int = 0
    flushes: int = 0
    deleted: int = 0


class Ledger:
    """The facts from the reports of all rounds."""

    def __init__(self) -> None:
        self.partitions: dict[str, PartitionLedger] = defaultdict(PartitionLedger)
        self.next_number: dict[str, int] = defaultdict(int)
        self.next_transaction: dict[str, int] = defaultdict(int)
        self.transactions: dict[Author, Transaction] = {}
        self.transaction_of: dict[Author, Transaction] = {}
        self.last_try: dict[str, tuple[int, int]] = {}
        self.made = 0
        """The number of partitions of the topic ``fresh`` that writers began."""
        self.counts = Counts()
        self.was_closed = False
        self._open: dict[str, Transaction] = {}

    def take(self, reports: Iterable[Report]) -> None:
        """Take the reports of a round. Raise AssertionError if a writer failed in an unexpected way."""
        self._open.clear()
        self.was_closed = False
        for kind, *words in reports:
            match kind:
                case "try":
                    self._take_try(*words)
                case "ack":
                    writer, partition, number, (first, end) = words
                    self.partitions[partition].acknowledged.append(Acknowledged(writer, number, range(first, end)))
                    self.counts.acknowledged += end - first
                case "begin":
                    writer, number = words
                    self.next_transaction[writer] = number + 1
                    self._open[writer] = self.transactions[writer, number] = Transaction()
                case "ending" | "ended":
                    writer, number, is_committed = words
                    self._take_end(self.transactions[writer, number], kind == "ended", is_committed)
                case "flushed":
                    partition, offset = words
                    self.partitions[partition].flushed = max(self.partitions[partition].flushed, offset)
                    self.counts.flushes += 1
                case "closed":
                    self.was_closed = True
                case "over":
                    assert words[0] in (0, signal.SIGKILL), f"the writers ended with status {words[0]}"
                case "failed":
                    raise AssertionError(f"a writer failed: {words[0]}")

    def _take_try(self, writer: str, partition: str, first: int, count: int) -> None:
        if first < self.next_number[writer]:
            self.counts.repeated += 1
        self.next_number[writer] = max(self.next_number[writer], first + count)
        self.last_try[writer] = (first, count)
        if partition.startswith("fresh-"):
            self.made = max(self.made, int(partition.rpartition("-")[2]) + 1)
        transaction = self._open.get(writer)
        if transaction is None:
            return
        if partition not in transaction.partitions:
            transaction.partitions.append(partition)
        for number in range(first, first + count):
            self.transaction_of[writer, number] = transaction

    def _take_end(self, transaction: Transaction, is_acknowledged: bool, is_committed: bool) -> None:
        if is_acknowledged:
            transaction.outcome = Outcome.COMMITTED if is_committed else Outcome.ABORTED
        else:
            transaction.outcome = Outcome.COMMITTING if is_committed else Outcome.ABORTING


class Judge:
    """The checks of a directory against a ledger."""

    def __init__(self, ledger: Ledger, *, only_kills: bool = True) -> None:
        """Keep the ledger.

        ``only_kills`` means that no write failed. Then only the last markers of a transaction may be missing, and each
        flush is
        in the checkpoint.
        """
        self.ledger = ledger
        self.only_kills = only_kills

    def look(self, directory: Directory) -> None:
        """Read the new records after a kill. Check that none is missing, doubled, damaged or visible too early."""
        names = {partition.directory_name for partition in directory.partitions()}
        for name, known in self.ledger.partitions.items():
            assert name in names or not (known.records or known.acknowledged), f"{name} is gone"
        for log in _logs(directory):
            self._read_new(log)
            partition = self.ledger.partitions[log.path.name]
            stable = log.offsets().last_stable.message_offset
            assert stable <= len(partition.records)
            self._judge_visible(log, partition, stable)
        for path in directory.paths:
            self._judge_recovery_points(path)

    def settle(self, directory: Directory) -> None:
        """Check that no transaction is open, and that each is completely visible or not at all."""
        for log in _logs(directory):
            self._read_new(log)
            partition = self.ledger.partitions[log.path.name]
            end = len(partition.records)
            assert log.offsets().last_stable.message_offset == end, f"{log.path.name}: a transaction is open"
            self._judge_visible(log, partition, end)
            partition.stable_end = end
        self._judge_transactions()

    def read_again(self, directory: Directory) -> None:
        """Read every record from the beginning, and check that the settled records have not changed."""
        for log in _logs(directory):
            partition = self.ledger.partitions[log.path.name]
            found: list[Author | None] = [None] * len(partition.records)
            for record in log.records():
                found[record.offset] = author(record.value)
            assert found[partition.start :] == partition.records[partition.start :], f"{log.path.name} has changed"

    # --- inside ---

    def _read_new(self, log: Log) -> None:
        name = log.path.name
        partition = self.ledger.partitions[name]
        offsets = log.offsets()
        end = offsets.log_end.message_offset
        settled = len(partition.records)
        assert end >= settled, f"{name} ends at {end}, it ended at {settled} before"
        self._judge_start(log, partition, offsets.log_start)
        partition.records += [None] * (end - settled)
        for record in log.records(start=max(settled, offsets.log_start)):
            writer, number = author(record.value)
            assert number < self.ledger.next_number[writer], f"{name}: nobody appended {number} of {writer}"
            assert number > partition.last_number[writer], f"{name}: {number} of {writer} is there twice"
            partition.last_number[writer] = number
            partition.records[record.offset] = (writer, number)
            self.ledger.counts.records += 1
        for writer, first, appended in partition.acknowledged:
            at = appended[max(0, partition.start - appended.start) :]
            number = first + len(appended) - len(at)
            there = partition.records[at.start : at.stop]
            promised = [(writer, each) for each in range(number, number + len(at))]
            assert there == promised, f"{name}: acknowledged at {at}: {number}… of {writer}; there is {there}"
        partition.acknowledged.clear()

    def _judge_start(self, log: Log, partition: PartitionLedger, start: int) -> None:
        assert start >= partition.start, f"{log.path.name} begins at {start}, it began at {partition.start} before"
        if start > partition.start:
            assert log.path.name.startswith("short-"), f"{log.path.name} begins at {start}"
            size = sum(file.stat().st_size for file in log.path.glob("*.log"))
            assert size >= SHORT_BYTES, f"{log.path.name} begins at {start}, but has only {size} bytes"
            self.ledger.counts.deleted += start - partition.start
        partition.start = start

    def _judge_visible(self, log: Log, partition: PartitionLedger, stable: int) -> None:
        """Check the records that read_committed readers see from ``stable_end`` on."""
        name, start = log.path.name, max(partition.stable_end, partition.start)
        visible = {record.offset for record in log.records(start=start, isolation="read_committed")}
        assert max(visible, default=-1) < max(stable, 1)
        seen: dict[Transaction, set[bool]] = defaultdict(set)
        for offset, record in enumerate(partition.records[start:], start):
            if record is None:
                assert offset not in visible
                continue
            transaction = self.ledger.transaction_of.get(record)
            if offset >= stable:
                assert offset not in visible
            elif transaction is None:
                assert offset in visible, f"{name}: {record} at {offset} is not visible"
            else:
                seen[transaction].add(offset in visible)
        for transaction, is_visible in seen.items():
            assert len(is_visible) == 1, f"{name}: a part of a transaction is visible: {transaction}"
            if True in is_visible:
                assert transaction.may_be_visible, f"{name}: visible: {transaction}"
                transaction.committed_in.add(name)
            else:
                assert transaction.outcome is not Outcome.COMMITTED, f"{name}: not visible: {transaction}"
                assert name not in transaction.committed_in, f"{name}: not visible any more: {transaction}"

    def _judge_transactions(self) -> None:
        """Check the order of the markers, count the decided transactions and forget them."""
        counts = self.ledger.counts
        for transaction in self.ledger.transactions.values():
            there = [name in transaction.committed_in for name in transaction.partitions]
            if self.only_kills:
                assert there == sorted(there, reverse=True), f"markers in another order: {transaction}"
            counts.committed += transaction.outcome is Outcome.COMMITTED
            counts.aborted += transaction.outcome is Outcome.ABORTED
            counts.left_open += transaction.outcome not in (Outcome.COMMITTED, Outcome.ABORTED)
        self.ledger.transactions.clear()
        self.ledger.transaction_of.clear()

    def _judge_recovery_points(self, path: Path) -> None:
        points = OffsetCheckpoint.read(LOCAL, path / RECOVERY_POINT_CHECKPOINT)
        for partition, point in points.items():
            ledger = self.ledger.partitions.get(partition.directory_name)
            if ledger is not None:
                assert not self.only_kills or point >= ledger.flushed, (
                    f"{partition}: flushed up to {ledger.flushed}, checkpointed is {point}"
                )
                assert point <= len(ledger.records), f"{partition}: the recovery point {point} is past the log end"


def _logs(directory: Directory) -> list[Log]:
    return [
        directory.log(partition.topic, partition.partition)
        for partition in directory.partitions()
        if not partition.topic.startswith("__")
    ]
