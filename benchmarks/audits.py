"""Row audits: the tables over the storage, with a row for every batch, segment, index entry, producer or transaction.

Ours alone, on two cores, in one warm session of the newest PySpark; the directory's logs are more than 2 GB. Speed is
in bytes of log, whichever of the directory's files a table is made of. Where the directory was stopped in order most
tables are made of a few small files; where it was killed before anything was flushed, all of it has to be read and
checked to know where its logs end, so that is what most of them are measured on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.datasets import SPARK, linked_copy
from benchmarks.measure import Case
from benchmarks.spark import CORES, TOPIC, session
from benchmarks.worker import Done
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL

COPIES = 2
LEAST_MEGABYTES = 1000 * CORES
"""A second: a gigabyte for each core."""

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
    spark = bench.enter(session())

    def ask(directory: Path, *options: str) -> Done:
        done = spark.do("tidelog", f"logDirs={directory}", f"subscribe={TOPIC}", *options)
        return replace(done, bytes=size, records=0)

    for name, directory, options in TABLES:
        yield Case(
            name=f"{name}, {CORES} cores",
            ours=lambda words=(root / directory, *options): ask(*words),
            floor=LEAST_MEGABYTES,
        )


def make(source: Path, root: Path) -> int:
    """``stopped`` and ``killed`` below ``root``, with the partitions of ``source`` several times over; bytes of log."""
    for number in range(COPIES * SPARK.partitions):
        for kind in ("stopped", "killed"):
            linked_copy(source / f"{TOPIC}-{number % SPARK.partitions}", root / kind / f"{TOPIC}-{number}")
    for snapshot in (root / "killed").glob("*/*.snapshot"):
        snapshot.unlink()
    CleanShutdownFile(LOCAL, root / "stopped").write(0)
    return sum(log.stat().st_size for log in (root / "stopped").glob("*/*.log"))
