"""The recovery of a log directory: a broker's work from an unclean startup to a clean shutdown.

Partitions and the segments of each run in parallel, between ``begin`` and ``finish`` of a ``DirectoryRecovery``, whose
table lists the steps. A cancelled run or a crash leaves finished partitions complete and synced. The others are
unrecovered or partly recovered. The checkpoints are written after all partitions, so the next run repeats everything
with the same result.

Thread rule: one run at a time per directory, enforced by the lock. Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tidelog.storage.fs import LOCAL, FileSystem, usable_processors
from tidelog.storage.log.load.parallel_walks import WalkThreads
from tidelog.storage.manager.partition_work import Failures, PartitionWork, ProgressListener
from tidelog.storage.manager.recovery.directory_recovery import DirectoryRecovery, RecoverResult
from tidelog.storage.manager.recovery.partition_recovery import RecoveredPartition, recover_partition
from tidelog.storage.manager.recovery.recover_plan import (
    PartitionPlan,
    RecoverOptions,
    RecoverPlan,
    plan_directory,
)
from tidelog.storage.segment.segment_recovery import RecoveredSegment


def recover_directory(
    fs: FileSystem,
    path: Path,
    options: RecoverOptions,
    *,
    on_progress: ProgressListener | None = None,
    cancelled: threading.Event | None = None,
) -> RecoverResult:
    """Recover the log directory ``path``.

    Several threads call ``on_progress``, one at a time. Setting ``cancelled`` ends the run after the current segments,
    with CancelledError. Raise LockedError if a process holds the directory. A partition that cannot be recovered is a
    failure in the result, and the others are still recovered.
    """
    with DirectoryRecovery(fs, path) as recovery:
        plan = plan_directory(fs, path, options, held_here=True)
        recovery.begin(plan)
        run = _Run(fs, path, options, plan, on_progress, cancelled)
        return recovery.finish(plan, *run.load_all())


def recover(
    path: Path, *, now_ms: int, sibling_directories: tuple[Path, ...] = (), fs: FileSystem = LOCAL
) -> RecoverResult:
    """Recover with the cluster metadata's settings over the defaults. Raise the first failure."""
    result = recover_directory(fs, path, RecoverOptions(now_ms=now_ms, sibling_directories=sibling_directories))
    for _, error in result.failures:
        raise error
    return result


class _Run:
    """The parallel loading of the partitions."""

    def __init__(
        self,
        fs: FileSystem,
        path: Path,
        options: RecoverOptions,
        plan: RecoverPlan,
        on_progress: ProgressListener | None,
        cancelled: threading.Event | None,
    ) -> None:
        self._fs = fs
        self._path = path
        self._options = options
        self._work = PartitionWork(
            path, plan.partitions, lambda part: part.read_bytes, on_progress=on_progress, cancelled=cancelled
        )

    def load_all(self) -> tuple[tuple[RecoveredPartition, ...], Failures]:
        threads = self._options.threads or usable_processors()
        # One thread per partition keeps the sequence of its segments. The threads of ``walks`` share the reading, which
        # is nearly all of the work.
        with WalkThreads(threads) as walks:
            return self._work.run(lambda part: self._load_one(part, walks), threads=threads, thread_name="recover")

    def _load_one(self, partition: PartitionPlan, walks: WalkThreads) -> RecoveredPartition:
        def on_segment(segment: RecoveredSegment) -> None:
            self._work.add_progress(partition.name, segment.size + segment.truncated_bytes)
            self._work.check_cancelled()

        return recover_partition(self._fs, self._path, partition, self._options, threads=walks, on_segment=on_segment)
