"""A ledger of a cluster's acknowledgements to its clients, and the check of its records against the ledger.

=============  =====================================================================================================
part           rule
=============  =====================================================================================================
acknowledged   The record is at the offset that the producer was told.
once           No record of a producer's epoch is there twice, and each partition has them in the sequence of their
               sending. An acknowledged record is there once.
committed      A consumer with read_committed sees all records of a transaction that was committed, and none of one
               that was aborted. A transaction whose outcome the producer does not know is there whole, or not at all.
groups         A group's members together have read every acknowledged record, each with the value of the log.
=============  =====================================================================================================

Kafka finds duplicates within a producer's epoch. librdkafka begins a new epoch when a broker refuses a sequence. It
sends the records again that the old leader had appended without an acknowledgement (librdkafka issue 4953). So a record
without an acknowledgement may be there in two epochs.
"""

from __future__ import annotations

import enum
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple


class Place(NamedTuple):
    partition: int
    offset: int


class Sent(NamedTuple):
    """The value of a record: the producer's run, and the record's number in that run."""

    run: int
    number: int

    def encode(self) -> bytes:
        return b"%d %d" % self

    @classmethod
    def decode(cls, value: bytes) -> Sent:
        run, number = value.split(b" ")
        return cls(int(run), int(number))


class Outcome(enum.Enum):
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


class Ledger:
    """Thread rule: any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.acknowledged: dict[Place, Sent] = {}
        """The records of the idempotent producer."""
        self.transactions: dict[int, Outcome] = {}
        """The outcomes by the transaction's number, which is the run of its records."""
        self.sizes: dict[int, int] = {}
        """The records of each transaction."""
        self.read: dict[str, dict[Place, Sent]] = defaultdict(dict)
        """The records that the members of each group have read."""

    def acknowledge(self, place: Place, sent: Sent) -> None:
        with self._lock:
            self.acknowledged[place] = sent

    def note_read(self, group: str, place: Place, sent: Sent) -> None:
        with self._lock:
            self.read[group][place] = sent

    def copy_acknowledged(self) -> dict[Place, Sent]:
        with self._lock:
            return dict(self.acknowledged)

    def unread(self, group: str) -> set[Place]:
        """Return the acknowledged records that no member of the group has read."""
        with self._lock:
            return self.acknowledged.keys() - self.read[group].keys()


def record_problems(
    ledger: Ledger, log: Mapping[int, Sequence[tuple[int, Sent]]], producer_epochs: Mapping[Place, int]
) -> Iterator[str]:
    """Yield where the log of the idempotent producer's topic breaks a rule.

    ``log`` has the records by partition, and ``producer_epochs`` the epoch of each.
    """
    found = {Place(partition, offset): sent for partition, rows in log.items() for offset, sent in rows}
    for place, sent in ledger.acknowledged.items():
        if found.get(place) != sent:
            yield f"{sent} was acknowledged at {place}, where the log has {found.get(place)}"
    for partition, rows in log.items():
        yield from _order_problems(
            partition, ((sent, producer_epochs[Place(partition, offset)]) for offset, sent in rows)
        )
    yield from _acknowledged_twice(ledger, found)
    for group, read in ledger.read.items():
        for place, sent in read.items():
            if found.get(place) != sent:
                yield f"group {group} read {sent} at {place}, where the log has {found.get(place)}"
        for place in sorted(ledger.unread(group)):
            yield f"group {group} has not read {ledger.acknowledged[place]} at {place}"


def transaction_problems(ledger: Ledger, log: Mapping[int, Sequence[tuple[int, Sent]]]) -> Iterator[str]:
    """Yield where the transactional topic, read with read_committed, breaks a rule."""
    seen: dict[int, list[int]] = defaultdict(list)
    for partition, rows in log.items():
        yield from _order_problems(partition, ((sent, 0) for _, sent in rows))
        for _, sent in rows:
            seen[sent.run].append(sent.number)
    for number, outcome in ledger.transactions.items():
        count = len(set(seen.pop(number, ())))
        allowed = {
            Outcome.COMMITTED: {ledger.sizes[number]},
            Outcome.ABORTED: {0},
            Outcome.UNKNOWN: {0, ledger.sizes[number]},
        }[outcome]
        if count not in allowed:
            yield f"transaction {number} is {outcome.value}, but {count} of its {ledger.sizes[number]} records are seen"
    for number in seen:
        yield f"transaction {number} is seen, but it did not end"


def _acknowledged_twice(ledger: Ledger, found: Mapping[Place, Sent]) -> Iterator[str]:
    places = {sent: place for place, sent in ledger.acknowledged.items()}
    for place, sent in found.items():
        if place.offset > places.get(sent, place).offset:
            yield f"{sent} was acknowledged at {places[sent]}, and is there again at {place}"


def _order_problems(partition: int, sequence: Iterable[tuple[Sent, int]]) -> Iterator[str]:
    """Yield where records of a run and a producer's epoch are not in the sequence of their sending."""
    last: dict[tuple[int, int], int] = {}
    for sent, epoch in sequence:
        before = last.get((sent.run, epoch), -1)
        if sent.number <= before:
            yield f"partition {partition} has {sent} after number {before} of the same run"
        last[sent.run, epoch] = max(before, sent.number)
