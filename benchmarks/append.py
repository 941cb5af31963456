"""Row append: clients' batches from memory are appended to a new log, in the page cache and without fsync.

Kafka's side calls ``UnifiedLog.appendAsLeader`` with one batch at a time, as a broker does. Ours does the same with
``append_as_leader``. The bulk append takes many batches in one buffer. The first run compares the two logs.
"""

from __future__ import annotations

import filecmp
import shutil
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from benchmarks.bench import Bench
from benchmarks.datasets import HUNDRED, SINGLE, THOUSAND
from benchmarks.measure import Case, MismatchError
from tidelog.kernel import crc32c
from tidelog.runtime import SystemClock
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.segment.segment_reader import SegmentReader

SIDES = ("tidelog", "kafka")
NO_PRODUCER = -1
BULK_BATCHES = 1000

_PRODUCER = Struct(">qhi")
_PRODUCER_POSITION = 43
_CRC = Struct(">I")
_CRC_POSITION = 17
_OFFSET = Struct(">q")
_EPOCH = Struct(">i")
_EPOCH_POSITION = 12

_buffers: list[bytearray] = []
_log: PartitionLog | None = None


def cases(bench: Bench) -> Iterator[Case]:
    worker = bench.ours
    for data_set, name, producer_id, batches_a_call, target in (
        (HUNDRED, "100 × 100 B records a batch", NO_PRODUCER, 1, 1.3),
        (HUNDRED, "100 × 100 B records a batch, idempotent producer", 1, 1, 1.2),
        (THOUSAND, "100 × 1 KB records a batch", NO_PRODUCER, 1, 1.2),
        (SINGLE, "1 record of 100 B a batch, one by one", NO_PRODUCER, 1, 0.9),
        (SINGLE, f"1 record of 100 B a batch, bulk append of {BULK_BATCHES:,}", NO_PRODUCER, BULK_BATCHES, 5.0),
    ):
        source = bench.data.directory(data_set) / "bench-0"
        directory = bench.directory()
        words = {side: ("append", source, directory / side / "bench-0", producer_id, batches_a_call) for side in SIDES}
        yield Case(
            name=name,
            peer=lambda words=words["kafka"]: bench.java.do(*words),
            ours=lambda words=words["tidelog"]: worker.do(*words),
            target=target,
            check=lambda directory=directory: compare(*(directory / side / "bench-0" for side in SIDES)),
        )


def compare(ours: Path, theirs: Path) -> None:
    """Check that both sides made the same files, except leader epochs, which Kafka writes some time later."""
    files = sorted(path.name for path in ours.iterdir() if path.suffix in (".log", ".index", ".timeindex", ".snapshot"))
    same, different, missing = filecmp.cmpfiles(ours, theirs, files, shallow=False)
    if different or missing or not same:
        raise MismatchError(f"appended differently: {different + missing}")


def prepare(source: str, target: str, producer_id: str, batches_a_call: str) -> None:
    global _log
    shutil.rmtree(target, ignore_errors=True)
    Path(target).mkdir(parents=True)
    batches = sent_batches(Path(source), int(producer_id))
    count = int(batches_a_call)
    if count > 1:
        batches = [bytearray().join(batches[at : at + count]) for at in range(0, len(batches), count)]
    _buffers[:] = batches
    _log = PartitionLog.open(
        OpenRequest(fs=LOCAL, directory=Path(target), clock=SystemClock(), config=LogConfig(), clean_shutdown=True)
    )


def run(_source: str, _target: str, _producer_id: str, batches_a_call: str) -> tuple[int, int]:
    assert _log is not None
    size = sum(map(len, _buffers))
    if int(batches_a_call) > 1:
        append = _log.append
        for buffer in _buffers:
            append(buffer)
    else:
        append_as_leader = _log.append_as_leader
        for buffer in _buffers:
            append_as_leader(buffer, leader_epoch=0)
    return size, _log.end_offset


def finish(*_arguments: str) -> None:
    global _log
    assert _log is not None
    _buffers.clear()
    _log.close()
    _log = None


def sent_batches(directory: Path, producer_id: int) -> list[bytearray]:
    """Return a partition's batches as a producer sends them: base offset 0, no leader epoch."""
    batches = []
    for path in sorted(directory.glob("*.log")):
        with SegmentReader(LOCAL, directory, int(path.stem)) as reader:
            for buffer, table, _ in reader.chunks():
                view = memoryview(buffer)
                for row in range(len(table)):
                    start = int(table.position[row] - table.position[0])
                    batch = bytearray(view[start : start + int(table.size[row])])
                    _OFFSET.pack_into(batch, 0, 0)
                    _EPOCH.pack_into(batch, _EPOCH_POSITION, -1)
                    if producer_id >= 0:
                        _PRODUCER.pack_into(batch, _PRODUCER_POSITION, producer_id, 0, int(table.base_offset[row]))
                        _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[_CRC_POSITION + 4 :]))
                    batches.append(batch)
    return batches
