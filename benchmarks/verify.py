"""Row verify: a check of every byte. Kafka's tool is ``DumpLogSegments --deep-iteration``, one segment at a time.

Ours checks the complete log directory: batches and records, and indexes, snapshots and checkpoints against the log. It
runs with one thread, and with the command's default.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.datasets import DUMPED
from benchmarks.measure import Case
from tidelog.inspect.verify import verify_directory
from tidelog.storage.fs import LOCAL


def cases(bench: Bench) -> Iterator[Case]:
    worker = bench.ours
    directory = bench.data.directory(DUMPED)
    (segment,) = (directory / "bench-0").glob("*.log")
    for name, threads in (("a directory of one segment, one thread", 1), ("a directory of one segment", 0)):
        yield Case(
            name=name,
            peer=lambda: bench.java_tools.do("dump", segment, "-", "--deep-iteration"),
            ours=lambda threads=threads: worker.do("verify", directory, threads),
            target=40.0,
        )


def run(directory: str, threads: str) -> tuple[int, int]:
    verified = verify_directory(LOCAL, Path(directory), threads=int(threads) or None)
    assert verified.has_no_errors, list(verified.all_findings)
    return sum(path.stat().st_size for path in Path(directory).glob("*/*.log")), 0
