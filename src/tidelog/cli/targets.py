"""The log directories and partitions that a command works on, from arguments and ``--topic``.

An argument is a path or a name, and the first is always a path. A later argument is a name if it has no slash and
either matches a topic or partition of the directories before it, or is no path. A path may be a glob. It may also be a
partition's directory, which selects only that partition of its log directory. An unreadable path is reported on stderr
and sets exit code 3, while the other paths are still read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import glob
from pathlib import Path
from typing import TypeVar, cast

import click

from tidelog.cli.options import expand
from tidelog.cli.progress import CancellableAdvance
from tidelog.cli.report import UNREADABLE, ExitCode
from tidelog.inspect.printable import escaped
from tidelog.model import DirectoryError, TidelogError, TopicPartition
from tidelog.runtime.parallel import run_parallel
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT
from tidelog.storage.fs import BY_PATH, require_disk
from tidelog.storage.log.load.listing import sort_names
from tidelog.storage.log.view.partitions import live_partitions, require_log_directory
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName

T = TypeVar("T")

_AT_ONCE = 8
_PARTITION_FILES = frozenset({LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A log directory and its selected partitions; ``only`` is None for all of them."""

    path: Path
    only: frozenset[TopicPartition] | None = None

    def partitions(self) -> list[TopicPartition]:
        """Return the selected partitions in the order of their directory names."""
        return [part for part in live_partitions(BY_PATH, self.path) if self.only is None or part in self.only]

    def log_bytes(self) -> int:
        """Return the bytes of all ``.log`` files, which a complete read reads."""
        total = 0
        for partition in self.partitions():
            directory = self.path / partition.directory_name
            total += sum(BY_PATH.stat(directory / n).size for n in BY_PATH.list_names(directory) if n.endswith(".log"))
        return total


def select(arguments: Sequence[str], topics: Collection[str], exit_code: ExitCode) -> list[Target]:
    """Return at least one target. Raise UsageError for a name without a match. Exit with 3 if no path can be read."""
    return select_among(arguments, topics, exit_code)[0]


def select_on_disk(arguments: Sequence[str], topics: Collection[str], exit_code: ExitCode) -> list[Target]:
    """Return the targets of ``select`` for a command that changes them. Raise ReadOnlyError for object storage."""
    targets = select(arguments, topics, exit_code)
    require_disk(target.path for target in targets)
    return targets


def select_among(
    arguments: Sequence[str], topics: Collection[str], exit_code: ExitCode
) -> tuple[list[Target], list[Path]]:
    """Return the targets of ``select`` and all given log directories, also those in which no name matches."""
    targets: dict[Path, Target] = {}
    names: list[str] = list(topics)
    for number, argument in enumerate(arguments):
        if number > 0 and _is_name(argument, targets.values()):
            names.append(argument)
            continue
        for path in expand([argument]):
            try:
                _add(targets, _target(path))
            except TidelogError as error:
                click.echo(f"Error: {escaped(str(error))}", err=True)
                exit_code.at_least(UNREADABLE)
    if not targets:
        raise click.exceptions.Exit(UNREADABLE)
    return _narrowed(list(targets.values()), names), [target.path for target in targets.values()]


def each_target(
    targets: Sequence[Target],
    function: Callable[[Target], T],
    exit_code: ExitCode,
    advance: CancellableAdvance | None = None,
) -> list[tuple[Target, T]]:
    """Return the results in the order of ``targets``, of which several run in parallel.

    Print the error of an unreadable directory to stderr (exit code 3). An interrupt also stops the functions that
    report to ``advance``.
    """

    def call(target: Target) -> tuple[T | None, TidelogError | None]:
        try:
            return function(target), None
        except TidelogError as error:
            return None, error

    # At an interrupt the run would otherwise read everything before it ends.
    stop = (lambda: None) if advance is None else advance.cancel
    outcomes = run_parallel(call, targets, name="directory", threads=min(len(targets), _AT_ONCE), stop=stop)
    results: list[tuple[Target, T]] = []
    for target, (result, error) in zip(targets, outcomes, strict=True):
        if error is None:
            results.append((target, cast(T, result)))
        else:
            click.echo(f"Error: {escaped(str(error))}", err=True)
            exit_code.at_least(UNREADABLE)
    return results


def name_matches(name: str, partition: TopicPartition) -> bool:
    """Return True if ``name`` is the topic or the partition, or a pattern that matches either."""
    return fnmatchcase(partition.topic, name) or fnmatchcase(partition.directory_name, name)


def _is_name(argument: str, targets: Iterable[Target]) -> bool:
    if "/" in argument:
        return False
    whole = [target for target in targets if target.only is None]
    if any(name_matches(argument, part) for target in whole for part in target.partitions()):
        return True
    return not Path(argument).exists() and not glob(argument)


def _target(path: Path) -> Target:
    """Raise DirectoryError, FileMissingError or StorageError if ``path`` is neither a log directory nor a partition."""
    try:
        require_log_directory(BY_PATH, path)
        return Target(path=path)
    except DirectoryError:
        partition = _as_partition(path)
        if partition is None:
            raise
        parent = path.parent if path.name and path.name != ".." else path.resolve().parent
        return Target(path=parent, only=frozenset({partition}))


def _as_partition(path: Path) -> TopicPartition | None:
    if not BY_PATH.stat(path).is_dir:
        return None
    names = BY_PATH.list_names(path)
    try:
        parsed = PartitionDirectoryName.parse(path.resolve().name)
    except DirectoryError:
        return None
    if parsed.purpose is not DirectoryPurpose.LIVE:
        return None
    is_partition = not names or _PARTITION_FILES & set(names) or sort_names(names).segments
    return parsed.topic_partition if is_partition else None


def _add(targets: dict[Path, Target], new: Target) -> None:
    key = new.path.resolve()
    before = targets.get(key)
    if before is None:
        targets[key] = new
    elif before.only is not None:
        targets[key] = replace(before, only=None if new.only is None else before.only | new.only)


def _narrowed(targets: Sequence[Target], names: Sequence[str]) -> list[Target]:
    """Restrict whole directories to the partitions that a name matches, and leave out directories without a match."""
    if not names:
        return list(targets)
    unmatched = dict.fromkeys(names)
    narrowed = []
    for target in targets:
        only = set()
        for partition in target.partitions():
            matching = [name for name in names if name_matches(name, partition)]
            if matching:
                only.add(partition)
            for name in matching:
                unmatched.pop(name, None)
        if only:
            narrowed.append(Target(path=target.path, only=frozenset(only)))
    if unmatched:
        where = ", ".join(str(target.path) for target in targets)
        raise click.UsageError(f"No topic or partition {', '.join(map(repr, unmatched))} in {where}.")
    return narrowed
