"""Row load: the start of a broker with 2,000 small partitions, until all are loaded.

Both sides are log managers, Kafka's and ours, with two threads a directory, Kafka's default. The directory with a clean
shutdown is shut down cleanly again after each run. Every run on the killed directory gets a copy as the kill left it:
index files are preallocated, and each partition's last segment is not flushed and must be recovered. The copies of
earlier runs stay, because ext4 creates files slowly for some time after many were removed. Work after the loading is
not timed, and neither side has synced the recovered data by then. The first run compares the files.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.datasets import KILLED, LOGS_OF_HUNDREDS, LOGS_OF_SINGLES, STOPPED, linked_copy
from benchmarks.measure import Case
from benchmarks.recover import compare
from benchmarks.worker import Done, Worker
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.log_manager import LogManager
from tidelog.storage.manager.manager_settings import ManagerSettings

THREADS = 2
STOP, DROP = "stop", "drop"
NO_BYTES = 0
"""Most bytes are not read, so only the time counts."""

_manager: LogManager | None = None


def cases(bench: Bench) -> Iterator[Case]:
    for data_set, left, name, target in (
        (LOGS_OF_HUNDREDS, STOPPED, "clean shutdown", 3.0),
        (LOGS_OF_HUNDREDS, KILLED, "killed, 100 records a batch", 3.0),
        (LOGS_OF_SINGLES, KILLED, "killed, 1 record a batch", 3.0),
    ):
        source, directory = bench.data.many_logs(data_set) / left, bench.directory()
        theirs, ours = directory / "kafka", directory / "tidelog"
        yield Case(
            name=f"2,000 partitions, {name}",
            peer=lambda source=source, copy=theirs: load(bench.java, source, copy),
            ours=lambda source=source, copy=ours: load(bench.ours, source, copy),
            target=target,
            check=lambda ours=ours, theirs=theirs: compare(ours, theirs),
        )


def load(side: Worker, source: Path, copy: Path) -> Done:
    if source.name == KILLED and copy.exists():
        copy.rename(copy.with_name(f"{copy.name}-{time.monotonic_ns()}"))
    if not copy.exists():
        linked_copy(source, copy)
    return side.do("load", copy, THREADS, DROP if source.name == KILLED else STOP)


def run(directory: str, threads: str, _afterwards: str) -> tuple[int, int]:
    global _manager
    _manager = LogManager(
        LOCAL,
        [Path(directory)],
        settings=ManagerSettings(recovery_threads=int(threads)),
        default_config=LogConfig(message_timestamp_after_max_ms=2**63 - 1),
    )
    _manager.startup()
    return NO_BYTES, sum(log.end_offset for log in _manager.all_logs())


def finish(_directory: str, _threads: str, afterwards: str) -> None:
    global _manager
    assert _manager is not None
    if afterwards == STOP:
        _manager.shutdown()
    else:
        for directory in _manager.online:
            for log in directory.logs.values():
                log.close_handlers()
            directory.release()
    _manager = None
    gc.collect()  # a starting process has no garbage of an earlier start
