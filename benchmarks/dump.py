"""Row dump: ``kafka-dump-log --deep-iteration`` with discarded output. A check compares both texts.

Kafka's side is its ``DumpLogSegments`` in the warm JVM, which prints as usual. Both use one thread.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.datasets import DUMPED
from benchmarks.measure import Case, MismatchError
from tidelog.inspect.dump import KafkaFormatOptions, dump_kafka_format

SWITCH = "--deep-iteration"


def cases(bench: Bench) -> Iterator[Case]:
    worker = bench.ours
    segment = min((bench.data.directory(DUMPED) / "bench-0").glob("*.log"))
    out = bench.directory()
    theirs, ours = out / "kafka.txt", out / "tidelog.txt"

    def check() -> None:
        bench.java_tools.do("dump", segment, theirs, SWITCH)
        worker.do("dump", segment, ours)
        if not filecmp.cmp(theirs, ours, shallow=False):
            raise MismatchError("the two dumps differ")

    yield Case(
        name="--deep-iteration, the same text",
        peer=lambda: bench.java_tools.do("dump", segment, "-", SWITCH),
        ours=lambda: worker.do("dump", segment, "/dev/stdout"),
        target=4.0,
        check=check,
    )


def run(segment: str, target: str) -> tuple[int, int]:
    def complain(text: str) -> None:
        raise AssertionError(text)

    with Path(target).open("w", encoding="utf-8") as file:
        file.writelines(dump_kafka_format([segment], KafkaFormatOptions(deep_iteration=True), complain=complain))
    return os.stat(segment).st_size, 0
