"""Three brokers lose their leaders and their controller while flights are sent, and no flight is lost.

``python examples/flights/failover.py`` runs this act of the demo alone. A thread sends the flights with ``acks=all``.
It never has many flights on their way, so that the flights stop where the cluster stops. A picture shows who leads each
partition, which replicas are in sync, and the flights that the cluster has acknowledged.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from cluster import BROKERS, CONTROLLER, PATIENCE_S, Cluster
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as Delivery
from confluent_kafka.admin import NewTopic
from rich.console import Group
from rich.table import Table
from rich.text import Text
from sending import Message, messages_on
from steps import check, picture, print_timings, say, step, tidelog_command

import tidelog

HERE = Path(__file__).parent
TOPIC = NewTopic("flights", 4, 3, config={"min.insync.replicas": "2", "retention.ms": "-1"})
ON_THEIR_WAY = 1000
"""The most flights that are sent and not yet acknowledged."""
AT_ONCE = 50
BAR = 30
STYLES = {1: "cyan", 2: "magenta", 3: "yellow"}


class Load(threading.Thread):
    """The flights on their way. ``allow`` lets it send a part of them. Thread rule: any thread."""

    def __init__(self, bootstrap: str, flights: Sequence[Message], pause_s: float) -> None:
        super().__init__(daemon=True)
        self.totals = Counter(flight.partition for flight in flights)
        self.sent: Counter[int] = Counter()
        self.acknowledged: Counter[int] = Counter()
        """The numbers of flights by partition."""
        self.failure = ""
        self._flights = flights
        self._pause_s = pause_s
        self._allowed = 0
        self._changed = threading.Condition()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "retry.backoff.ms": 50,
                "message.timeout.ms": PATIENCE_S * 1000,
                "log_level": 0,
            }
        )

    def allow(self, share: float) -> None:
        """Let the thread send this share of all flights."""
        with self._changed:
            self._allowed = round(share * len(self._flights))
            self._changed.notify_all()

    def wait_for_share(self, share: float) -> None:
        """Wait until this share of all flights is acknowledged."""
        self.wait_for(lambda: self.acknowledged.total() >= share * len(self._flights))

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self.failure or is_so(), PATIENCE_S)
            if self.failure or not is_so():
                sys.exit(f"the cluster acknowledges no flights: {self.failure}")

    def run(self) -> None:
        for start in range(0, len(self._flights), AT_ONCE):
            chunk = self._flights[start : start + AT_ONCE]
            while start + len(chunk) > self._allowed or len(self._producer) > ON_THEIR_WAY:
                self._producer.poll(0.02)
                if self.failure:
                    return
            for flight in chunk:
                self._producer.produce(
                    "flights",
                    flight.value,
                    flight.key,
                    flight.partition,
                    timestamp=flight.timestamp,
                    on_delivery=self._on_delivery,
                )
                self.sent[flight.partition] += 1
            self._producer.poll(self._pause_s)
        self._producer.flush(PATIENCE_S)

    def _on_delivery(self, error: KafkaError | None, delivery: Delivery) -> None:
        with self._changed:
            if error is not None:
                self.failure = str(error)
            else:
                self.acknowledged[delivery.partition() or 0] += 1
            self._changed.notify_all()


class Board(threading.Thread):
    """The picture: it asks the brokers again and again who leads. Thread rule: any thread."""

    def __init__(self, cluster: Cluster, load: Load) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self._cluster = cluster
        self._load = load
        self._dead: set[int] = set()
        self._news: list[Text] = []
        self._known = cluster.partitions("flights")

    def run(self) -> None:
        while not self.over.wait(0.1):
            try:
                self._known = self._cluster.partitions("flights")
            except KafkaException:
                continue  # the asked broker has just died

    def kill(self, number: int, what: str) -> None:
        self._cluster.nodes[number].kill()
        self._dead.add(number)
        self.note(number, f"is killed with kill -9: {what}")

    def restart(self, number: int) -> None:
        self._cluster.restart(number)
        self._dead.discard(number)

    def note(self, number: int, what: str) -> None:
        name = "the controller" if number == CONTROLLER else f"broker {number}"
        at = f"  {self._load.acknowledged.total():,} flights"
        self._news.append(Text.assemble("  ", (name, STYLES.get(number, "bold")), f" {what}", (at, "dim")))

    def leader(self, partition: int) -> int:
        leader: int = self._known[partition].leader
        return leader

    def wait_for_leader(self, partition: int, *, other_than: int) -> int:
        self._wait_for(lambda: self.leader(partition) not in (-1, other_than))
        return self.leader(partition)

    def wait_until_in_sync(self) -> None:
        self._wait_for(lambda: all(len(one.isrs) == len(BROKERS) for one in self._known.values()))

    def _wait_for(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not is_so():
            if time.monotonic() > deadline:
                sys.exit("the cluster does not recover")
            time.sleep(0.02)

    def __rich__(self) -> Group:
        table = Table("partition", "leader", "in sync", "acknowledged", "flights")
        for partition, total in sorted(self._load.totals.items()):
            known = self._known[partition]
            is_led = known.leader in STYLES and known.leader not in self._dead
            style = STYLES[known.leader] if is_led else "dim"
            done = self._load.acknowledged[partition]
            bar = Text("█" * (BAR * done // total), style).append("░" * (BAR - BAR * done // total))
            leader = Text(f"broker {known.leader}", style) if is_led else Text("none", "red")
            replicas = [Text(str(one), STYLES[one] if one in known.isrs else "dim strike") for one in BROKERS]
            table.add_row(f"flights-{partition}", leader, Text(" ").join(replicas), bar, f"{done:,}")
        return Group(table, *self._news)


def survive(workspace: Path, flights: Sequence[Message], pause_s: float) -> None:
    """Play the act in an empty ``workspace``. ``pause_s`` is the pause after each few flights."""
    with ExitStack() as stack:
        with step("Start three brokers and a controller"):
            began = time.perf_counter()
            cluster = stack.enter_context(Cluster(workspace))
            for node in cluster.nodes.values():
                say(f"[bold cyan]$ tidelog serve {node.properties}")
            say(f"they serve after {time.perf_counter() - began:.1f} s, with the formatting of their directories")
            cluster.create_topic(TOPIC)
            say("topic: flights with 4 partitions and 3 replicas; acks=all needs two of them")
        with step("Kill leaders and the controller while flights are sent"):
            load = send_through_kills(cluster, flights, pause_s)
        with step("Compare the replicas, stop the cluster, and count"):
            tidelog_command("compare", *(broker.data for broker in cluster.brokers), "flights")
            check("SIGTERM; all of them stop cleanly", cluster.stop(), [0, 0, 0, 0])
            count(cluster, flights, load)


def send_through_kills(cluster: Cluster, flights: Sequence[Message], pause_s: float) -> Load:
    load = Load(cluster.bootstrap, flights, pause_s)
    board = Board(cluster, load)
    with picture(board):
        load.start()
        board.start()
        for partition, share in ((0, 0.15), (1, 0.45)):
            load.allow(share + 0.05)
            load.wait_for_share(share)
            kill_leader(board, load, partition, allowed=share + 0.25)
        load.allow(0.8)
        load.wait_for_share(0.75)
        board.kill(CONTROLLER, "no leader is elected")
        load.allow(1)
        load.wait_for_share(0.9)
        board.note(CONTROLLER, "is not needed while leaders live")
        board.restart(CONTROLLER)
        load.wait_for_share(1)
        board.wait_until_in_sync()
        board.over.set()
        board.join()
    load.join()
    return load


def kill_leader(board: Board, load: Load, partition: int, *, allowed: float) -> None:
    """Kill a partition's leader, wait until flights are acknowledged by the next one, and start the killed one."""
    leader, sent = board.leader(partition), load.sent[partition]
    began = time.perf_counter()
    board.kill(leader, f"it led flights-{partition}")
    load.allow(allowed)
    elected = board.wait_for_leader(partition, other_than=leader)
    load.wait_for(lambda: load.acknowledged[partition] > sent)
    took = time.perf_counter() - began
    board.note(elected, f"leads flights-{partition}, and acknowledges {took:.1f} s after the kill")
    began = time.perf_counter()
    board.restart(leader)
    board.wait_until_in_sync()
    board.note(leader, f"is back, and in sync after {time.perf_counter() - began:.1f} s")


def count(cluster: Cluster, flights: Sequence[Message], load: Load) -> None:
    """Compare the stored flights with the sent ones."""
    acknowledged = load.acknowledged.total()
    check(f"{acknowledged:,} flights are acknowledged, all that were sent", acknowledged, len(flights))
    sent = {partition: [flight.value for flight in flights if flight.partition == partition] for partition in range(4)}
    for broker in cluster.brokers:
        with tidelog.open_directory(broker.data, read_only=True) as logs:
            stored = {
                number: [record.value for record in logs.log("flights", number).records(until="log_end")]
                for number in sent
            }
        lost = sum(len(values) - len(stored[number]) for number, values in sent.items())
        check(
            f"broker {broker.number} has lost {lost} flights, and none is doubled or out of order", stored == sent, True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspace", type=Path, default=Path("build/failover"), help="where to write")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds after each few flights")
    given = parser.parse_args()
    shutil.rmtree(given.workspace, ignore_errors=True)
    with tarfile.open(HERE / "broker-disk.tar.gz") as archive:
        archive.extractall(given.workspace, filter="data")
    survive(given.workspace / "cluster", messages_on(given.workspace / "unclean", "flights"), given.pause)
    print_timings()


if __name__ == "__main__":
    main()
