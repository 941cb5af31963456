"""The flights demo: a running broker, a cluster under kills, then the disk of a killed broker, with Spark.

``make demo`` runs it. Every step prints its command or call and its duration, and checks its numbers.

======  ==============================================================================================================
act     steps
======  ==============================================================================================================
first   ``tidelog serve``: the flights are sent in transactions, read by a group, and queried in the broker's own files
        while it runs; a mirror follows the broker, and a stream counts in the copy
second  three brokers: leaders and the controller are killed while the flights are sent, and none is lost
third   no broker: the directory of a killed Kafka broker is recovered, verified, counted, queried and appended to
======  ==============================================================================================================
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from broker import Broker
from confluent_kafka.admin import NewTopic
from failover import survive
from group import GROUP, read_by_group
from inspecting import save_pages
from sending import Message, Sender, messages_on
from steps import check, print_timings, record, save_picture, say, step, tidelog_command

import tidelog

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

HERE = Path(__file__).parent
FLIGHTS_LEFT_OPEN = 500
TOPICS = (
    NewTopic("flights", 4, 1, config={"retention.ms": "-1"}),
    NewTopic("airports", 1, 1, config={"cleanup.policy": "compact"}),
)

PICTURES = {
    "segments.png": "/logs/0/flights-0",
    "transactions.png": "/logs/0/flights-eos-0/transactions",
    "findings.png": "/findings?run=1",
}
"""The pages that become pictures."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workspace", type=Path, default=Path("build/demo"), help="where to unpack and to write")
    parser.add_argument("--pause", type=float, default=0.04, help="seconds between two steps that a person can watch")
    parser.add_argument("--without-cluster", action="store_true", help="leave out the act of the three brokers")
    parser.add_argument("--without-spark", action="store_true", help="leave out the steps that need Spark")
    parser.add_argument("--picture", type=Path, help="also write the output to this file, as SVG")
    given = parser.parse_args()
    if given.picture:
        record(width=112)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the broker does not outlive the demo
    workspace: Path = given.workspace
    with step("Unpack the disk of a killed Kafka broker, and read its flights"):
        disk = unpack(workspace)
        flights, airports = messages_on(disk, "flights"), messages_on(disk, "airports")
        say(f"{len(flights):,} flights, {len(airports):,} rows of airports; reading changed nothing")
    spark = None
    if not given.without_spark:
        with step("Start Spark"):
            from queries import start_spark

            spark = start_spark()
    rows = serve(spark, workspace, flights, airports, given.pause)
    if not given.without_cluster:
        survive(workspace / "cluster", flights, given.pause / 2)
    recover(disk)
    if spark:
        query(spark, disk, workspace, rows)
        spark.stop()
    if given.picture:
        save_picture(given.picture)
    print_timings()


def serve(
    spark: SparkSession | None, workspace: Path, flights: Sequence[Message], airports: Sequence[Message], pause_s: float
) -> list[Row]:
    """Play the first act. Return Spark's delays by origin and month from the running broker."""
    rows: list[Row] = []
    with step("Start a broker"):
        broker = start_broker(workspace)
    with broker:
        with step("Send the flights in transactions; some are aborted"):
            sender = send(broker, flights, airports)
        with step("A consumer group reads them: members come and go"):
            read(broker, flights, pause_s)
        if spark:
            with step("Spark reads the broker's files while it runs"):
                rows = query_beside(spark, broker, sender, flights)
            with step("A mirror follows the broker; a Spark stream counts in the copy"):
                mirror(spark, broker, workspace / "copy", sender, flights)
        with step("Stop the broker, and count what it leaves"):
            count(broker, flights, sender)
    return rows


def unpack(workspace: Path) -> Path:
    shutil.rmtree(workspace, ignore_errors=True)
    workspace.mkdir(parents=True)
    with tarfile.open(HERE / "broker-disk.tar.gz") as archive:
        archive.extractall(workspace, filter="data")
    disk = workspace / "unclean"
    files = [path for path in disk.rglob("*") if path.is_file()]
    say(f"{disk}: {len(files)} files, {sum(path.stat().st_size for path in files):,} bytes")
    return disk


def start_broker(workspace: Path) -> Broker:
    began = time.perf_counter()
    broker = Broker(workspace)
    took = time.perf_counter() - began
    say(f"[bold cyan]$ tidelog {' '.join(broker.arguments)}")
    say(f"{broker.bootstrap} serves Kafka's clients, {took:.1f} s after the command; its data is in {broker.data}")
    return broker


def send(broker: Broker, flights: Sequence[Message], airports: Sequence[Message]) -> Sender:
    broker.create_topics(*TOPICS)
    say("topics: flights with 4 partitions; airports, compacted")
    sender = Sender(broker.bootstrap)
    sender.begin("airports", airports)
    sender.commit()
    sender.send_flights(flights)
    say(
        f"the log has {len(flights) + sender.aborted:,} flights: {len(flights):,} that count, and {sender.aborted:,} of"
        f" {sender.transactions.count(False)} aborted transactions, which read_committed passes over"
    )
    return sender


