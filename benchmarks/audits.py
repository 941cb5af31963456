"""Row audits: the tables over the storage, with a row for every batch, segment, index entry, producer or transaction.

Ours alone, in a warm session of the newest PySpark on one core, and in one on two; the directory's logs are more than
5 GB. Speed is in bytes of log, whichever of the directory's files a table is made of. Where the directory was stopped
in order most tables are made of a few small files; where it was killed before anything was flushed, all of it has to be
read and checked to know where its logs end, so that is what most of them are measured on.
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
"""A second and core."""

TABLES = (
    ("batches, stopped in order", "stopped", ("mode=batches",)),
    ("batches without checksums, stopped in order", "stopped", ("mode=batches", "verifyChecksums=false")),
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
    """A query; ``size`` is the bytes of log that it is about."""
    return replace(spark.do("tidelog", *words), bytes=size, records=0)


def make(source: Path, root: Path) -> int:
    """``stopped`` and ``killed`` below ``root``, with the partitions of ``source`` several times over; bytes of log."""
    for number in range(COPIES * SPARK.partitions):
        for kind in ("stopped", "killed"):
            linked_copy(source / f"{TOPIC}-{number % SPARK.partitions}", root / kind / f"{TOPIC}-{number}")
    for snapshot in (root / "killed").glob("*/*.snapshot"):
        snapshot.unlink()
    CleanShutdownFile(LOCAL, root / "stopped").write(0)
    return sum(log.stat().st_size for log in (root / "stopped").glob("*/*.log"))
