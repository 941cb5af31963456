"""The recovery of one partition: loaded as after an unclean shutdown, closed cleanly and synced.

On return it is complete and on disk, but not yet in the checkpoints. A crash leaves it unrecovered or partly recovered,
and the next recovery gives the same result. Thread rule: the directory's lock is held, and a partition has one caller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.load_plan import first_unflushed_base
from tidelog.storage.log.load.loader import LoadedLog, LoadRequest, load_log
from tidelog.storage.log.load.parallel_walks import WalkThreads
from tidelog.storage.manager.recovery.recover_plan import PartitionPlan, RecoverOptions
from tidelog.storage.segment.segment_recovery import RecoveredSegment, sync_segment


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredPartition:
    """The result for one partition. Sizes are in bytes."""

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


def recover_partition(
    fs: FileSystem,
    path: Path,
    plan: PartitionPlan,
    options: RecoverOptions,
    *,
    threads: WalkThreads | None = None,
    on_segment: Callable[[RecoveredSegment], None] | None = None,
) -> RecoveredPartition:
    """Recover a partition in the log directory ``path``. The callbacks and errors are those of ``load_log``."""
    request = LoadRequest(
        fs=fs,
        directory=path / plan.name,
        config=plan.config,
        clean_shutdown=plan.clean_shutdown,
        recovery_point=plan.recovery_point,
        log_start_offset=plan.log_start_offset,
        on_segment=on_segment,
        threads=threads,
    )
    log = load_log(request, now_ms=options.now_ms)
    _sync(fs, path / plan.name, log)
    return RecoveredPartition(
        name=plan.name,
        topic_partition=plan.topic_partition,
        log_start_offset=log.log_start_offset,
        end_offset=log.end_offset,
        segments=len(log.base_offsets),
        recovered_segments=len(log.recovered),
        batches=sum(segment.batches for segment in log.recovered),
        cut_bytes=sum(segment.truncated_bytes for segment in log.recovered),
        deleted_segments=len(log.deleted),
        removed_files=len(log.removed_files),
        log_starts_inside_segment=log.log_start_offset > log.base_offsets[0],
        warnings=tuple(log.warnings),
    )


def _sync(fs: FileSystem, directory: Path, log: LoadedLog) -> None:
    """Sync everything from the recovery point on or rebuilt below it: data, indexes, snapshots, names."""
    unflushed = first_unflushed_base(log.base_offsets, log.recovery_point)
    rebuilt = {segment.base_offset for segment in log.recovered}
    for base_offset in log.base_offsets:
        if base_offset in rebuilt or unflushed is None or base_offset >= unflushed:
            sync_segment(fs, directory, base_offset)
    log.producers.snapshots.sync()
    fs.sync_dir(directory)
