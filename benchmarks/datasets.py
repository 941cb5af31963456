"""The measured data: written once by Kafka's own log classes with a fixed seed, so it is the same everywhere.

Each data set is a log directory with the partitions bench-0, bench-1, …, and a clean shutdown file. It is in the
git-ignored .cache/benchmarks.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.worker import ROOT, Worker
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL

CACHE = ROOT / ".cache" / "benchmarks"


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """Records with keys of 8 bytes. Sizes are in bytes; ``records`` is the number in each partition."""

    name: str
    records: int
    value_bytes: int
    records_per_batch: int
    partitions: int = 1
    segment_bytes: int = 64 * 1024 * 1024
    codec: str = "none"
    keys: int = 0
    """The number of different keys. With 0 each record has its own."""
    words: int = 0
    """The number of different words of sixteen letters in values, or 0. Fewer words compress better."""


HUNDRED = DataSet(name="100-bytes-100-a-batch", records=1_800_000, value_bytes=100, records_per_batch=100)
THOUSAND = DataSet(name="1-kb-100-a-batch", records=250_000, value_bytes=1000, records_per_batch=100)
SINGLE = DataSet(name="100-bytes-1-a-batch", records=700_000, value_bytes=100, records_per_batch=1)
MANY = replace(HUNDRED, name="four-partitions", records=500_000, partitions=4)
SPARK = DataSet(name="250-bytes", records=2_400_000, value_bytes=250, records_per_batch=100, partitions=2)
SPARK_LZ4 = replace(SPARK, name="250-bytes-lz4", codec="lz4", words=256)
SPARK_ZSTD = replace(SPARK, name="250-bytes-zstd", codec="zstd", words=256)
COMPACTED = replace(HUNDRED, name="compacted", records=5_000_000, words=256)
DUMPED = replace(HUNDRED, name="dumped", records=1_600_000, segment_bytes=1024 * 1024 * 1024)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManyLogs:
    """Many small partitions, as PopulateWork writes them: a copy after a kill, and a copy after a clean shutdown."""

    name: str
    records_per_batch: int
    partitions: int = 2000


LOGS_OF_HUNDREDS = ManyLogs(name="many-logs-100-a-batch", records_per_batch=100)
LOGS_OF_SINGLES = ManyLogs(name="many-logs-1-a-batch", records_per_batch=1)
KILLED, STOPPED = "killed", "stopped"


class Data:
    """The data sets, which are made on first use. ``scale`` makes them smaller or larger."""

    def __init__(self, java: Worker, *, scale: float = 1.0) -> None:
        self._java = java
        self._scale = scale

    def directory(self, data_set: DataSet) -> Path:
        """Return the log directory of ``data_set``."""
        records = max(round(data_set.records * self._scale), 10 * data_set.records_per_batch)
        scaled = replace(data_set, records=records, keys=round(data_set.keys * self._scale))
        description = json.dumps(asdict(scaled), indent=2) + "\n"
        directory = CACHE / f"{data_set.name}-{scaled.records}"
        stamp = directory.with_suffix(".json")
        if not stamp.exists() or stamp.read_text() != description:
            shutil.rmtree(directory, ignore_errors=True)
            for number in range(scaled.partitions):
                self._java.do(
                    "generate",
                    directory / f"bench-{number}",
                    scaled.records,
                    scaled.value_bytes,
                    scaled.records_per_batch,
                    scaled.segment_bytes,
                    scaled.codec,
                    scaled.keys,
                    scaled.words,
                )
            stamp.write_text(description)
        CleanShutdownFile(LOCAL, directory).write(0)
        return directory

    def many_logs(self, data_set: ManyLogs) -> Path:
        """Return a directory with the log directories ``KILLED`` and ``STOPPED``."""
        scaled = replace(data_set, partitions=max(round(data_set.partitions * self._scale), 10))
        description = json.dumps(asdict(scaled), indent=2) + "\n"
        home = CACHE / f"{data_set.name}-{scaled.partitions}"
        stamp = home.with_suffix(".json")
        if not stamp.exists() or stamp.read_text() != description:
            shutil.rmtree(home, ignore_errors=True)
            self._java.do("populate", home / STOPPED, scaled.partitions, scaled.records_per_batch)
            linked_copy(home / STOPPED, home / KILLED)
            self._java.do("populate", home / STOPPED, "stop")
            stamp.write_text(description)
        return home


def linked_copy(source: Path, target: Path) -> Path:
    """Copy for a side that changes indexes and checkpoints. Logs are links, so they are once in the page cache.

    The side must not write to the logs.
    """
    return Path(shutil.copytree(source, target, copy_function=_copy_or_link))


def _copy_or_link(source: str, target: str) -> None:
    if source.endswith(".log"):
        os.link(source, target)
    elif source.endswith("index"):
        _copy_sparse(source, target)
    else:
        shutil.copy2(source, target)


def _copy_sparse(source: str, target: str) -> None:
    """Copy without the preallocated zeros of an index: its entries are before its first hole."""
    with open(source, "rb") as entries, open(target, "wb") as copy:
        size = os.fstat(entries.fileno()).st_size
        copy.write(os.pread(entries.fileno(), os.lseek(entries.fileno(), 0, os.SEEK_HOLE), 0) if size else b"")
        copy.truncate(size)
