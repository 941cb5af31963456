"""A consumer group reads the flights: members come and go, partitions change their owner, and a picture shows it.

Each member is a thread with a consumer of its own. It commits its offsets before it asks for more, so the next owner of
a partition continues after the last flight that was read. The lag counts the remaining flights of committed
transactions. Aborted flights and markers have offsets too, but no member reads them.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping

from confluent_kafka import Consumer, TopicPartition
from rich.console import Group
from rich.table import Table
from rich.text import Text
from steps import picture

PATIENCE_S = 60
GROUP = "arrivals"
AT_ONCE = 200
BAR = 30
STYLES = {"Ada": "cyan", "Ben": "magenta", "Cleo": "yellow"}


class Board:
    """The owner of each partition, and the progress of its reading. Thread rule: any thread."""

    def __init__(self, flights: Mapping[int, int]) -> None:
        """Keep ``flights``, the number of flights in each partition."""
        self.flights = flights
        self.read: Counter[tuple[int, int]] = Counter()
        """The number of reads by partition and offset."""
        self.failure: BaseException | None = None
        self._owners: dict[int, str] = {}
        self._read_of: Counter[int] = Counter()
        self._news: list[Text] = []
        self._changed = threading.Condition()

    def wait_for_share(self, share: float) -> None:
        """Wait until the group has read this share of all flights."""
        wanted = share * sum(self.flights.values())
        with self._changed:
            self._changed.wait_for(lambda: self.failure or self._read_of.total() >= wanted, PATIENCE_S)
            if self.failure or self._read_of.total() < wanted:
                sys.exit(f"the group has stopped reading: {self.failure}")

    def on_read(self, places: list[tuple[int, int]]) -> None:
        with self._changed:
            self.read.update(places)
            self._read_of.update(partition for partition, _ in places)
            self._changed.notify_all()

    def on_owner(self, name: str, partitions: list[int], is_owner: bool) -> None:
        with self._changed:
            for partition in partitions:
                if is_owner:
                    self._owners[partition] = name
                elif self._owners.get(partition) == name:
                    del self._owners[partition]

    def on_news(self, name: str, what: str) -> None:
        with self._changed:
            self._news.append(
                Text.assemble("  ", (name, STYLES[name]), f" {what} at {self._read_of.total():,} flights")
            )

    def on_failure(self, error: BaseException) -> None:
        with self._changed:
            self.failure = error
            self._changed.notify_all()

    def __rich__(self) -> Group:
        table = Table("partition", "member", "read", "flights", "lag")
        with self._changed:
            for partition, total in sorted(self.flights.items()):
                name = self._owners.get(partition, "")
                read = self._read_of[partition]
                bar = Text("█" * (BAR * read // total), STYLES.get(name, "dim")).append(
                    "░" * (BAR - BAR * read // total)
                )
                owner = Text(name, STYLES.get(name, ""))
                table.add_row(f"flights-{partition}", owner, bar, f"{read:,}", f"{total - read:,}")
            return Group(table, *self._news)


class Member(threading.Thread):
    """A member that reads until ``leaves`` is set."""

    def __init__(self, name: str, bootstrap: str, board: Board, pause_s: float) -> None:
        super().__init__(daemon=True)
        self.leaves = threading.Event()
        self._member = name
        self._board = board
        self._pause_s = pause_s
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "heartbeat.interval.ms": 100,  # the delay until it notices that others come and go
                "log_level": 0,
            }
        )

    def run(self) -> None:
        try:
            self._read()
        except BaseException as error:
            self._board.on_failure(error)

    def _read(self) -> None:
        self._consumer.subscribe(["flights"], on_assign=self._on_owner(True), on_revoke=self._on_owner(False))
        self._board.on_news(self._member, "joins")
        try:
            while not self.leaves.wait(self._pause_s):
                self._take()
            self._board.on_news(self._member, "leaves")
        finally:
            self._consumer.close()

    def _on_owner(self, is_owner: bool) -> Callable[[Consumer, list[TopicPartition]], None]:
        return lambda _, places: self._board.on_owner(self._member, [one.partition for one in places], is_owner)

    def _take(self) -> None:
        """Read some flights. Commit them before they count as read."""
        behind: dict[int, int] = {}
        for message in (messages := self._consumer.consume(AT_ONCE, 0.05)):
            if message.error():
                raise RuntimeError(str(message.error()))
            behind[message.partition()] = message.offset() + 1
        if behind:
            places = [TopicPartition("flights", partition, offset) for partition, offset in behind.items()]
            self._consumer.commit(offsets=places, asynchronous=False)
            self._board.on_read([(message.partition(), message.offset()) for message in messages])


def read_by_group(bootstrap: str, flights: Mapping[int, int], pause_s: float) -> Board:
    """Read all flights: one member begins, two join, the first one leaves. ``flights`` is their number by partition.

    ``pause_s`` is the pause between two reads of a member, so that a person can watch.
    """
    board = Board(flights)
    ada, ben, cleo = members = [Member(name, bootstrap, board, pause_s) for name in STYLES]
    with picture(board):
        for member, share in ((ada, 0.15), (ben, 0.4), (cleo, 0.7)):
            member.start()
            board.wait_for_share(share)
        ada.leaves.set()
        ada.join(PATIENCE_S)
        board.wait_for_share(1)
    for member in members:
        member.leaves.set()
    for member in members:
        member.join(PATIENCE_S)
    return board
