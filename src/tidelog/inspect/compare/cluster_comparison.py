"""The comparison of all partitions of a cluster, several partitions in parallel. Reading only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tidelog.inspect.compare.broker_directory import BrokerDirectory, open_replicas
from tidelog.inspect.compare.partition_comparison import ComparedPartition, PartitionReplicas, compare_partition
from tidelog.inspect.compare.placement import Placement
from tidelog.model import FileMissingError, OffsetOutOfRangeError, TopicPartition
from tidelog.model.internal_topics import COMPACTED_TOPICS
from tidelog.runtime.parallel import run_parallel
from tidelog.runtime.progress import Advance, one_at_a_time
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem

_RETRIES = 4


def compare_cluster(
    fs: FileSystem,
    directories: Sequence[BrokerDirectory],
    partitions: Iterable[TopicPartition],
    placements: Mapping[TopicPartition, Placement],
    *,
    threads: int | None = None,
    advance: Advance = lambda _bytes: None,
    stop: Callable[[], None] = lambda: None,
) -> list[ComparedPartition]:
    """Compare each partition's replicas, and return the results in the order of ``partitions``.

    A partition counts as compacted if the metadata has that policy, if a cleaner has cleaned a replica, or if its topic
    is always compacted. ``run_parallel`` calls ``stop``.
    """
    fs = ReadOnlyFileSystem(fs)
    advance = one_at_a_time(advance)

    def compare_once(partition: TopicPartition) -> ComparedPartition:
        placement = placements.get(partition)
        return compare_partition(
            PartitionReplicas(
                partition=partition,
                replicas=open_replicas(fs, directories, partition),
                directories=directories,
                placement=placement,
                is_compacted=partition.topic in COMPACTED_TOPICS
                or (placement is not None and placement.is_compacted)
                or any(partition in one.cleaned for one in directories),
            ),
            advance,
        )

    def compare(partition: TopicPartition) -> ComparedPartition:
        for _ in range(_RETRIES):
            try:
                return compare_once(partition)
            except (OffsetOutOfRangeError, FileMissingError):
                continue  # a running broker truncated the log or deleted records
        return compare_once(partition)

    return run_parallel(compare, partitions, name="partition", threads=threads, stop=stop)


def pair_bytes(fs: FileSystem, directories: Sequence[BrokerDirectory], partition: TopicPartition) -> int:
    """Return about the bytes that a comparison reads: the reference is read once for each other replica."""
    sizes = []
    for one in directories:
        if partition in one.partitions:
            path = one.path / partition.directory_name
            sizes.append(sum(fs.stat(path / name).size for name in fs.list_names(path) if name.endswith(".log")))
    return sum(sizes) + max(0, len(sizes) - 2) * max(sizes) if len(sizes) > 1 else 0
