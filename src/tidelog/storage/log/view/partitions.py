"""The partitions of a log directory, from the names in it, and a function run for each of them. Reads only.

Directories that are being added or removed (``-delete``, ``-future``, ``-stray``) and other names are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tidelog.model import DirectoryError, TopicPartition
from tidelog.runtime.parallel import run_parallel
from tidelog.runtime.progress import Advance, one_at_a_time
from tidelog.storage.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT,
)
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.directory_state import DirectoryState, read_directory_state
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName

if TYPE_CHECKING:
    from tidelog.storage.log.view.log_view import LogView

REMOTE_INDEX_CACHE = "remote-log-index-cache"
"""A directory of tiered storage next to the partitions."""

_MARKS = frozenset({META_PROPERTIES_FILE, RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT})
T = TypeVar("T")


def live_partitions(fs: FileSystem, log_dir: Path) -> Iterator[TopicPartition]:
    """Yield live partitions in name order. Raise FileMissingError or DirectoryError if ``log_dir`` cannot be listed."""
    for name in fs.list_directories(log_dir):
        try:
            parsed = PartitionDirectoryName.parse(name)
        except DirectoryError:
            continue
        if parsed.purpose is DirectoryPurpose.LIVE:
            yield parsed.topic_partition


def require_log_directory(fs: FileSystem, path: Path) -> None:
    """Raise DirectoryError unless ``path`` holds a partition, or one of the files that every log directory has."""
    names = set(fs.list_names(path))
    if names & _MARKS or any(True for _ in live_partitions(fs, path)):
        return
    raise DirectoryError(
        "not a Kafka log directory: it holds neither a TOPIC-PARTITION directory nor meta.properties nor checkpoints",
        path=path,
    )


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
    """Run ``work`` in several threads and return its results in partition order, for all partitions, or those in
    ``only`` or of ``topic``.

    ``state`` is the directory's, if it was read already. Raise DirectoryError if the partitions cannot be listed, or
    the error of ``work``.
    """
    from tidelog.storage.log.view.log_view import LogView  # large, and a starting broker does not need it

    fs = ReadOnlyFileSystem(fs)
    known = read_directory_state(fs, path) if state is None else state
    wanted = None if only is None else frozenset(only)
    partitions = [
        part
        for part in live_partitions(fs, path)
        if (wanted is None or part in wanted) and (topic is None or part.topic == topic)
    ]
    advance = one_at_a_time(advance)

    def run(partition: TopicPartition) -> T:
        return work(LogView(fs, path / partition.directory_name, directory_state=known), partition, advance)

    return run_parallel(run, partitions, name="partition", threads=threads)
