"""Flights are sent to the broker in transactions, and some of the transactions are aborted.

An aborted transaction stays in the log. Its records have offsets, and a marker after them cancels them.
``read_committed`` readers skip them, ``read_uncommitted`` readers do not. Aborted flights are sent again, so every
flight is committed once.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import merge
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from rich.console import Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text
from steps import console, picture

import tidelog

PATIENCE_S = 60
FLIGHTS_A_TRANSACTION = 400
ABORTED_EVERY = 8
COMMITTED = ("■", "green")
ABORTED = ("□", "red")


class Message(NamedTuple):
    partition: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def messages_on(disk: Path, topic: str) -> list[Message]:
    """Read a topic of a broker's directory with its partitions merged by time. The directory does not change."""
    with tidelog.open_directory(disk, read_only=True) as directory:
        found = [
            [
                Message(place.partition, record.timestamp, record.key, record.value)
                for record in directory.log(*place).records()
            ]
            for place in directory.partitions(topic)
        ]
    return list(merge(*found, key=lambda message: message.timestamp))


class Sender:
    """A transactional producer, with its committed and aborted messages so far."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": "flights",
                "transaction.timeout.ms": 300_000,  # Spark begins while one is open, also on slow machines
                "compression.type": "lz4",
                "partitioner": "murmur2_random",
                "log_level": 0,
            }
        )
        self._producer.init_transactions(PATIENCE_S)
        self._open = 0
        self.aborted = 0
        """The number of aborted messages."""
        self.transactions: list[bool] = []
        """The transactions in their order: True if committed, False if aborted."""

    def begin(self, topic: str, messages: Sequence[Message]) -> None:
        """Begin a transaction with ``messages``. All of them are in the log when this returns."""
        self._producer.begin_transaction()
        self._open = len(messages)
        for message in messages:
            self._producer.produce(topic, message.value, message.key, message.partition, timestamp=message.timestamp)
        if self._producer.flush(PATIENCE_S):
            raise TimeoutError("the broker does not answer")

    def commit(self) -> None:
        self._producer.commit_transaction(PATIENCE_S)

    def abort(self) -> None:
        self._producer.abort_transaction(PATIENCE_S)
        self.aborted += self._open

    def send_flights(self, flights: Sequence[Message]) -> None:
        """Send all flights, with a picture of the transactions."""
        bar = Progress(TextColumn("  flights committed"), BarColumn(30), MofNCompleteColumn(), console=console)
        task = bar.add_task("", total=len(flights))
        with picture(Group(bar, self)):
            for start in range(0, len(flights), FLIGHTS_A_TRANSACTION):
                chunk = flights[start : start + FLIGHTS_A_TRANSACTION]
                if len(self.transactions) % ABORTED_EVERY == ABORTED_EVERY - 1:
                    self.begin("flights", chunk)
                    self.abort()
                    self.transactions.append(False)
                self.begin("flights", chunk)
                self.commit()
                self.transactions.append(True)
                bar.advance(task, len(chunk))

    def __rich__(self) -> Text:
        marks = [COMMITTED if is_committed else ABORTED for is_committed in self.transactions]
        legend = [("  ■ committed", "green"), ("  □ aborted, then sent again", "red")]
        return Text.assemble("  ", *marks, "\n", *legend)
