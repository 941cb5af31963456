"""Row scan: read every batch of a partition's segments and check its CRC.

Kafka's side iterates over ``FileRecords`` and calls ``ensureValid``. Ours reads chunks into batch tables. Both use one
thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.datasets import HUNDRED, SINGLE, THOUSAND
from benchmarks.measure import Case
from tidelog.storage.fs import LOCAL
from tidelog.storage.segment.segment_reader import SegmentReader


def cases(bench: Bench) -> Iterator[Case]:
    worker = bench.ours
    for data_set, name in (
        (HUNDRED, "100 B records, 100 a batch"),
        (THOUSAND, "1 KB records, 100 a batch"),
        (SINGLE, "100 B records, 1 a batch"),
    ):
        partition = bench.data.directory(data_set) / "bench-0"
        yield Case(
            name=name,
            peer=lambda partition=partition: bench.java.do("scan", partition),
            ours=lambda partition=partition: worker.do("scan", partition),
        )


def run(partition: str) -> tuple[int, int]:
    size = records = 0
    for path in sorted(Path(partition).glob("*.log")):
        with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
            for _, table, _ in reader.chunks():
                assert table.crc_ok.all()
                size += int(table.size.sum())
                records += int(table.record_count.sum())
    return size, records
