"""A program that keeps many logs in one process with few open files, and prints its open files at each step.

``python -m storage.manager.many_logs DIRECTORY LOGS FILES`` makes LOGS partitions of three segments in the directory
and limits itself to FILES open files. It loads all logs, reads from every segment and appends to every log. It prints a
JSON object per step.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import sys
from pathlib import Path

from log_maker import BASE_TIME, plain
from tidelog.model import StorageError, TopicPartition
from tidelog.storage.checkpoint import CleanShutdownFile
from tidelog.storage.fs import LOCAL, raise_open_file_limit
from tidelog.storage.log.partition_log import LogReadRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.log_manager import LogManager

CONFIG = LogConfig(segment_bytes=1024, index_interval_bytes=0)
BATCHES_A_SEGMENT = 3


def make(directory: Path, logs: int) -> None:
    """Make the first log with a manager, and copy it for the others."""
    manager = LogManager(LOCAL, [directory], default_config=CONFIG)
    manager.startup()
    log = manager.get_or_create(TopicPartition("t", 0))
    for segment in range(3):
        if segment:
            log.roll()
        append(log, BATCHES_A_SEGMENT)
    manager.shutdown()
    for number in range(1, logs):
        shutil.copytree(directory / "t-0", directory / f"t-{number}")
    CleanShutdownFile(LOCAL, directory).write(0)


def append(log: PartitionLog, batches: int) -> None:
    for _ in range(batches):
        log.append_as_leader(bytearray(plain(0, 10, timestamp=BASE_TIME)), leader_epoch=0)


def read(log: PartitionLog) -> int:
    """Read one batch of each segment with the help of its index, and return the bytes read."""
    return sum(
        len(log.read(LogReadRequest(start_offset=base + 25, max_bytes=1, min_one_message=True)).data())
        for base in log.base_offsets
    )


def tell(step: str, **found: object) -> None:
    files = len(os.listdir("/proc/self/fd")) - 1
    with open("/proc/self/maps") as maps:
        mappings = sum(sys.argv[1] in line for line in maps)
    print(json.dumps({"step": step, "files": files, "mappings": mappings} | found), flush=True)


def main() -> None:
    directory, logs, files = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    make(directory, logs)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    hard = files if hard == resource.RLIM_INFINITY else min(files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))
    tell("began", allowed=raise_open_file_limit())
    manager = LogManager(LOCAL, [directory], default_config=CONFIG)
    manager.startup()
    opened = manager.all_logs()
    tell("loaded", logs=len(opened))
    tell("read", bytes=sum(map(read, opened)))
    appended = 0
    try:
        for log in opened:
            append(log, 1)
            appended += 1
    except StorageError as error:
        for log in opened[:3]:  # frees descriptors, so that the rest can be counted
            log.close_handlers()
        tell("appended", logs=appended, problem=error.message)
    else:
        tell("appended", logs=appended, problem=None)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
