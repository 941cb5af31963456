"""The snapshot of a broker's log directories as of a time: a directory as after a clean shutdown.

=========  ============================================================================================================
step       work
=========  ============================================================================================================
begin      ``DEST.unfinished`` is created and locked, for each pair of directories (``UnfinishedDirectory``)
copy       the files of each partition are linked or copied (``partition_files``): first ``__consumer_offsets``, so that
           its commits are not above the ends of partitions that a broker extends meanwhile; then all others; then
           ``__transaction_state``, so that a transaction without its marker here is decided there; last the cluster
           metadata, so that it has every topic that was copied
finish     each log is recovered, its open transactions end, and it is closed (``partition_finish``)
end        ``meta.properties`` and the checkpoints are written, and last the clean shutdown marker, with broker epoch -1
           as after a recovery. Each directory is renamed to its final name
=========  ============================================================================================================

No byte, name or time of a source changes. It is read like any other live directory, without its lock. A crash before
the last step leaves ``DEST.unfinished``, which the next run removes; its links are names only. With several
directories, a crash between two renames leaves the earlier ones complete.

Thread rule: one run at a time for a target, enforced by the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import FileMissingError, TopicPartition
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC, GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC
from tidelog.runtime.parallel import run_parallel, usable_processors
from tidelog.runtime.progress import ProgressCounter, ProgressListener
from tidelog.storage.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES_FILE,
    QUORUM_STATE_FILE,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from tidelog.storage.fs import FileSystem, read_whole
from tidelog.storage.manager.directory.owned_directory import UNKNOWN_BROKER_EPOCH, OwnedDirectory
from tidelog.storage.manager.directory.unfinished_directory import UnfinishedDirectory
from tidelog.storage.manager.metadata.cluster_metadata_log import list_snapshots
from tidelog.storage.manager.partition_work import require_not_cancelled
from tidelog.storage.manager.snapshot.open_transactions import KnownId, OpenTransactionPolicy, by_producer
from tidelog.storage.manager.snapshot.partition_files import PartitionFiles, PartitionPlacement
from tidelog.storage.manager.snapshot.partition_finish import CopiedLog, SnapshotPartition
from tidelog.storage.manager.snapshot.snapshot_plan import (
    BOOTSTRAP_FILE,
    DirectoryPlanner,
    SnapshotOptions,
    SnapshotPaths,
    SnapshotPlan,
    plan_snapshot,
)

_ROOT_FILES = (META_PROPERTIES_FILE, BOOTSTRAP_FILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectorySnapshot:
    """A finished snapshot of one log directory, with its partitions sorted by name. Sizes are in bytes."""

    paths: SnapshotPaths
    partitions: tuple[SnapshotPartition, ...]

    @property
    def linked_bytes(self) -> int:
        return sum(one.copy.linked_bytes for one in self.partitions)

    @property
    def copied_bytes(self) -> int:
        return sum(one.copy.copied_bytes for one in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResult:
    plan: SnapshotPlan
    directories: tuple[DirectorySnapshot, ...]


def take_snapshot(
    fs: FileSystem,
    pairs: Sequence[SnapshotPaths],
    options: SnapshotOptions,
    *,
    on_progress: ProgressListener | None = None,
    cancelled: threading.Event | None = None,
) -> SnapshotResult:
    """Take the snapshots. All targets exist afterwards, or none of them after an error.

    Setting ``cancelled`` ends the run within about a chunk with CancelledError. Raise the errors of ``plan_snapshot``,
    the first error of a partition, and LockedError if another process creates the target.
    """
    plan = plan_snapshot(fs, pairs, options)
    for error in plan.errors:
        raise error
    stopped = cancelled or threading.Event()
    with ExitStack() as stack:
        directories = []
        for pair in pairs:
            unfinished = UnfinishedDirectory(fs, pair.target, source=pair.source)
            stack.push(unfinished)  # first: an interrupt may come as soon as the directory exists
            unfinished.create()
            owned = OwnedDirectory(fs, unfinished.path)
            stack.callback(owned.release)
            planner = DirectoryPlanner(fs, pair, plan.sources[pair.source], options)
            directories.append(_Directory(fs, planner, unfinished, owned))
        run = _SnapshotRun(fs, plan, directories, on_progress, stopped)
        try:
            results = run.run()
        finally:
            run.close()
        for directory in directories:
            directory.unfinished.finish()
    return SnapshotResult(plan=plan, directories=results)


@dataclass(frozen=True, slots=True, eq=False)
class _Directory:
    """A log directory of a run."""

    fs: FileSystem
    planner: DirectoryPlanner
    unfinished: UnfinishedDirectory
    owned: OwnedDirectory

    @property
    def source(self) -> Path:
        return self.planner.paths.source

    def write_small_files(self, partitions: Sequence[SnapshotPartition]) -> None:
        """Write the files of a clean shutdown, the marker last."""
        logs = {one.partition: one for one in partitions if one.partition.topic != CLUSTER_METADATA_TOPIC}
        for name in _ROOT_FILES:
            self._copy_if_there(name)
        owned, state, metadata = self.owned, self.planner.state, self.planner.sources.metadata
        owned.recovery_points = {key: log.log_end for key, log in logs.items()}
        owned.log_starts = {key: log.log_start for key, log in logs.items() if log.starts_inside_segment}
        known = state.high_watermarks
        owned.high_watermarks = {
            key: log.log_end
            if metadata.is_only_replica(key) or key not in known or known[key] >= log.copy.parts.end.offset
            else max(known[key], log.log_start)
            for key, log in logs.items()
        }
        owned.write(RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT, HIGH_WATERMARK_CHECKPOINT)
        cleaned = self.planner.cleaned_offsets()
        if cleaned:
            kept = {key: min(offset, logs[key].log_end) for key, offset in cleaned.items() if key in logs}
            OffsetCheckpoint.write(self.fs, owned.path / CLEANER_CHECKPOINT, kept)
        owned.mark_clean(UNKNOWN_BROKER_EPOCH)

    def _copy_if_there(self, name: str) -> None:
        try:
            data = read_whole(self.fs, self.source / name)
        except FileMissingError:
            return
        with self.fs.open(self.owned.path / name, create=True) as file:
            file.pwrite(data, 0)
            file.sync()


@dataclass(frozen=True, slots=True, eq=False)
class _Item:
    """A partition of a run."""

    directory: _Directory
    partition: TopicPartition


class _SnapshotRun:
    def __init__(
        self,
        fs: FileSystem,
        plan: SnapshotPlan,
        directories: Sequence[_Directory],
        on_progress: ProgressListener | None,
        stopped: threading.Event,
    ) -> None:
        self._fs = fs
        self._options = plan.options
        self._directories = directories
        self._threads = plan.options.threads or usable_processors()
        self._stopped = stopped
        self._progress = ProgressCounter(len(plan.partitions), plan.work_bytes, on_progress)
        self._idle = threading.Condition()
        self._active = 0
        """The number of threads that work on a partition. ``_idle`` guards it."""
        self._coordinators: dict[_Item, CopiedLog] = {}
        self._finished: dict[_Item, SnapshotPartition] = {}

    def run(self) -> tuple[DirectorySnapshot, ...]:
        copied = self._copy_all()
        coordinators = [item for item in copied if _is_transaction_topic(item.partition)]
        others = [item for item in copied if not _is_transaction_topic(item.partition)]
        self._each(lambda item: self._open_coordinator(item, copied[item]), coordinators)
        ids = {item: log.transactional_ids() for item, log in self._coordinators.items()}
        producers = by_producer(known for found in ids.values() for known in found.values())
        self._each(lambda item: self._finish(item, self._open(item, copied[item]), producers), others)
        for item, log in self._coordinators.items():
            if self._options.policy is OpenTransactionPolicy.ABORT:
                log.fence(ids[item])
            self._finish(item, log, {})
        return tuple(self._end(directory) for directory in self._directories)

    def close(self) -> None:
        """End all work, and close the logs that are still open after an error.

        An interrupt at the start of a thread hides that thread from its pool, which then does not wait for it.
        """
        self._stopped.set()
        with self._idle:
            self._idle.wait_for(lambda: not self._active)
        for log in self._coordinators.values():
            log.close()

    # --- copy ---

    def _copy_all(self) -> dict[_Item, PartitionFiles]:
        """Copy the partitions in the sequence of the module's table."""
        copied: dict[_Item, PartitionFiles] = {}
        done: set[tuple[_Directory, TopicPartition]] = set()

        def copy(item: _Item) -> None:
            copied[item] = self._copy(item)

        for wanted in (_is_group_topic, _is_data, _is_transaction_topic, _is_metadata):
            items = []
            for directory in self._directories:
                directory.planner.refresh()
                items += [
                    _Item(directory, partition) for partition in directory.planner.partitions() if wanted(partition)
                ]
            self._each(copy, [item for item in items if (item.directory, item.partition) not in done])
            done |= {(item.directory, item.partition) for item in items}
        return copied

    def _copy(self, item: _Item) -> PartitionFiles:
        planner, partition = item.directory.planner, item.partition
        view = planner.view(partition)
        placement = PartitionPlacement(
            self._fs,
            view,
            item.directory.owned.path / partition.directory_name,
            lambda: planner.plan(view, partition),
            self._tell,
        )
        return placement.make(self._metadata_files) if _is_metadata(partition) else placement.make()

    def _metadata_files(self, directory: Path) -> list[str]:
        names = [one.file_name for one in list_snapshots(self._fs, directory)]
        return [*names, QUORUM_STATE_FILE]

    # --- finish ---

    def _open(self, item: _Item, copied: PartitionFiles) -> CopiedLog:
        config = item.directory.planner.sources.of_topic(item.partition.topic).config
        return CopiedLog(self._fs, copied, config, moment_ms=self._options.marker_ms)

    def _open_coordinator(self, item: _Item, copied: PartitionFiles) -> None:
        self._coordinators[item] = self._open(item, copied)

    def _finish(self, item: _Item, log: CopiedLog, producers: dict[int, KnownId]) -> None:
        policy = OpenTransactionPolicy.KEEP if _is_metadata(item.partition) else self._options.policy
        try:
            self._finished[item] = log.finish(producers, policy)
        finally:
            log.close()
        self._progress.add(0, logs=1)

    def _end(self, directory: _Directory) -> DirectorySnapshot:
        partitions = sorted(
            (one for item, one in self._finished.items() if item.directory is directory),
            key=lambda one: one.partition.directory_name,
        )
        directory.write_small_files(partitions)
        return DirectorySnapshot(paths=directory.planner.paths, partitions=tuple(partitions))

    def _each(self, work: Callable[[_Item], None], items: Iterable[_Item]) -> None:
        def run(item: _Item) -> None:
            with self._idle:
                self._active += 1
            try:
                self._check()
                work(item)
            finally:
                with self._idle:
                    self._active -= 1
                    self._idle.notify_all()

        run_parallel(run, items, name="snapshot", threads=self._threads, stop=self._stopped.set)

    def _tell(self, count: int) -> None:
        self._check()
        self._progress.add(count)

    def _check(self) -> None:
        require_not_cancelled(self._stopped, self._directories[0].owned.path)


def _is_metadata(partition: TopicPartition) -> bool:
    return partition.topic == CLUSTER_METADATA_TOPIC


def _is_group_topic(partition: TopicPartition) -> bool:
    return partition.topic == GROUP_METADATA_TOPIC


def _is_transaction_topic(partition: TopicPartition) -> bool:
    return partition.topic == TRANSACTION_STATE_TOPIC


def _is_data(partition: TopicPartition) -> bool:
    return not (_is_metadata(partition) or _is_group_topic(partition) or _is_transaction_topic(partition))
