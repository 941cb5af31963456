"""The compaction of the logs in a directory without a broker, once, by all processors.

Steps, in place:

1. The directory's ``.lock`` is taken. If a live broker holds it, the call fails (LockedError). An unclean directory is
   refused too (DirectoryError): recovery must decide which of its records stay before any are dropped.
2. The plan is made. Logs that are due are cleaned in parallel, the largest first, each by one thread.
3. A log is cleaned in rounds, and each swaps in all its new segments at once (``log_compaction``).
4. After a round the cleaner's checkpoint is written. Then the replaced segments are removed.

The clean shutdown marker, recovery points, log starts and high watermarks remain, because nothing that they describe
changes. A startup after a clean shutdown repairs everything that a crash leaves between two calls. It finds each log
unchanged, or as a round left it. The checkpoint may be one round behind, and that round is repeated without loss.
Cancelling leaves no files behind.

``compact_into`` another directory does not write, lock or change anything in the source; see ``directory_copy``.

Thread rule: one run at a time per directory, enforced by the lock. Source: Kafka's ``LogCleaner``,
``LogCleanerManager.doneCleaning``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tidelog.model import CheckpointError, DirectoryError, LockedError, TopicPartition
from tidelog.runtime.parallel import usable_processors
from tidelog.runtime.progress import ProgressListener
from tidelog.storage.checkpoint import CLEAN_SHUTDOWN_FILE, CLEANER_CHECKPOINT, OffsetCheckpoint
from tidelog.storage.fs import FileStat, FileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE, DirectoryCondition
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook, CompactOptions, CompactPlan, plan_compaction
from tidelog.storage.manager.compact.directory_copy import DirectoryCopy
from tidelog.storage.manager.compact.log_compaction import CompactedLog, LogToCompact, compact_log
from tidelog.storage.manager.partition_work import Failures, PartitionWork, require_not_cancelled


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactResult:
    """The result of a plan. Logs with failures have not changed since their last round."""

    plan: CompactPlan
    path: Path
    """The directory of the compacted logs: the plan's path, or the output."""
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
    """Compact the logs in ``path`` that are due, or those of them in ``only``.

    Setting ``cancelled`` ends the run within about a chunk with CancelledError, and finished logs stay compacted. A log
    that cannot be cleaned is a failure in the result. Raise LockedError and DirectoryError as the module says.
    """
    fs.stat(path)
    lock = fs.lock(path / LOCK_FILE)
    try:
        plan = plan_compaction(fs, path, options, only=only, held_here=True)
        require_clean(plan)
        return _CompactionRun(fs, path, plan, options, on_progress, cancelled).clean_all()
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
    """Create ``output``, a copy of ``source`` with the due logs compacted. It exists only once it is complete.

    The call works as ``compact_directory``. Raise LockedError if a process holds the source, DirectoryError if
    ``output`` exists or the source was opened meanwhile.
    """
    plan = plan_compaction(fs, source, options, only=only)
    require_clean(plan)
    marker = _marker(fs, source)
    ended = cancelled or threading.Event()
    with DirectoryCopy(fs, source, output, check=lambda: require_not_cancelled(ended, source)) as copy:
        copy.copy_rest({log.name for log in plan.due})
        run = _CompactionRun(fs, copy.path, plan, options, on_progress, ended, before_each=copy.copy_directory)
        result = run.clean_all()
        if _marker(fs, source) != marker:
            raise DirectoryError("the directory was opened while it was copied", path=source)
        copy.finish()
    return replace(result, path=output)


def require_clean(plan: CompactPlan) -> None:
    """Raise LockedError if a process holds the directory, DirectoryError after an unclean shutdown."""
    if plan.state.condition is DirectoryCondition.HELD:
        raise LockedError(f"process {plan.state.holder} holds the directory", path=plan.path)
    if plan.state.condition is DirectoryCondition.UNCLEAN:
        raise DirectoryError(
            "the directory was not shut down cleanly: recover it first (tidelog recover --apply)", path=plan.path
        )


def _marker(fs: FileSystem, path: Path) -> FileStat | None:
    """Return the status of the clean shutdown marker. An owner removes it on opening and writes another at the end."""
    marker = path / CLEAN_SHUTDOWN_FILE
    return fs.stat(marker) if fs.exists(marker) else None


class _CompactionRun:
    """The cleaning of a plan's logs in ``path``, which is the plan's or a copy of it."""

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
            tell=self._work.add_progress,
        )


class CleanerCheckpoint:
    """The checkpoint file of a directory being compacted. Entries of other partitions do not change."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        self._fs = fs
        self._path = path / CLEANER_CHECKPOINT
        self._lock = threading.Lock()
        try:
            self._offsets = OffsetCheckpoint.read(fs, self._path)
        except CheckpointError:
            self._offsets = {}  # the plan contains the warning

    def note_resets(self, plan: CompactPlan) -> None:
        """Replace impossible offsets by those at which the plan begins."""
        for log in plan.logs:
            if log.plan is not None and log.plan.resets_checkpoint:
                self.note(log.partition, log.plan.first_dirty_offset)

    def note(self, partition: TopicPartition, offset: int) -> None:
        with self._lock:
            self._offsets[partition] = offset
            OffsetCheckpoint.write(self._fs, self._path, self._offsets)
