"""Clients of a cluster under faults: an idempotent and a transactional producer, and a group of each protocol.

Each client runs in its own thread until the end, and writes the acknowledgements into the ledger. An error
that a client can survive, by its own retries or by a new producer, is no failure of the traffic.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as KafkaPartition

from real_kafka.cluster_ledger import Ledger, Outcome, Place, Sent

RECORDS, TRANSACTIONS = "records", "transactions"
PARTITIONS = 3
GROUPS = ("classic", "consumer")
"""The group's protocol is its name. A cluster on ZooKeeper has the classic protocol only."""
PATIENCE_S = 120

_PAUSE_S = 0.01
_RECORDS_IN_TRANSACTION = 6
_TRANSACTIONAL_ID = "traffic"
_SHORT_S = 15


class Traffic:
    """The clients' threads. Leaving the context ends them."""

    def __init__(self, bootstrap: str, ledger: Ledger, groups: Sequence[str] = GROUPS) -> None:
        self.ledger = ledger
        self._groups = tuple(groups)
        self.errors: list[str] = []
        """Errors that a producer did not retry by itself, and errors that ended a thread."""
        self._settings: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap,
            "log_level": 2,
            "socket.timeout.ms": 10_000,
        }
        self._has_ended = threading.Event()
        self._producing_ended = threading.Event()
        self._transactions_done = 0
        works = [self._produce, self._transact, *(lambda name=name: self._consume(name) for name in self._groups)]
        self._threads = [threading.Thread(target=self._guarded, args=(work,), daemon=True) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._producing_ended.set()
        self._has_ended.set()
        for thread in self._threads:
            thread.join(PATIENCE_S)

    @property
    def progress(self) -> tuple[int, ...]:
        """The acknowledged records, the ended transactions, and the records that each group has read."""
        reads = (len(self.ledger.read[name]) for name in self._groups)
        return len(self.ledger.acknowledged), self._transactions_done, *reads

    def wait_for_progress(self) -> None:
        """Return when every client has done something more. Raise AssertionError in time."""
        before = self.progress

        def have_all_moved() -> bool:
            return all(new > old for new, old in zip(self.progress, before, strict=True))

        self._wait("every client goes on", have_all_moved)

    def finish(self) -> None:
        """End the producers, and return when the groups have read everything that was acknowledged."""
        self._producing_ended.set()
        for thread in self._threads[:2]:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "a producer does not end"
        self._wait("the groups have read all", lambda: not any(self.ledger.unread(name) for name in self._groups))

    def _wait(self, what: str, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            assert time.monotonic() < deadline, f"not in {PATIENCE_S} s: {what}; {self.progress}, {self.errors[-3:]}"
            time.sleep(0.05)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:
            self.errors.append(f"a client ended: {error!r}")

    # --- the idempotent producer ---

    def _produce(self) -> None:
        run = 0
        while not self._producing_ended.is_set():
            self._produce_run(run)
            run += 1

    def _produce_run(self, run: int) -> None:
        """Send records until the end, or until the producer cannot go on."""
        is_broken = threading.Event()

        def reported(sent: Sent) -> Callable[[KafkaError | None, Message], None]:
            def report(error: KafkaError | None, message: Message) -> None:
                if error is None:
                    self.ledger.acknowledge(Place(message.partition() or 0, message.offset() or 0), sent)
                else:
                    self.errors.append(f"{sent}: {error}")
                    is_broken.set()

            return report

        producer = Producer(
            {**self._settings, "enable.idempotence": True, "acks": "all", "linger.ms": 5, "batch.num.messages": 20}
        )
        number = 0
        while not (is_broken.is_set() or self._producing_ended.is_set()):
            sent = Sent(run, number)
            try:
                producer.produce(RECORDS, sent.encode(), partition=number % PARTITIONS, on_delivery=reported(sent))
            except (KafkaException, BufferError):
                producer.poll(0.1)
            else:
                number += 1
            producer.poll(_PAUSE_S)
        producer.flush(PATIENCE_S)

    # --- the transactional producer ---

    def _transact(self) -> None:
        number, producer = 0, self._new_transactional()
        while not self._producing_ended.is_set():
            wants_commit = number % 3 != 2
            self.ledger.sizes[number] = _RECORDS_IN_TRANSACTION
            outcome, is_usable = self._transact_once(producer, number, wants_commit)
            self.ledger.transactions[number] = outcome
            self._transactions_done += outcome is not Outcome.UNKNOWN
            if not is_usable:
                producer = self._new_transactional()
            number += 1

    def _new_transactional(self) -> Producer:
        """Return a producer that has fenced the one before, and ended its transaction."""
        settings = {**self._settings, "transactional.id": _TRANSACTIONAL_ID, "transaction.timeout.ms": 60_000}
        while True:
            producer = Producer(settings)
            try:
                producer.init_transactions(_SHORT_S)
            except KafkaException as error:
                self.errors.append(f"init_transactions: {error}")
                if self._has_ended.is_set():
                    raise
            else:
                return producer

    def _transact_once(self, producer: Producer, number: int, wants_commit: bool) -> tuple[Outcome, bool]:
        """Return the outcome, and False if another producer must go on."""
        outcome = Outcome.ABORTED
        try:
            producer.begin_transaction()
            for count in range(_RECORDS_IN_TRANSACTION):
                producer.produce(TRANSACTIONS, Sent(number, count).encode(), partition=count % PARTITIONS)
            if producer.flush(PATIENCE_S):
                return Outcome.ABORTED, False
            if wants_commit:
                outcome = Outcome.UNKNOWN
                self._repeat(lambda: producer.commit_transaction(_SHORT_S))
                return Outcome.COMMITTED, True
            self._repeat(lambda: producer.abort_transaction(_SHORT_S))
            return Outcome.ABORTED, True
        except KafkaException as error:
            cause = error.args[0]
            self.errors.append(f"transaction {number}: {cause}")
            if not cause.txn_requires_abort():
                return outcome, False
            try:
                self._repeat(lambda: producer.abort_transaction(_SHORT_S))
            except KafkaException:
                return outcome, False
            return Outcome.ABORTED, True

    def _repeat(self, call: Callable[[], None]) -> None:
        """Call again while the client says that it can be repeated."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return call()
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise

    # --- the groups ---

    def _consume(self, protocol: str) -> None:
        settings: dict[str, str | int | float | bool] = {
            **self._settings,
            "group.id": protocol,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
        if protocol == "classic":
            settings["session.timeout.ms"] = 6000
        consumer = Consumer(settings)
        consumer.subscribe([RECORDS])
        while not self._has_ended.is_set():
            messages = consumer.consume(50, 0.1)
            for message in messages:
                if message.error() is None:
                    place = Place(message.partition() or 0, message.offset() or 0)
                    self.ledger.note_read(protocol, place, Sent.decode(message.value() or b""))
            if messages:
                try:
                    consumer.commit(asynchronous=False)
                except KafkaException:
                    continue  # the coordinator is moving, or the partitions have another owner
        consumer.close()


def read_topic(bootstrap: str, topic: str, isolation: str) -> dict[int, list[tuple[int, Sent]]]:
    """Return all records of a topic by partition: their offsets and values."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "log_level": 2,
            "group.id": "reader",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
        }
    )
    found: dict[int, list[tuple[int, Sent]]] = {number: [] for number in range(PARTITIONS)}
    consumer.assign([KafkaPartition(topic, number, 0) for number in found])
    left, deadline = set(found), time.monotonic() + PATIENCE_S
    while left:
        assert time.monotonic() < deadline, f"{topic}: partitions {left} do not end"
        for message in consumer.consume(500, 0.5):
            error = message.error()
            if error is None:
                found[message.partition() or 0].append((message.offset() or 0, Sent.decode(message.value() or b"")))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition() or 0)
    consumer.close()
    return found
