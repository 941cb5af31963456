"""Clients of a broker that write, read, commit and abort until a test ends: everything on its disk changes."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Final, Self

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

_SMALL_SEGMENTS: Final = {"internal.segment.bytes": "100000", "file.delete.delay.ms": "500"}
_TOPICS: Final = {
    "orders": {**_SMALL_SEGMENTS, "retention.bytes": "500000"},
    "profiles": {**_SMALL_SEGMENTS, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1"},
    "payments": _SMALL_SEGMENTS,
}
_PARTITIONS: Final = 3
_RECORDS_A_ROUND: Final = 200
_PAUSE_S: Final = 0.05
_PATIENCE_S: Final = 60.0


class BrokerLoad:
    """The clients run while the context is open. Leaving it raises the first error of a client."""

    def __init__(self, bootstrap: str) -> None:
        self.rounds = 0
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(work,)) for work in (self._write, self._read)]

    def __enter__(self) -> Self:
        admin = AdminClient({"bootstrap.servers": self._bootstrap})
        topics = [NewTopic(name, _PARTITIONS, config=config) for name, config in _TOPICS.items()]
        for created in admin.create_topics(topics).values():
            created.result(_PATIENCE_S)
        for thread in self._threads:
            thread.start()
        deadline_s = time.monotonic() + _PATIENCE_S
        while self.rounds < 2 and not self._errors:
            assert time.monotonic() < deadline_s, "the clients do not come to their second round"
            time.sleep(0.02)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join()
        if self._errors and error is None:
            raise self._errors[0]

    def _run(self, work: object) -> None:
        assert callable(work)
        try:
            work()
        except BaseException as error:
            self._errors.append(error)

    def _write(self) -> None:
        """Write plain and keyed records, and one transaction a round. Every third one is aborted."""
        plain = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})
        payments = Producer({"bootstrap.servers": self._bootstrap, "transactional.id": "payments"})
        payments.init_transactions(_PATIENCE_S)
        while not self._is_over.wait(_PAUSE_S):
            for number in range(_RECORDS_A_ROUND):
                plain.produce("orders", b"order %d" % number, partition=number % _PARTITIONS)
                plain.produce("profiles", b"x" * 100, b"user %d" % (number % 20), partition=number % _PARTITIONS)
            payments.begin_transaction()
            for partition in range(_PARTITIONS):
                payments.produce("payments", b"payment", partition=partition)
            payments.flush(_PATIENCE_S)
            if self.rounds % 3:
                payments.commit_transaction(_PATIENCE_S)
            else:
                payments.abort_transaction(_PATIENCE_S)
            assert plain.flush(_PATIENCE_S) == 0
            self.rounds += 1

    def _read(self) -> None:
        """Read as a member of the group ``billing``, and commit."""
        consumer = Consumer(
            {"bootstrap.servers": self._bootstrap, "group.id": "billing", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["orders", "payments"])
        try:
            while not self._is_over.is_set():
                for message in consumer.consume(500, timeout=0.2):
                    if message.error():
                        raise KafkaException(message.error())
        finally:
            consumer.close()
