"""Row audits: the tables over the storage, with a row for each batch, segment, index entry, producer, transaction.

Only tidelog runs, in a warm session of the newest PySpark, on one core and on two. The directory has more than 5 GB of
logs. Speed is in bytes of log, although some tables come from other files. After a clean shutdown most tables need only
a few small files. After a kill without any flush, the logs must be read and checked to find their ends. Most tables are
measured on that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.datasets import SPARK, linked_copy
from benchmarks.measure import Case
from benchmarks.spark import CORES, TOPIC, session
from benchmarks.worker import Done, Worker
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL

COPIES = 4
LEAST_MEGABYTES = 1000
"""The limit for each core, in megabytes a second."""

TABLES = (
    ("batches, clean shutdown", "stopped", ("mode=batches",)),
    ("batches without checksums, clean shutdown", "stopped", ("mode=batches", "verifyChecksums=false")),
    ("batches, killed", "killed", ("mode=batches",)),
    ("segments, killed", "killed", ("mode=segments",)),
    ("index, killed", "killed", ("mode=index",)),
    ("producers, killed", "killed", ("mode=producers",)),
    ("transactions, killed", "killed", ("mode=transactions",)),
)


def cases(bench: Bench) -> Iterator[Case]:
    root = bench.directory()
    size = make(bench.data.directory(SPARK), root)
    for cores in range(1, CORES + 1):
        with session(cores=cores) as spark:
            for name, directory, options in TABLES:
                words = (f"logDirs={root / directory}", f"subscribe={TOPIC}", *options)
                yield Case(
                    name=f"{name}, {cores} {'core' if cores == 1 else 'cores'}",
                    ours=partial(ask, spark, size, *words),
                    floor=LEAST_MEGABYTES * cores,
                )


def ask(spark: Worker, size: int, *words: str) -> Done:
    """Run a query. ``size`` is the bytes of log that it covers."""
    return replace(spark.do("tidelog", *words), bytes=size, records=0)


def make(source: Path, root: Path) -> int:
    """Copy ``source`` several times into ``stopped`` and ``killed`` below ``root``. Return the bytes of log."""
    for number in range(COPIES * SPARK.partitions):
        for kind in ("stopped", "killed"):
            linked_copy(source / f"{TOPIC}-{number % SPARK.partitions}", root / kind / f"{TOPIC}-{number}")
    for snapshot in (root / "killed").glob("*/*.snapshot"):
        snapshot.unlink()
    CleanShutdownFile(LOCAL, root / "stopped").write(0)
    return sum(log.stat().st_size for log in (root / "stopped").glob("*/*.log"))
