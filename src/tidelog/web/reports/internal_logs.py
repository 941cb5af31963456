"""The logs of internal topics in all given log directories, each partition once, and a signature of their files."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from tidelog.inspect.compare import ChosenReplicas, choose_replicas, replicated
from tidelog.model import FileMissingError, TopicPartition
from tidelog.server.metadata.kraft.newest_metadata import read_newest_metadata
from tidelog.storage.fs import BY_PATH
from tidelog.web.sources import LogDir, Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """``ages`` is True if a process holds a directory, because its files then change all the time."""

    value: Hashable
    ages: bool


def signature_of(sources: Sources, topics: Collection[str]) -> Signature:
    """Return a value that changes with the files of these topics. In a held directory only their names count."""
    parts: list[Hashable] = []
    ages = False
    for one in sources.log_dirs:
        is_held = one.is_held
        ages |= is_held
        for partition in one.partitions():
            if partition.topic in topics:
                name = partition.directory_name
                parts.append((one.key, name, None if is_held else _sizes(one, name)))
    return Signature(value=tuple(parts), ages=ages)


def _sizes(log_dir: LogDir, name: str) -> Hashable:
    try:
        return tuple(log_dir.fs.list_sizes(log_dir.path / name).items())
    except FileMissingError:
        return None


def partitions_of(sources: Sources, topics: Collection[str]) -> dict[str, frozenset[TopicPartition]]:
    """Return the partitions of these topics by the key of their log directory."""
    return {one.key: frozenset(part for part in one.partitions() if part.topic in topics) for one in sources.log_dirs}


def choose(sources: Sources, partitions: Mapping[str, Collection[TopicPartition]]) -> ChosenReplicas:
    """Choose a replica of each partition that several brokers have. ``partitions`` are by the directory's key."""
    if len(sources.log_dirs) < 2:
        return ChosenReplicas()
    directories = [
        replace(one.broker_directory(), partitions=frozenset(partitions.get(one.key, ()))) for one in sources.log_dirs
    ]
    if not replicated(directories):
        return ChosenReplicas()
    metadata = read_newest_metadata(one.path for one in sources.log_dirs)
    return ChosenReplicas(
        chosen=choose_replicas(BY_PATH, directories, metadata.placements),
        placements=metadata.placements,
        note=metadata.note,
        warnings=metadata.warnings,
    )


def log_bytes(log_dir: LogDir, partitions: Iterable[TopicPartition]) -> int:
    """Return the bytes of the ``.log`` files of these partitions."""
    total = 0
    for partition in partitions:
        try:
            sizes = log_dir.fs.list_sizes(log_dir.path / partition.directory_name)
        except FileMissingError:
            continue
        total += sum(size for name, size in sizes.items() if name.endswith(".log") and size > 0)
    return total
