"""``make bench-scaling``: the cost of a read by Spark for growing data and cores, on the newest PySpark.

The query is that of the row spark, by the JVM reader, over complete partitions of a gigabyte each. Our own engine
writes them, and they are deleted at the end in any case. A warm session has one core, the next one two. The sizes take
turns, so that other work on the machine affects them alike, and the fastest run of each counts.

The command writes results/scaling.json and the table in README.md that is made from it. ``--results`` only writes the
former, in another place. The test in ``make soak`` does that to check the cost against the data.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.datasets import CACHE
from benchmarks.spark import TOPIC, session
from benchmarks.worker import Worker
from tidelog.model import Record, TimestampType
from tidelog.record.build import build_batch
from tidelog.runtime import SystemClock
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.load.open_request import OpenRequest
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig

BEGIN, END = "<!-- scaling: begin -->", "<!-- scaling: end -->"
GIGABYTES = (1, 4, 10)
CORES = (1, 2)
VALUE_BYTES = 250
RECORDS_A_BATCH = 100
BATCHES_A_CALL = 300
SEGMENT_BYTES = 128 * 1024 * 1024
TIME_MS = 1_700_000_000_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description="Cost against data and cores.")
    parser.add_argument("--runs", type=int, default=5, help="of each size; the fastest counts (default 5)")
    parser.add_argument("--results", type=Path, help="where to write scaling.json; by default it is published")
    options = parser.parse_args()
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="run-", dir=CACHE) as home:
        sizes = [generate(Path(home) / f"{TOPIC}-{number}") for number in range(max(GIGABYTES))]
        CleanShutdownFile(LOCAL, Path(home)).write(0)
        points = [point for cores in CORES for point in measured(Path(home), sizes, cores, options.runs)]
    result = {"row": "scaling", "machine": report.machine(), "points": points}
    report.write_row("scaling", result, options.results or report.RESULTS)
    if options.results is None:
        text = report.README.read_text()
        report.README.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: published(), text, flags=re.DOTALL))
    print(table(result))


def published() -> str:
    """Return the published part of README.md: the table of the published result, if there is one."""
    file = report.RESULTS / "scaling.json"
    lines = [table(json.loads(file.read_text()))] if file.exists() else []
    return "\n".join([BEGIN, *lines, END])


def generate(partition: Path) -> int:
    """Write a gigabyte of log to the disk, and return its size in bytes."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES)
    partition.mkdir()
    request = OpenRequest(fs=LOCAL, directory=partition, clock=SystemClock(), config=config, clean_shutdown=True)
    log = PartitionLog.open(request)
    records = [
        Record(number, TIME_MS, TimestampType.CREATE, b"%08d" % number, b"%0*d" % (VALUE_BYTES, number), ())
        for number in range(RECORDS_A_BATCH)
    ]
    batches = bytes(build_batch(records, base_offset=0)) * BATCHES_A_CALL
    size = 0
    while size < 10**9:
        log.append(bytearray(batches))
        size += len(batches)
    log.close()
    return size


def measured(log_dir: Path, sizes: Sequence[int], cores: int, runs: int) -> list[dict[str, Any]]:
    """Measure each amount of data, and return a point with its size and the seconds of every run."""
    with session(cores=cores) as spark:
        ask(spark, log_dir, 1)  # warm up
        seconds: dict[int, list[float]] = {gigabytes: [] for gigabytes in GIGABYTES}
        for _ in range(runs):
            for gigabytes, times in seconds.items():
                times.append(round(ask(spark, log_dir, gigabytes), 6))
    return [
        {"cores": cores, "gigabytes": gigabytes, "bytes": sum(sizes[:gigabytes]), "seconds": times}
        for gigabytes, times in seconds.items()
    ]


def ask(spark: Worker, log_dir: Path, gigabytes: int) -> float:
    assigned = json.dumps({TOPIC: list(range(gigabytes))}, separators=(",", ":"))
    done = spark.do("tidelog", f"logDirs={log_dir}", f"assign={assigned}")
    assert done.bytes == done.records * VALUE_BYTES
    return done.seconds


def table(result: dict[str, Any]) -> str:
    """Return a table with a line for each amount of data and number of cores. It compares the cost of a byte."""
    lines = ["| data | cores | fastest run | speed | a byte costs |", "|---|---|---|---|---|"]
    for point in result["points"]:
        fastest = min(point["seconds"])
        speed = point["bytes"] / 1e6 / fastest
        lines.append(
            f"| {point['gigabytes']} GB | {point['cores']} | {fastest:.2f} s | {speed:,.0f} MB/s "
            f"| {cost_of_a_byte(result, point):.2f}× |"
        )
    return "\n".join(lines)


def cost_of_a_byte(result: dict[str, Any], point: dict[str, Any]) -> float:
    """Return the cost of a byte as a multiple of the cost with the smallest data on as many cores."""

    def of(one: dict[str, Any]) -> float:
        return float(min(one["seconds"]) / one["bytes"])

    smallest = min(
        (one for one in result["points"] if one["cores"] == point["cores"]), key=lambda one: int(one["bytes"])
    )
    return of(point) / of(smallest)


if __name__ == "__main__":
    main()
