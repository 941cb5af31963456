"""Kafka's own tools as functions: the dump and the consumer."""

from __future__ import annotations

import json
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterable

from real_kafka.java import DUMP_LOG_SEGMENTS, java_output, run_java

ConsumedRecord = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | str | None], ...]]
"""The offset, timestamp type (0 none, 1 create, 2 log append), timestamp, key, value and headers, as in a manifest."""


def kafka_dump_log(files: Iterable[str | os.PathLike[str]], *switches: str) -> str:
    """Return the output of `kafka-dump-log` for ``files``. It prints paths as they are given."""
    return _dump(files, switches).stdout


def kafka_dump_complaints(files: Iterable[str | os.PathLike[str]], *switches: str) -> str:
    """Return its stderr, which lists disagreements between indexes and logs."""
    return _dump(files, switches).stderr


def _dump(files: Iterable[str | os.PathLike[str]], switches: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    names = ",".join(os.fspath(file) for file in files)
    return java_output(DUMP_LOG_SEGMENTS, *switches, "--files", names, heap_mib=512)


def kafka_consume(
    bootstrap: str, partitions: Iterable[str], *, isolation: str = "read_uncommitted"
) -> dict[str, list[ConsumedRecord]]:
    """Read every record of each ``topic-partition`` from the beginning with Apache's Java consumer and CRC checks."""
    names = list(partitions)
    records: dict[str, list[ConsumedRecord]] = defaultdict(list, {name: [] for name in names})
    for line in run_java("Consume", bootstrap, isolation, *names, heap_mib=512).split("\n")[:-1]:
        name, _, text = line.partition("\t")
        offset, kind, timestamp, key, value, headers = json.loads(text)
        records[name].append(
            (offset, kind, timestamp, _bytes(key), _bytes(value), tuple((k, _bytes(v)) for k, v in headers))
        )
    return dict(records)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
