"""The table of the recovery job: a row per directory, then one for each of its partitions.

=====================================  ===============================================================================
columns                                null
=====================================  ===============================================================================
``directory``, ``kind``                never; ``kind`` is ``directory`` or ``partition``
``condition`` … ``temporaryFiles``     for a partition, and for a refused directory
``name``, ``topic``, ``partition``     for a directory; ``name`` is the partition's directory
``segmentsToRecover`` … ``leftovers``  for a directory; ``fromOffset`` also if no segment is to be recovered
``logStartOffset`` … ``removedFiles``  for a directory, in a plan, and for a partition that could not be recovered
``warnings``                           never
``error``                              if no error occurred
=====================================  ===============================================================================

``commit`` is the decided commit of staged files that recovery completes first.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidelog.model import TidelogError
from tidelog.storage.manager.recovery.partition_recovery import RecoveredPartition
from tidelog.storage.manager.recovery.recover_plan import PartitionPlan, RecoverPlan
from tidelog.storage.manager.staged.staged_commit import StagedCommit

SCHEMA = (
    "directory string, kind string, condition string, commit string, stagedFiles int, temporaryFiles int,"
    " name string, topic string, partition int,"
    " segmentsToRecover int, fromOffset bigint, reasons array<string>, readBytes bigint, writeBytes bigint,"
    " leftovers int, logStartOffset bigint, logEndOffset bigint, segments int, recoveredSegments int, batches bigint,"
    " cutBytes bigint, deletedSegments int, removedFiles int, warnings array<string>, error string"
)
DIRECTORY = "directory"
PARTITION = "partition"
Cells = tuple[Any, ...]

_NO_STATE: Cells = (None,) * 4
_NO_PARTITION: Cells = (None,) * 17
_NOT_DONE: Cells = (None,) * 8


def refused_row(path: Path, error: TidelogError) -> Cells:
    """Return the row of a directory that could not be planned or recovered."""
    return (str(path), DIRECTORY, *_NO_STATE, *_NO_PARTITION, [], str(error))


def directory_row(plan: RecoverPlan, commit: StagedCommit | None, error: TidelogError | None = None) -> Cells:
    state = (plan.condition.value, None if commit is None else str(commit), len(plan.staged), len(plan.temporary))
    return (str(plan.path), DIRECTORY, *state, *_NO_PARTITION, list(plan.warnings), _text(error))


def partition_row(path: Path, part: PartitionPlan, outcome: RecoveredPartition | TidelogError | None = None) -> Cells:
    planned = (
        len(part.recover),
        part.recover[0].base_offset if part.recover else None,
        sorted({segment.reason.value for segment in part.recover}),
        part.read_bytes,
        part.write_bytes,
        len(part.leftovers.removals) + len(part.leftovers.renames),
    )
    done, warnings = _NOT_DONE, []
    if isinstance(outcome, RecoveredPartition):
        warnings = list(outcome.warnings)
        done = (
            outcome.log_start_offset,
            outcome.end_offset,
            outcome.segments,
            outcome.recovered_segments,
            outcome.batches,
            outcome.cut_bytes,
            outcome.deleted_segments,
            outcome.removed_files,
        )
    error = outcome if isinstance(outcome, TidelogError) else None
    name = (part.name, part.topic_partition.topic, part.topic_partition.partition)
    return (str(path), PARTITION, *_NO_STATE, *name, *planned, *done, warnings, _text(error))


def _text(error: TidelogError | None) -> str | None:
    return None if error is None else str(error)
