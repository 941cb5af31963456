"""Recover a log directory: do what a broker does between a start after a kill and an orderly stop.

Partitions run in parallel, and so do the segments of one, between ``begin`` and ``finish`` of a ``DirectoryRecovery``:
its table says what is done. What a cancelled run, or a crash, leaves: partitions that are done are whole and synced,
the others as the kill left them, or in part recovered. The checkpoints wait for all partitions, so the next run does it
all again and ends the same.

Called by: the command line, Python users. Thread rule: one run at a time a directory (the lock sees to it).
Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import threading
from pathlib import Path

from tidelog.storage.fs import LOCAL, FileSystem, usable_processors
from tidelog.storage.log.load.walk_ahead import WalkThreads
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

    ``on_progress`` is called from several threads, one at a time. Setting ``cancelled`` ends the run after the segments
    under way, with CancelledError. LockedError if somebody holds the directory. A partition that cannot be recovered is
    a failure in the result; the others are recovered all the same.
    """
    with DirectoryRecovery(fs, path) as recovery:
        plan = plan_directory(fs, path, options, held_here=True)
        recovery.begin(plan)
        run = _Run(fs, path, options, plan, on_progress, cancelled)
        return recovery.finish(plan, *run.load_all())


def recover(path: Path, *, now_ms: int, beside: tuple[Path, ...] = (), fs: FileSystem = LOCAL) -> RecoverResult:
    """Recover with the settings that the cluster metadata names and defaults else; raises the first failure."""
    result = recover_directory(fs, path, RecoverOptions(now_ms=now_ms, beside=beside))
    for _, error in result.failures:
        raise error
    return result


class _Run:
    """Loads the partitions in parallel."""

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
        # A thread a partition keeps its order; the reading, nearly all of the work, is shared out by segments.
        with WalkThreads(threads) as walks:
            return self._work.run(lambda part: self._load_one(part, walks), threads=threads, thread_name="recover")

    def _load_one(self, partition: PartitionPlan, walks: WalkThreads) -> RecoveredPartition:
        def on_segment(segment: RecoveredSegment) -> None:
            self._work.tell(partition.name, segment.size + segment.cut_bytes)
            self._work.check_cancelled()

        return recover_partition(self._fs, self._path, partition, self._options, threads=walks, on_segment=on_segment)
