"""Row verify: is every byte sound? Kafka's tool for that is ``DumpLogSegments --deep-iteration``, one segment a time.

Ours checks the whole log directory: batches and records, indexes, snapshots and checkpoints against the log. With one
thread, and as the command runs it.
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
    assert verified.is_sound, list(verified.all_findings)
    return sum(path.stat().st_size for path in Path(directory).glob("*/*.log")), 0
