"""Recover a log directory: do what a broker does between a start after a kill and an orderly stop.

Steps:

0. A commit of staged files that was decided is carried out (``staged``), by an owner of its own.
1. The directory's ``.lock`` is taken; a live broker's lock refuses all of it (LockedError).
2. The clean-shutdown marker is removed: from here to the end a crash counts as a kill.
3. Every partition is loaded (left-overs settled, segments recovered, producer state rebuilt, epochs cut), closed as an
   orderly stop closes it, and synced; partitions run in parallel, and so do the segments of one.
4. Checkpoints: recovery points (each log's end), log starts (where they lie inside the first segment), high watermarks
   (clamped to the log; the log's end where the cluster metadata knows of one replica only). The cleaner's is untouched.
5. Staged files that no commit names are removed. The clean-shutdown marker is written, with broker epoch -1: after a
   kill no one may claim that nothing was lost. A directory that was stopped in order keeps the epoch it had.

What a crash or a cancelled run leaves: partitions that are done are whole and synced, the others as the kill left them,
or in part recovered. Steps 4 and 5 wait for all of step 3, so the next run does it all again and ends the same.
``__cluster_metadata`` is recovered like the others and left out of the checkpoints, as brokers do.

Called by: the command line, Python users. Thread rule: one run at a time a directory (the lock sees to it).
Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from pathlib import Path

from tidelog.model import CheckpointError, TopicPartition
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownFile,
    OffsetCheckpoint,
)
from tidelog.storage.fs import LOCAL, FileSystem, usable_processors
from tidelog.storage.log.load.load_plan import first_unflushed_base
from tidelog.storage.log.load.loader import LoadedLog, load_log
from tidelog.storage.log.load.walk_ahead import WalkThreads
from tidelog.storage.log.view.directory_state import LOCK_FILE, Condition
from tidelog.storage.manager.cluster_metadata import METADATA_TOPIC
from tidelog.storage.manager.partition_work import Failures, PartitionWork, ProgressListener
from tidelog.storage.manager.recovery.recover_plan import (
    PartitionPlan,
    RecoverOptions,
    RecoverPlan,
    load_request,
    plan_directory,
)
from tidelog.storage.manager.staged.commit import complete_commits
from tidelog.storage.manager.staged.roll_forward import remove_staged
from tidelog.storage.segment.segment_recovery import RecoveredSegment, sync_segment

UNKNOWN_BROKER_EPOCH = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredPartition:
    """What was done to one partition; sizes in bytes."""

    name: str
    topic_partition: TopicPartition
    log_start_offset: int
    end_offset: int
    segments: int
    recovered_segments: int
    batches: int
    cut_bytes: int
    deleted_segments: int
    removed_files: int
    log_starts_inside_segment: bool
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoverResult:
    """Without failures the directory counts as stopped in order; with any, nothing was checkpointed."""

    plan: RecoverPlan
    partitions: tuple[RecoveredPartition, ...]
    failures: Failures
    """Directory names and why they could not be recovered."""

    @property
    def cut_bytes(self) -> int:
        return sum(partition.cut_bytes for partition in self.partitions)


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
    complete_commits(fs, path, clock=SYSTEM_CLOCK)
    lock = fs.lock(path / LOCK_FILE)
    try:
        plan = plan_directory(fs, path, options, held_here=True)
        marker = CleanShutdownFile(fs, path)
        known_epoch = marker.read() if plan.condition is Condition.CLEAN else None
        marker.remove()
        for name in plan.temporary:
            fs.remove(path / name, missing_ok=True)
        run = _Run(fs, path, options, plan, on_progress, cancelled)
        partitions, failures = run.load_all()
        if not failures:
            _write_checkpoints(fs, path, plan, partitions)
            remove_staged(fs, path)
            marker.write(UNKNOWN_BROKER_EPOCH if known_epoch is None else known_epoch)
        return RecoverResult(plan=plan, partitions=partitions, failures=failures)
    finally:
        lock.release()


def recover(path: Path, *, now_ms: int, fs: FileSystem = LOCAL) -> RecoverResult:
    """Recover with the settings that the cluster metadata names and defaults else; raises the first failure."""
    result = recover_directory(fs, path, RecoverOptions(now_ms=now_ms))
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

        request = load_request(self._fs, self._path, partition, self._options)
        log = load_log(replace(request, on_segment=on_segment, threads=walks))
        self._sync(partition, log)
        return RecoveredPartition(
            name=partition.name,
            topic_partition=partition.topic_partition,
            log_start_offset=log.log_start_offset,
            end_offset=log.end_offset,
            segments=len(log.base_offsets),
            recovered_segments=len(log.recovered),
            batches=sum(segment.batches for segment in log.recovered),
            cut_bytes=sum(segment.cut_bytes for segment in log.recovered),
            deleted_segments=len(log.deleted),
            removed_files=len(log.removed_files),
            log_starts_inside_segment=log.log_start_offset > log.base_offsets[0],
            warnings=tuple(log.warnings),
        )

    def _sync(self, partition: PartitionPlan, log: LoadedLog) -> None:
        """Everything from the recovery point on, and what was rebuilt below it: data, indexes, snapshots, names."""
        directory = self._path / partition.name
        unflushed = first_unflushed_base(log.base_offsets, log.recovery_point)
        rebuilt = {segment.base_offset for segment in log.recovered}
        for base_offset in log.base_offsets:
            if base_offset in rebuilt or unflushed is None or base_offset >= unflushed:
                sync_segment(self._fs, directory, base_offset)
        log.producers.snapshots.sync()
        self._fs.sync_dir(directory)


def _write_checkpoints(
    fs: FileSystem, path: Path, plan: RecoverPlan, partitions: tuple[RecoveredPartition, ...]
) -> None:
    logs = {part.topic_partition: part for part in partitions if part.topic_partition.topic != METADATA_TOPIC}
    recovery_points = {key: log.end_offset for key, log in logs.items()}
    log_starts = {key: log.log_start_offset for key, log in logs.items() if log.log_starts_inside_segment}
    OffsetCheckpoint.write(fs, path / RECOVERY_POINT_CHECKPOINT, recovery_points)
    OffsetCheckpoint.write(fs, path / LOG_START_CHECKPOINT, log_starts)
    watermarks = _high_watermarks(fs, path, plan, logs)
    if watermarks is not None:
        OffsetCheckpoint.write(fs, path / HIGH_WATERMARK_CHECKPOINT, watermarks)


def _high_watermarks(
    fs: FileSystem, path: Path, plan: RecoverPlan, logs: dict[TopicPartition, RecoveredPartition]
) -> dict[TopicPartition, int] | None:
    """None where there is nothing to say: no checkpoint was there, or it cannot be read (a broker then says so)."""
    checkpoint = path / HIGH_WATERMARK_CHECKPOINT
    try:
        stored = OffsetCheckpoint.read(fs, checkpoint)
    except CheckpointError:
        return None
    watermarks = {}
    for key, log in logs.items():
        if plan.metadata.is_only_replica(key):
            watermarks[key] = log.end_offset
        elif key in stored:
            watermarks[key] = min(max(stored[key], log.log_start_offset), log.end_offset)
    return watermarks if watermarks or fs.exists(checkpoint) else None
