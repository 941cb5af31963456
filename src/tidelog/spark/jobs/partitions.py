"""Many log directories as pieces of work for tasks: partitions of one directory, together about a task's worth.

Called by: jobs that read every partition by itself (``audit``, ``count``), on the driver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import FileMissingError, TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.partitions import live_partitions, require_log_directory

TASK_BYTES = 128 * 1024 * 1024
"""A task's worth: seconds of reading, against the milliseconds that a task costs. A partition is never parted."""
PARTITION_BYTES = 64 * 1024
"""What opening a partition counts for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsWork:
    path: Path
    partitions: tuple[TopicPartition, ...]
    log_bytes: int
    """Of ``.log`` files, as the progress counts them."""


def require_directories(directories: str | Path | Iterable[str | Path]) -> list[Path]:
    """DirectoryError or FileMissingError for a path that is no log directory."""
    given = [directories] if isinstance(directories, str | Path) else list(directories)
    paths = [Path(path) for path in given]
    for path in paths:
        require_log_directory(LOCAL, path)
    return paths


def works_of(paths: Iterable[Path], topics: Collection[str] | None = None) -> list[PartitionsWork]:
    """All partitions, or those of ``topics``; the largest work first, so that no long one begins last."""
    works: list[PartitionsWork] = []
    for path in paths:
        pending: list[TopicPartition] = []
        pending_bytes = 0
        for partition in live_partitions(LOCAL, path):
            if topics is not None and partition.topic not in topics:
                continue
            size = _log_bytes(path / partition.directory_name)
            cost = PARTITION_BYTES * (len(pending) + 1) + pending_bytes + size
            if pending and cost > TASK_BYTES:
                works.append(PartitionsWork(path=path, partitions=tuple(pending), log_bytes=pending_bytes))
                pending, pending_bytes = [], 0
            pending.append(partition)
            pending_bytes += size
        if pending:
            works.append(PartitionsWork(path=path, partitions=tuple(pending), log_bytes=pending_bytes))
    return sorted(works, key=lambda work: -work.log_bytes)


def _log_bytes(directory: Path) -> int:
    try:
        sizes = LOCAL.list_sizes(directory)
    except FileMissingError:
        return 0  # deleted since it was listed; its task says so
    return sum(max(0, size) for name, size in sizes.items() if name.endswith(".log"))
