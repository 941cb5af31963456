"""Row recover: recovery of logs after a kill without any flush, up to a clean shutdown.

Kafka's side loads each partition with its own ``UnifiedLog`` (every segment is recovered), flushes and closes it. Ours
is ``recover`` on the log directory, which also syncs files and writes the checkpoints. The first run compares the
files. Both use one thread. Then ours has all cores, against the two threads a directory that are Kafka's default.
"""

from __future__ import annotations

import filecmp
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.datasets import HUNDRED, MANY, SINGLE, linked_copy
from benchmarks.measure import Case, MismatchError
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.recovery.directory_recovery import recover_directory
from tidelog.storage.manager.recovery.recover_plan import RecoverOptions

KAFKA_DEFAULT_THREADS = 2
LARGEST_MESSAGE_BYTES = 16 * 1024 * 1024


def cases(bench: Bench) -> Iterator[Case]:
    worker = bench.ours
    for data_set, name, threads, peer_threads, target in (
        (HUNDRED, "100 records a batch, one thread", 1, 1, 2.4),
        (SINGLE, "1 record a batch, one thread", 1, 1, 15.0),
        (MANY, "100 records a batch, 4 partitions, all cores", 0, KAFKA_DEFAULT_THREADS, 1.9),
    ):
        theirs_directory, our_directory = (
            linked_copy(bench.data.directory(data_set), bench.directory() / side) for side in ("kafka", "tidelog")
        )
        peer = ("recover", theirs_directory, peer_threads, data_set.segment_bytes)
        ours = ("recover", our_directory, threads, data_set.segment_bytes)
        yield Case(
            name=name,
            peer=lambda words=peer: bench.java.do(*words),
            ours=lambda words=ours: worker.do(*words),
            target=target,
            check=lambda theirs=theirs_directory, ours=our_directory: compare(ours, theirs),
        )


def compare(ours: Path, theirs: Path) -> None:
    """Check that both sides made the same files, except leader epochs, which Kafka writes some time later."""
    files = sorted(
        path.relative_to(ours) for path in ours.glob("*/*") if path.suffix in (".index", ".timeindex", ".snapshot")
    )
    same, different, missing = filecmp.cmpfiles(ours, theirs, map(str, files), shallow=False)
    if different or missing or not same:
        raise MismatchError(f"recovered differently: {different + missing}")


def prepare(directory: str, _threads: str, _segment_bytes: str) -> None:
    """Remove the clean shutdown file and the checkpoints, as after a kill without any flush."""
    for path in Path(directory).iterdir():
        if path.is_file():
            path.unlink()


def run(directory: str, threads: str, segment_bytes: str) -> tuple[int, int]:
    options = RecoverOptions(
        now_ms=time.time_ns() // 1_000_000,
        config=LogConfig(segment_bytes=int(segment_bytes), max_message_bytes=LARGEST_MESSAGE_BYTES),
        threads=int(threads) or None,
    )
    result = recover_directory(LOCAL, Path(directory), options)
    assert not result.failures
    assert all(partition.recovered_segments == partition.segments for partition in result.partitions)
    size = sum(path.stat().st_size for path in Path(directory).glob("*/*.log"))
    return size, sum(partition.end_offset for partition in result.partitions)
