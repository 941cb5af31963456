"""Row spark: ``count(1), sum(length(value))`` over a topic, on two cores.

The peer is Spark's own Kafka source in PySpark 4.0.0. It reads from a Kafka broker on the same machine, whose start is
not counted. Ours is ``format("tidelog")`` on the directory of the same partitions. First only the format is changed:
the JVM reader reads the column of the query. Then the Python reader reads, with every column, and with an option that
leaves out the others. All run in one warm session, and then as the first query of a new session. Other rows have
compressed batches, queries that need no values, and the same rows in Parquet files, for the scale. On the newest
PySpark ours runs alone, because Spark's Kafka source cannot be fetched completely for it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.datasets import SPARK, SPARK_LZ4, SPARK_ZSTD, DataSet, linked_copy
from benchmarks.measure import Case
from benchmarks.worker import ROOT, Done, Worker
from real_kafka.broker import Broker

OLDEST = ROOT / ".venv-spark40" / "bin" / "python"
NEWEST = sys.executable
CORES = 2
TOPIC = "bench"
QUERY = "count and sum(length(value)), 250 B values"
UNCHANGED = ("only the format changed", ())
BY_PYTHON = ("read by Python", ("reader=python",))
CHOSEN = ("read by Python, and columns=value", ("reader=python", "columns=value"))
NO_VALUES = {
    "count": ("count(*)", 5000),
    "bounds": ("count(*), min and max of offset, max of timestamp", 5000),
    "earliest": ("count(*) and min of timestamp, which is in no header", None),
}
"""Queries without values, and their lowest speeds if batch headers have the results. Spark's side calls them so."""
TARGETS = {UNCHANGED: 10.0, BY_PYTHON: 4.0, CHOSEN: 4.0}


def session(python: str | Path = NEWEST, *, cores: int = CORES) -> Worker:
    return Worker([str(python), "-m", "benchmarks.spark_session", str(cores)])


def cases(bench: Bench) -> Iterator[Case]:
    yield from plain_cases(bench)
    for name, data_set in (("lz4", SPARK_LZ4), ("zstd", SPARK_ZSTD)):
        kafka, tidelog = sources(bench, data_set)
        with session(OLDEST) as spark:
            yield Case(
                name=f"{QUERY}, {name}, warm; only the format changed",
                peer=lambda spark=spark, kafka=kafka: spark.do(*kafka),
                peer_name="Spark's Kafka source",
                ours=lambda spark=spark, tidelog=tidelog: spark.do(*tidelog),
                target=4.0,
            )


def plain_cases(bench: Bench) -> Iterator[Case]:
    kafka, tidelog = sources(bench, SPARK)
    spark = bench.enter(session(OLDEST))
    for way, target in TARGETS.items():
        name, options = way
        yield Case(
            name=f"{QUERY}, warm; {name}",
            peer=lambda: spark.do(*kafka),
            peer_name="Spark's Kafka source",
            ours=lambda options=options: spark.do(*tidelog, *options),
            target=target,
        )
    for select, (query, floor) in NO_VALUES.items():
        yield Case(
            name=f"{query}, warm; only the format changed",
            peer=lambda select=select: spark.do(*kafka, f"select={select}"),
            peer_name="Spark's Kafka source",
            ours=lambda select=select: spark.do(*tidelog, f"select={select}"),
            floor=floor,
        )
    copy = bench.directory() / "rows"
    spark.do(*tidelog, f"copyTo={copy}")
    yield Case(
        name=f"{QUERY}, warm; beside the same rows in Parquet files",
        peer=lambda: spark.do("parquet", f"path={copy}"),
        peer_name="Spark's Parquet source",
        ours=lambda: spark.do(*tidelog),
    )
    spark.close()
    yield Case(
        name=f"{QUERY}, first of a session; only the format changed",
        peer=first_query(OLDEST, *kafka),
        peer_name="Spark's Kafka source",
        ours=first_query(OLDEST, *tidelog),
        most_warm_ups=0,
        target=2.0,
    )
    newest = version("pyspark")
    spark = bench.enter(session())
    for name, options in TARGETS:
        yield Case(
            name=f"{QUERY}, warm, PySpark {newest}; {name}",
            ours=lambda options=options: spark.do(*tidelog, *options),
        )
    spark.close()
    yield Case(
        name=f"{QUERY}, first of a session, PySpark {newest}; only the format changed",
        ours=first_query(NEWEST, *tidelog),
        most_warm_ups=0,
    )


def sources(bench: Bench, data_set: DataSet) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the words that ask Spark's Kafka source and ours for a data set."""
    directory = bench.data.directory(data_set)
    kafka = ("kafka", f"kafka.bootstrap.servers={serve(bench, directory)}", f"subscribe={TOPIC}")
    return kafka, ("tidelog", f"logDirs={directory}", f"subscribe={TOPIC}")


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
