"""Compact the logs of a directory that nobody has open: what a broker's cleaner does, all cores at it, then done.

Steps, in place:

1. The directory's ``.lock`` is taken; a live broker's lock refuses all of it (LockedError). So does a directory that
   was not stopped in order (DirectoryError): which of its records stay is for recovery to say, before any are dropped.
2. The plan is made; logs that are due are cleaned side by side, the largest first, each by one thread.
3. A log is cleaned in rounds, and each swaps in all that it wrote at once (``log_compaction``).
4. After a round the cleaner's checkpoint says so; then what was replaced is removed.

The clean-shutdown marker stays, and so do recovery points, log starts and high watermarks: of what they speak nothing
changes, and whatever a crash leaves between two calls is what a start after an orderly stop settles. It finds each log
as it was, or as a round left it; the checkpoint may be a round behind, and that round is done again at no loss.
Cancelling leaves no files behind.

Into another directory (``compact_into``) nothing of the source is written, locked or touched; see ``directory_copy``.

Called by: the command line, Spark, Python users. Thread rule: one run at a time a directory (the lock sees to it).
Source: Kafka's ``LogCleaner``, ``LogCleanerManager.doneCleaning``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tidelog.model import CheckpointError, DirectoryError, LockedError, TopicPartition
from tidelog.storage.checkpoint import CLEAN_SHUTDOWN_FILE, CLEANER_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.fs import FileStat, FileSystem, usable_processors
from tidelog.storage.log.view.directory_state import LOCK_FILE, Condition
from tidelog.storage.manager.compact.compact_plan import (
    CompactionOutlook,
    CompactOptions,
    CompactPlan,
    plan_compaction,
)
from tidelog.storage.manager.compact.directory_copy import DirectoryCopy
from tidelog.storage.manager.compact.log_compaction import CompactedLog, LogToCompact, compact_log
from tidelog.storage.manager.partition_work import Failures, PartitionWork, ProgressListener, require_not_cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """What came of a plan; logs with failures are as they were."""

    plan: CompactPlan
    path: Path
    """Where the compacted logs lie: the plan's path, or the output."""
    logs: tuple[CompactedLog, ...]
    failures: Failures

    @property
    def bytes_freed(self) -> int:
        return sum(log.bytes_before - log.bytes for log in self.logs)


def compact_directory(
    fs: FileSystem,
    path: Path,
    options: CompactOptions,
    *,
    only: Iterable[TopicPartition] | None = None,
    on_progress: ProgressListener | None = None,
    cancelled: threading.Event | None = None,
) -> CompactResult:
    """Compact the logs in ``path`` that are due, or of those ``only``.

    Setting ``cancelled`` ends the run within a chunk or so, with CancelledError; logs that are done stay done. A log
    that cannot be cleaned is a failure in the result. LockedError, DirectoryError as the module says.
    """
    fs.stat(path)
    lock = fs.lock(path / LOCK_FILE)
    try:
        plan = plan_compaction(fs, path, options, only=only, held_here=True)
        require_clean(plan)
        return _Run(fs, path, plan, options, on_progress, cancelled).clean_all()
    finally:
        lock.release()


def compact_into(
    fs: FileSystem,
    source: Path,
    options: CompactOptions,
    *,
    output: Path,
    only: Iterable[TopicPartition] | None = None,
    on_progress: ProgressListener | None = None,
    cancelled: threading.Event | None = None,
) -> CompactResult:
    """Make ``output``, a copy of ``source`` whose logs that are due are compacted; it is there when it is whole.

    As ``compact_directory``; LockedError where somebody holds the source, DirectoryError where ``output`` exists, or
    where the source was opened meanwhile.
    """
    plan = plan_compaction(fs, source, options, only=only)
    require_clean(plan)
    marker = _marker(fs, source)
    ended = cancelled or threading.Event()
    with DirectoryCopy(fs, source, output, check=lambda: require_not_cancelled(ended, source)) as copy:
        copy.copy_rest({log.name for log in plan.due})
        run = _Run(fs, copy.path, plan, options, on_progress, ended, before_each=copy.copy_directory)
        result = run.clean_all()
        if _marker(fs, source) != marker:
            raise DirectoryError("the directory was opened while it was copied", path=source)
        copy.finish()
    return replace(result, path=output)


def require_clean(plan: CompactPlan) -> None:
    """LockedError where somebody holds the directory, DirectoryError where it was not stopped in order."""
    if plan.state.condition is Condition.HELD:
        raise LockedError(f"process {plan.state.holder} holds the directory", path=plan.path)
    if plan.state.condition is Condition.KILLED:
        raise DirectoryError(
            "the directory was not stopped in order: recover it first (tidelog recover --apply)", path=plan.path
        )


def _marker(fs: FileSystem, path: Path) -> FileStat | None:
    """Of an orderly stop: whoever opens the directory removes it, and writes another in the end."""
    marker = path / CLEAN_SHUTDOWN_FILE
    return fs.stat(marker) if fs.exists(marker) else None


class _Run:
    """Cleans the logs of a plan in ``path``, which is the plan's or a copy of it."""

    def __init__(
        self,
        fs: FileSystem,
        path: Path,
        plan: CompactPlan,
        options: CompactOptions,
        on_progress: ProgressListener | None,
        cancelled: threading.Event | None,
        *,
        before_each: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._fs = fs
        self._path = path
        self._plan = plan
        self._clock = options.clock
        self._threads = options.threads or usable_processors()
        self._cleaner = replace(options.cleaner, threads=self._threads)
        self._before_each = before_each
        self._work = PartitionWork(
            path, plan.due, lambda log: log.work_bytes, on_progress=on_progress, cancelled=cancelled
        )
        self._checkpoint = CleanerCheckpoint(fs, path)

    def clean_all(self) -> CompactResult:
        self._checkpoint.note_resets(self._plan)
        logs, failures = self._work.run(self._clean_one, threads=self._threads, thread_name="compact")
        return CompactResult(plan=self._plan, path=self._path, logs=logs, failures=failures)

    def _clean_one(self, outlook: CompactionOutlook) -> CompactedLog:
        self._before_each(outlook.name)
        return compact_log(
            self._fs,
            LogToCompact.of(self._path, outlook, self._plan.state),
            cleaner=self._cleaner,
            clock=self._clock,
            on_round=partial(self._checkpoint.note, outlook.partition),
            check_done=self._work.check_cancelled,
            tell=partial(self._work.tell, outlook.name),
        )


class CleanerCheckpoint:
    """The file of a directory that is compacted; entries of other partitions stay as they are."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs = fs
        self._path = path / CLEANER_CHECKPOINT
        self._lock = threading.Lock()
        try:
            self._offsets = OffsetCheckpoint.read(fs, self._path)
        except CheckpointError:
            self._offsets = {}  # the plan has warned of it

    def note_resets(self, plan: CompactPlan) -> None:
        """Offsets that cannot be right become those that the plan begins at."""
        for log in plan.logs:
            if log.plan is not None and log.plan.resets_checkpoint:
                self.note(log.partition, log.plan.first_dirty_offset)

    def note(self, partition: TopicPartition, offset: int) -> None:
        with self._lock:
            self._offsets[partition] = offset
            OffsetCheckpoint.write(self._fs, self._path, self._offsets)
