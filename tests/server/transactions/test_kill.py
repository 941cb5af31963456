"""Exactly-once processing with a broker that is killed in the middle of transactions and restarted.

A worker takes a batch from the input, writes it to the output in upper case, and commits offsets and output together.
The broker is killed at each of three moments of a transaction, while worker and producer live on. If an error requires
an abort, the worker aborts the transaction and takes the same batch again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from server.harness import running_broker
from server.transactions.librdkafka import SINGLE_NODE, committed, polled, reader, transactional
from tidelog.testing.broker.loop_thread import PATIENCE_S

INPUT, OUTPUT, GROUP = "input", "output", "workers"
BATCH = 20
BATCHES = 6
MOMENTS = ("half written", "offsets sent", "committed")


class Worker:
    """Processes one batch after the other. ``at`` is called at each moment of a transaction."""

    def __init__(self, bootstrap: str, at: Callable[[str], None]) -> None:
        self._at = at
        self._producer = transactional(bootstrap)
        self._consumer = reader(bootstrap, GROUP)

    def take_batch(self) -> bool:
        """Process a batch. Return False if there is none."""
        start = self._committed()
        self._consumer.assign([TopicPartition(INPUT, 0, start)])
        taken: list[Message] = []
        while len(taken) < BATCH and (message := polled(self._consumer)) is not None:
            taken.append(message)
        if not taken:
            return False
        self._producer.begin_transaction()
        self._write(taken[::2])
        self._at("half written")
        self._write(taken[1::2])
        self._finish(start + len(taken))
        return True

    def close(self) -> None:
        self._consumer.close()

    def _committed(self) -> int:
        """Retry until the group has its coordinator. librdkafka retries all other calls itself."""
        while True:
            try:
                (position,) = self._consumer.committed([TopicPartition(INPUT, 0)], PATIENCE_S)
                return max(position.offset, 0)
            except KafkaException as error:
                if error.args[0].code() not in (KafkaError.NOT_COORDINATOR, KafkaError.COORDINATOR_LOAD_IN_PROGRESS):
                    raise

    def _write(self, messages: list[Message]) -> None:
        for message in messages:
            self._producer.produce(OUTPUT, (message.value() or b"").upper())
        assert not self._producer.flush(PATIENCE_S)

    def _finish(self, next_offset: int) -> None:
        try:
            offsets = [TopicPartition(INPUT, 0, next_offset)]
            _insist(lambda: _send_offsets(self._producer, self._consumer, offsets))
            self._at("offsets sent")
            _insist(lambda: self._producer.commit_transaction(PATIENCE_S))
            self._at("committed")
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            _insist(lambda: self._producer.abort_transaction(PATIENCE_S))


def _send_offsets(producer: Producer, consumer: Consumer, offsets: list[TopicPartition]) -> None:
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_S)


def _insist(call: Callable[[], None]) -> None:
    """Repeat the call as long as its error is retriable."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


@pytest.mark.parametrize("moment", MOMENTS)
def test_exactly_once_over_a_kill(tmp_path: Path, moment: str) -> None:
    values = [f"value {number}".encode() for number in range(BATCH * BATCHES)]
    with running_broker(tmp_path, **SINGLE_NODE) as harness:
        for topic in (INPUT, OUTPUT):
            harness.create_topic(topic)
        source = Producer({"bootstrap.servers": harness.bootstrap})
        for value in values:
            source.produce(INPUT, value)
        assert not source.flush(PATIENCE_S)
        kills = iter((False, True, False, True))  # in the second and the fourth attempt

        def at(reached: str) -> None:
            if reached == moment and next(kills, False):
                harness.kill()
                harness.start()

        worker = Worker(harness.bootstrap, at)
        while worker.take_batch():
            pass
        worker.close()
        written = committed(harness.bootstrap, OUTPUT)
    assert sorted(written) == sorted(value.upper() for value in values)
    assert len(set(written)) == len(written)