def read(broker: Broker, flights: Sequence[Message], pause_s: float) -> None:
    board = read_by_group(broker.bootstrap, Counter(flight.partition for flight in flights), pause_s)
    check(f"the group has read {len(flights):,} flights", len(board.read), len(flights))
    check("each of them once, though partitions changed hands", max(board.read.values()), 1)
    broker.wait_for_checkpoint("flights", "__consumer_offsets")
    say("What it committed is in the broker's files; the lag of 1 is the marker behind the last transaction:")
    tidelog_command("offsets", broker.data, "--group", GROUP)


def count(broker: Broker, flights: Sequence[Message], sender: Sender) -> None:
    check("SIGTERM; it stops in order", broker.stop(), 0)
    tidelog_command("count", broker.data, "flights", "airports")
    with tidelog.open_directory(broker.data, read_only=True) as directory:
        logs = [directory.log(*place) for place in directory.partitions("flights")]
        committed, all_of_them = (
            sum(1 for log in logs for _ in log.records(isolation=isolation))
            for isolation in ("read_committed", "read_uncommitted")
        )
    check(f"{committed:,} flights are committed", committed, len(flights))
    check(f"{all_of_them - committed:,} were aborted", all_of_them - committed, sender.aborted)


def query_beside(spark: SparkSession, broker: Broker, sender: Sender, flights: Sequence[Message]) -> list[Row]:
    from queries import delays_by_origin_and_month, print_counts, print_delays

    sender.begin("flights", flights[:FLIGHTS_LEFT_OPEN])
    broker.wait_for_checkpoint("flights", "airports")
    say(f"a transaction is open; it has sent {FLIGHTS_LEFT_OPEN} flights")
    found = print_counts(spark, broker.data, "flights")
    check("committed: what was sent", found["read_committed"], len(flights))
    all_sent = len(flights) + sender.aborted + FLIGHTS_LEFT_OPEN
    check("uncommitted: with what was aborted, and what is open", found["read_uncommitted"], all_sent)
    delays = delays_by_origin_and_month(spark, broker.data).cache()
    print_delays(delays)
    sender.abort()
    return sorted(delays.collect())


def mirror(spark: SparkSession, broker: Broker, copy: Path, sender: Sender, flights: Sequence[Message]) -> None:
    from following import Follower, stream_counts

    arrivals = flights[: len(flights) // 2]
    broker.create_topics(NewTopic("arrivals", 4, 1, config={"retention.ms": "-1"}))
    say(f'[bold cyan]>>> tidelog.mirror("{broker.bootstrap}", "{copy}", topics="arrivals", follow=True)')
    with Follower(broker.bootstrap, copy, "arrivals") as follower:
        follower.wait_for_topic("arrivals")
        counted, batches = stream_counts(spark, copy, "arrivals", sender, arrivals)
    check(f"in {batches} micro-batches the stream has counted {counted:,} arrivals", counted, len(arrivals))
    assert follower.result is not None
    missing = sum((one.source_end or 0) - one.log_end for one in follower.result.partitions)
    check(f"the mirror has stopped, and its copy of {follower.result.copied_bytes:,} bytes lacks nothing", missing, 0)
    tidelog_command("verify", copy)


def recover(disk: Path) -> None:
    """Begin the third act: look at a directory without a broker, and recover it."""
    with step("No broker now: the killed one's disk as pages"):
        save_pages(disk, PICTURES, disk.parent)
    with step("Repair the disk, first as a plan"):
        tidelog_command("recover", disk)
        tidelog_command("recover", disk, "--apply")
    with step("Check every CRC, index, snapshot and checkpoint"):
        tidelog_command("verify", disk)
    with step("Count exactly: committed, aborted, control, tombstones"):
        tidelog_command("count", disk)


def query(spark: SparkSession, disk: Path, workspace: Path, rows_beside: list[Row]) -> None:
    from queries import append_flights, delays_by_origin_and_month, draw, print_counts

    with step("Average delay by origin and month, once more from the repaired disk"):
        delays = delays_by_origin_and_month(spark, disk).cache()
        rows = sorted(delays.collect())
        check(f"{len(rows):,} rows, the same as from the running broker's files", rows, rows_beside)
        delays.write.mode("overwrite").parquet(str(workspace / "delays.parquet"))
        draw(delays, workspace / "delays.png")
        say(f"wrote {workspace / 'delays.parquet'} and {workspace / 'delays.png'}")
    with step("Transactions that Kafka wrote: what is committed, what is not"):
        print_counts(spark, disk, "flights-eos")
    with step("Append 1,000 flights through the API; the pipeline sees them"):
        append_flights(spark, disk)


if __name__ == "__main__":
    main()
