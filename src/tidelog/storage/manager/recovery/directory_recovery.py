"""A log directory during recovery: its lock, and the steps before and after its partitions.

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
unclean directory, and the next recovery gives the same result. Thread rule: one caller. Source: Kafka's ``LogManager``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidelog.model import CheckpointError, TopicPartition
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.storage.checkpoint import (
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownFile,
    OffsetCheckpoint,
)
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.directory_state import LOCK_FILE, Condition
from tidelog.storage.manager.cluster_metadata_log import METADATA_TOPIC
from tidelog.storage.manager.directory.log_directory import UNKNOWN_BROKER_EPOCH
from tidelog.storage.manager.partition_work import Failures
from tidelog.storage.manager.recovery.partition_recovery import RecoveredPartition
from tidelog.storage.manager.recovery.recover_plan import RecoverPlan
from tidelog.storage.manager.staged.commit import complete_commits
from tidelog.storage.manager.staged.roll_forward import remove_staged


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
        self._path = path
        self._lock = fs.lock(path / LOCK_FILE)
        self._marker = CleanShutdownFile(fs, path)
        self._known_epoch: int | None = None

    def begin(self, plan: RecoverPlan) -> None:
        """Remove the marker and unfinished checkpoints. ``plan`` was made under this lock."""
        if plan.condition is Condition.CLEAN:
            self._known_epoch = self._marker.read()
        self._marker.remove()
        for name in plan.temporary:
            self._fs.remove(self._path / name, missing_ok=True)

    def finish(
        self, plan: RecoverPlan, partitions: tuple[RecoveredPartition, ...], failures: Failures
    ) -> RecoverResult:
        """Return the result for all partitions. If one failed, nothing is written."""
        if not failures:
            _write_checkpoints(self._fs, self._path, plan, partitions)
            remove_staged(self._fs, self._path)
            self._marker.write(UNKNOWN_BROKER_EPOCH if self._known_epoch is None else self._known_epoch)
        return RecoverResult(plan=plan, partitions=partitions, failures=failures)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


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
    """Return the entries to write. None leaves an unreadable checkpoint alone, or a missing one without entries."""
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
