"""``make bench-steps``: the time of each step in the rows below their target, without a peer.

Each step is timed alone over the same batches. The fastest of several rounds counts, because other work on the machine
only adds time. A step may profit from the step before it (caches, allocations), so the sum differs from the whole. The
command prints the table that is in README.md.
"""

from __future__ import annotations

import argparse
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.append import sent_batches
from benchmarks.bench import Bench
from benchmarks.datasets import CACHE, HUNDRED, SINGLE
from benchmarks.report import README
from tidelog import open_log
from tidelog.kernel import scan_batches, validate_batches
from tidelog.runtime import SystemClock
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.load.open_request import OpenRequest
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig

BEGIN, END = "<!-- steps: begin -->", "<!-- steps: end -->"
ROUNDS = 7
BATCHES = 2000
CHUNK_BYTES = 8 * 1024 * 1024

Step = tuple[str, Callable[[], None]]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.steps", description="Where the time goes.")
    parser.add_argument("--scale", type=float, default=1.0, help="how much data; only the figures of 1 are published")
    scale = parser.parse_args().scale
    CACHE.mkdir(parents=True, exist_ok=True)
    with Bench(scale=scale) as bench, tempfile.TemporaryDirectory(dir=CACHE) as home:
        lines = ["| step | time |", "|---|---|"]
        for data_set, batch in ((HUNDRED, "100 × 100 B records"), (SINGLE, "1 record of 100 B")):
            batches = sent_batches(bench.data.directory(data_set) / "bench-0", producer_id=-1)[:BATCHES]
            for name, seconds in _measured(_append_steps(batches, Path(home) / f"{len(batches[0])}-0")):
                lines.append(f"| append, {batch}: {name} | {seconds / len(batches) * 1e6:.1f} µs a batch |")
        partition = bench.data.directory(HUNDRED) / "bench-0"
        size = sum(path.stat().st_size for path in partition.glob("*.log"))
        for name, seconds in _measured(_read_steps(partition)):
            lines.append(f"| read, 100 × 100 B records a batch: {name} | {seconds / size * 1e9:.2f} ns a byte |")
    table = "\n".join(lines)
    if scale == 1:
        text = README.read_text()
        README.write_text(re.sub(f"{BEGIN}.*{END}", lambda _: f"{BEGIN}\n{table}\n{END}", text, flags=re.DOTALL))
    print(table)


def _measured(steps: Iterator[Step]) -> Iterator[tuple[str, float]]:
    for name, step in steps:
        times = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            step()
            times.append(time.perf_counter() - begun)
        yield name, min(times)


def _append_steps(batches: list[bytearray], directory: Path) -> Iterator[Step]:
    clock = SystemClock()
    request = OpenRequest(fs=LOCAL, directory=directory, clock=clock, config=LogConfig(), clean_shutdown=True)
    log = PartitionLog.open(request)
    rules, now_ms, first_offset = AppendRules.of(request.config), clock.now_ms(), bytes(8)

    def write() -> None:
        with LOCAL.open(directory / "raw", write=True, create=True) as file:
            position = file.size
            for batch in batches:
                position += os.pwrite(file.fileno(), batch, position)

    def check() -> None:
        for batch in batches:
            validate_batches(batch, rules.of_clients, 0, -1, now_ms)

    def whole() -> None:
        for batch in batches:
            batch[:8] = first_offset  # base offset 0, as a producer sends it
            log.append_as_leader(batch, leader_epoch=0)

    yield "the write alone (`pwrite`, into new pages)", write
    yield "records and CRC checked (kernel)", check
    yield "all of it (`append_as_leader`)", whole
    log.close()


def _read_steps(partition: Path) -> Iterator[Step]:
    paths = sorted(partition.glob("*.log"))
    buffer = bytearray(CHUNK_BYTES)
    whole = [path.read_bytes() for path in paths]

    def read() -> None:
        for path in paths:
            with LOCAL.open(path) as file:
                position = 0
                while count := file.pread_into(buffer, position):
                    position += count

    def walk(*, verify_crc: bool) -> None:
        for data in whole:
            scan_batches(data, verify_crc=verify_crc)

    def decode() -> None:
        with open_log(partition, read_only=True) as log:
            for batch in log.to_arrow():
                del batch

    yield "`pread` into one buffer", read
    yield "batch headers (`scan_batches` without CRC, in memory)", lambda: walk(verify_crc=False)
    yield "batch headers and CRC (`scan_batches`, in memory)", lambda: walk(verify_crc=True)
    yield "all of it to Arrow, reading ahead on a second core", decode


if __name__ == "__main__":
    main()
