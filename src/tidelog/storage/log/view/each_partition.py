"""A function run for every partition of a log directory, in several threads. Reads only.

Thread rule: the calls run in parallel, each with its own view; progress is reported one call at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tidelog.model import TopicPartition
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem, usable_processors
from tidelog.storage.log.view.directory_state import DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import live_partitions

Advance = Callable[[int], None]
"""Called with the number of bytes read since the last call."""

T = TypeVar("T")


def each_partition(
    fs: FileSystem,
    path: Path,
    work: Callable[[LogView, TopicPartition, Advance], T],
    *,
    only: Iterable[TopicPartition] | None = None,
    topic: str | None = None,
    state: DirectoryState | None = None,
    threads: int | None = None,
    advance: Advance = lambda _bytes: None,
) -> list[T]:
    """Run ``work`` and return its results in partition order, for all partitions, or those in ``only`` or of ``topic``.

    ``state`` is the directory's, if it was read already. Raise DirectoryError if the partitions cannot be listed, or
    the error of ``work``.
    """
    fs = ReadOnlyFileSystem(fs)
    known = read_directory_state(fs, path) if state is None else state
    wanted = None if only is None else frozenset(only)
    partitions = [
        part
        for part in live_partitions(fs, path)
        if (wanted is None or part in wanted) and (topic is None or part.topic == topic)
    ]
    lock = threading.Lock()

    def tell(count: int) -> None:
        with lock:
            advance(count)

    def run(partition: TopicPartition) -> T:
        return work(LogView(fs, path / partition.directory_name, directory_state=known), partition, tell)

    with ThreadPoolExecutor(threads or usable_processors(), thread_name_prefix="partition") as pool:
        return list(pool.map(run, partitions))
