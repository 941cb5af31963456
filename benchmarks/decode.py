"""Row decode: every record of a partition, with CRC checks.

Kafka's side iterates over the records of each batch and copies keys and values, as its consumer does. Ours makes Arrow
record batches with keys, values, headers and timestamps. Both use one thread.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.datasets import HUNDRED, THOUSAND
from benchmarks.measure import Case
from tidelog import open_log


def cases(bench: Bench) -> Iterator[Case]:
    worker = bench.ours
    for data_set, name, target in ((HUNDRED, "100 B records to Arrow", 3.0), (THOUSAND, "1 KB records to Arrow", 2.2)):
        partition = bench.data.directory(data_set) / "bench-0"
        yield Case(
            name=name,
            peer=lambda partition=partition: bench.java.do("decode", partition),
            ours=lambda partition=partition: worker.do("decode", partition),
            target=target,
        )


def run(partition: str) -> tuple[int, int]:
    records = 0
    with open_log(partition, read_only=True) as log:
        for batch in log.to_arrow():
            records += batch.num_rows
            del batch  # the next batch reuses its memory
    size = sum(path.stat().st_size for path in log.path.glob("*.log"))
    return size, records
