"""The recovery of a log directory: a broker's work from an unclean startup to a clean shutdown.

Partitions and the segments of each run in parallel, between ``begin`` and ``finish`` of a ``DirectoryRecovery``:

===========  ==========================================================================================================
step         change
===========  ==========================================================================================================
created      a decided commit of staged files is carried out by its own owner (``staged``); then the ``.lock`` is taken
``begin``    the clean shutdown marker and unfinished checkpoints are removed: a later crash is an unclean shutdown
             (the partitions are recovered now: ``partition_recovery``)
``finish``   after all of them: recovery points (each log's end), log starts (if they are inside the first segment),
             high watermarks (clamped to the log; the log's end if the cluster metadata names only one replica); the
             cleaner's checkpoint does not change. Staged files that no commit names are removed. The marker is written
             with broker epoch -1, because records may have been lost. A clean directory keeps its epoch
``release``  the lock is released
===========  ==========================================================================================================

``__cluster_metadata`` is recovered like the others, but it is not in the checkpoints, as in a broker. A crash leaves an
unclean directory, and the next recovery gives the same result. A cancelled run leaves finished partitions complete and
synced. Thread rule: one run at a time per directory, enforced by the lock. Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.parallel import usable_processors
from tidelog.runtime.progress import ProgressListener
from tidelog.storage.checkpoint import HIGH_WATERMARK_CHECKPOINT, LOG_START_CHECKPOINT, RECOVERY_POINT_CHECKPOINT
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.log.load.parallel_walks import WalkThreads
from tidelog.storage.manager.directory.owned_directory import OwnedDirectory
from tidelog.storage.manager.partition_work import Failures, PartitionWork
from tidelog.storage.manager.recovery.partition_recovery import RecoveredPartition, recover_partition
from tidelog.storage.manager.recovery.recover_plan import PartitionPlan, RecoverOptions, RecoverPlan, plan_directory
from tidelog.storage.manager.staged.roll_forward import remove_staged
from tidelog.storage.manager.writable.commit import complete_commits
from tidelog.storage.segment.segment_recovery import RecoveredSegment


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverResult:
    """The directory is clean if there is no failure. With any failure, nothing was checkpointed."""

    plan: RecoverPlan
    partitions: tuple[RecoveredPartition, ...]
    failures: Failures
    """Directory names with the reasons of their failures."""

    @property
    def cut_bytes(self) -> int:
        return sum(partition.cut_bytes for partition in self.partitions)


class DirectoryRecovery:
    """A context manager. Its end releases the lock."""

    def __init__(self, fs: FileSystem, path: Path) -> None:
        """LockedError means that another process holds the directory. ``complete_commits`` may fail as well."""
        complete_commits(fs, path, clock=SYSTEM_CLOCK)
        self._fs = fs
        self._directory = OwnedDirectory(fs, path)
        self.release = self._directory.release

    def begin(self, plan: RecoverPlan) -> None:
        """Remove the marker and unfinished checkpoints. ``plan`` was made under this lock."""
        self._directory.mark_open(plan.temporary)

    def finish(
        self, plan: RecoverPlan, partitions: tuple[RecoveredPartition, ...], failures: Failures
    ) -> RecoverResult:
        """Return the result for all partitions. If one failed, nothing is written."""
        if not failures:
            self._write_checkpoints(plan, partitions)
            remove_staged(self._fs, self._directory.path)
            self._directory.mark_clean()
        return RecoverResult(plan=plan, partitions=partitions, failures=failures)

    def _write_checkpoints(self, plan: RecoverPlan, partitions: tuple[RecoveredPartition, ...]) -> None:
        directory = self._directory
        logs = {
            part.topic_partition: part for part in partitions if part.topic_partition.topic != CLUSTER_METADATA_TOPIC
        }
        directory.recovery_points = {key: log.end_offset for key, log in logs.items()}
        directory.log_starts = {key: log.log_start_offset for key, log in logs.items() if log.log_starts_inside_segment}
        directory.write(RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT)
        stored, watermarks = directory.high_watermarks, {}
        for key, log in logs.items():
            if plan.metadata.is_only_replica(key):
                watermarks[key] = log.end_offset
            elif key in stored:
                watermarks[key] = min(max(stored[key], log.log_start_offset), log.end_offset)
        directory.high_watermarks = watermarks
        # An unreadable checkpoint does not change, and a missing one is not created without entries.
        is_there = self._fs.exists(directory.path / HIGH_WATERMARK_CHECKPOINT)
        if HIGH_WATERMARK_CHECKPOINT not in directory.unreadable and (watermarks or is_there):
            directory.write(HIGH_WATERMARK_CHECKPOINT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


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
        run = _RecoveryRun(fs, path, options, plan, on_progress, cancelled)
        return recovery.finish(plan, *run.load_all())


def recover(
    path: Path, *, now_ms: int, sibling_directories: tuple[Path, ...] = (), fs: FileSystem = LOCAL
) -> RecoverResult:
    """Recover with the cluster metadata's settings over the defaults. Raise the first failure."""
    result = recover_directory(fs, path, RecoverOptions(now_ms=now_ms, sibling_directories=sibling_directories))
    for _, error in result.failures:
        raise error
    return result


class _RecoveryRun:
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
            self._work.add_progress(segment.size + segment.truncated_bytes)
            self._work.check_cancelled()

        return recover_partition(self._fs, self._path, partition, self._options, threads=walks, on_segment=on_segment)
