"""Many log directories as pieces of work for tasks: partitions of one directory, together about a task's worth.

Called by: jobs that read every partition by itself (``audit``, ``count``), on the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tidelog.model import FileMissingError, TopicPartition
from tidelog.spark.read.whole_partition import PARTITION_BYTES
from tidelog.storage.fs import BY_PATH, path_of
from tidelog.storage.log.view.partitions import live_partitions, require_log_directory

T = TypeVar("T")

TASK_BYTES = 128 * 1024 * 1024
"""A task's worth: seconds of reading, against the milliseconds that a task costs. A partition is never parted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsWork:
    path: Path
    partitions: tuple[TopicPartition, ...]
    log_bytes: int
    """Of ``.log`` files, as the progress counts them."""


def require_directories(directories: str | Path | Iterable[str | Path]) -> list[Path]:
    """DirectoryError or FileMissingError for a path that is no log directory."""
    given = [directories] if isinstance(directories, str | Path) else list(directories)
    paths = [path_of(path) for path in given]
    for path in paths:
        require_log_directory(BY_PATH, path)
    return paths


def works_of(paths: Iterable[Path], topics: Collection[str] | None = None) -> list[PartitionsWork]:
    """All partitions, or those of ``topics``; the largest work first, so that no long one begins last."""
    works = []
    for path in paths:
        partitions = [part for part in live_partitions(BY_PATH, path) if topics is None or part.topic in topics]
        sizes = {partition: _log_bytes(path / partition.directory_name) for partition in partitions}
        works += [
            PartitionsWork(path=path, partitions=together, log_bytes=sum(sizes[part] for part in together))
            for together in in_tasks(partitions, sizes.__getitem__)
        ]
    return sorted(works, key=lambda work: -work.log_bytes)


def in_tasks(partitions: Iterable[T], size: Callable[[T], int]) -> Iterator[tuple[T, ...]]:
    """Neighbours together as long as they are no more than a task's worth; ``size`` in bytes."""
    pending: list[T] = []
    cost = 0
    for partition in partitions:
        own = PARTITION_BYTES + size(partition)
        if pending and cost + own > TASK_BYTES:
            yield tuple(pending)
            pending, cost = [], 0
        pending.append(partition)
        cost += own
    if pending:
        yield tuple(pending)


def _log_bytes(directory: Path) -> int:
    try:
        sizes = BY_PATH.list_sizes(directory)
    except FileMissingError:
        return 0  # deleted since it was listed; its task says so
    return sum(max(0, size) for name, size in sizes.items() if name.endswith(".log"))
