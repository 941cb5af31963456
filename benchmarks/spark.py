"""Row spark: ``count(1), sum(length(value))`` over a topic, in one warm session of PySpark 4.0.0 on two cores.

The peer is Spark's own Kafka source reading from a Kafka 4.1.0 broker on the same machine (what it takes to start that
broker is not counted); ours is ``format("tidelog")`` on the same partitions' directory, first with nothing changed but
the format, so that every column travels to Spark, then with the option that leaves out those the query does not read.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.datasets import SPARK, linked_copy
from benchmarks.measure import Case
from benchmarks.worker import ROOT, Worker
from real_kafka.broker import Broker

PYTHON = ROOT / ".venv-spark40" / "bin" / "python"
TOPIC = "bench"


def cases(bench: Bench) -> Iterator[Case]:
    directory = bench.data.directory(SPARK)
    bootstrap = serve(bench, directory)
    spark = bench.enter(Worker([str(PYTHON), "-m", "benchmarks.spark_session"]))
    peer = ("kafka", f"kafka.bootstrap.servers={bootstrap}", f"subscribe={TOPIC}")
    ours = ("tidelog", f"logDirs={directory}", f"subscribe={TOPIC}")
    for name, options in (("only the format changed", ()), ("and columns=value", ("columns=value",))):
        yield Case(
            name=f"count and sum(length(value)), 250 B values, warm; {name}",
            peer=lambda: spark.do(*peer),
            peer_name="Spark's Kafka source",
            ours=lambda options=options: spark.do(*ours, *options),
            target=4.0,
        )


def serve(bench: Bench, directory: Path) -> str:
    """A broker on a copy of the partitions of ``directory``; its address."""
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
