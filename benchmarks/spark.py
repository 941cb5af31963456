"""Row spark: ``count(1), sum(length(value))`` over a topic, on two cores.

The peer is Spark's own Kafka source in PySpark 4.0.0. It reads from a Kafka broker on the same machine, whose start is
not counted. Ours is ``format("tidelog")`` on the directory of the same partitions. First only the format is changed, so
that every column travels to Spark. Then an option leaves out the columns that the query does not read. Both run in one
warm session, and then each as the first query of a new session. On the newest PySpark ours runs alone, because Spark's
Kafka source cannot be fetched completely for it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.datasets import SPARK, linked_copy
from benchmarks.measure import Case
from benchmarks.worker import ROOT, Done, Worker
from real_kafka.broker import Broker

OLDEST = ROOT / ".venv-spark40" / "bin" / "python"
NEWEST = sys.executable
CORES = 2
TOPIC = "bench"
QUERY = "count and sum(length(value)), 250 B values"
UNCHANGED, CHOSEN = ("only the format changed", ()), ("and columns=value", ("columns=value",))


def session(python: str | Path = NEWEST, *, cores: int = CORES) -> Worker:
    return Worker([str(python), "-m", "benchmarks.spark_session", str(cores)])


def cases(bench: Bench) -> Iterator[Case]:
    directory = bench.data.directory(SPARK)
    kafka = ("kafka", f"kafka.bootstrap.servers={serve(bench, directory)}", f"subscribe={TOPIC}")
    tidelog = ("tidelog", f"logDirs={directory}", f"subscribe={TOPIC}")
    spark = bench.enter(session(OLDEST))
    for name, options in (UNCHANGED, CHOSEN):
        yield Case(
            name=f"{QUERY}, warm; {name}",
            peer=lambda: spark.do(*kafka),
            peer_name="Spark's Kafka source",
            ours=lambda options=options: spark.do(*tidelog, *options),
            target=4.0,
        )
    spark.close()
    name, options = UNCHANGED
    yield Case(
        name=f"{QUERY}, first of a session; {name}",
        peer=first_query(OLDEST, *kafka),
        peer_name="Spark's Kafka source",
        ours=first_query(OLDEST, *tidelog, *options),
        most_warm_ups=0,
    )
    newest = version("pyspark")
    spark = bench.enter(session())
    for name, options in (UNCHANGED, CHOSEN):
        yield Case(
            name=f"{QUERY}, warm, PySpark {newest}; {name}",
            ours=lambda options=options: spark.do(*tidelog, *options),
        )
    spark.close()
    name, options = UNCHANGED
    yield Case(
        name=f"{QUERY}, first of a session, PySpark {newest}; {name}",
        ours=first_query(NEWEST, *tidelog, *options),
        most_warm_ups=0,
    )


def first_query(python: str | Path, *words: str) -> Callable[[], Done]:
    """Return a function that runs a query in its own session. The time begins when the session is ready."""

    def ask() -> Done:
        with session(python) as spark:
            return spark.do(*words)

    return ask


def serve(bench: Bench, directory: Path) -> str:
    """Start a broker on a copy of the partitions of ``directory``, and return its address."""
    root = bench.directory()
    broker = bench.enter(Broker(root / "data", work=root / "work", heap_mib=1024, quick=False))
    broker.format()
    broker.start()
    broker.create_topic(TOPIC, partitions=SPARK.partitions)
    broker.stop()
    for number in range(SPARK.partitions):
        name = f"{TOPIC}-{number}"
        identity = (broker.directory / name / "partition.metadata").read_bytes()
        shutil.rmtree(broker.directory / name)
        linked_copy(directory / name, broker.directory / name)
        (broker.directory / name / "partition.metadata").write_bytes(identity)
    broker.start()
    return broker.bootstrap
