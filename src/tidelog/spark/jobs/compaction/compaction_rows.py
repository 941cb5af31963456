"""The table of the compaction job: one row per log with its plan and the outcome.

=====================================  ===============================================================================
columns                                null
=====================================  ===============================================================================
``directory``                          never
``topic``, ``partition``               for a refused directory, whose row has the error
``firstDirtyOffset`` … ``dirtyRatio``  for a log without compaction, and for a refused directory
``isDue``, ``reason``                  for a refused directory
``stoppedBy``                          if nothing was found that would stop a cleaner
``nextDirtyOffset`` … ``tasks``        for a log that was not compacted
``error``                              if no error occurred
=====================================  ===============================================================================
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidelog.model import TidelogError
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook
from tidelog.storage.manager.compact.log_compaction import CompactedLog

SCHEMA = (
    "directory string, topic string, partition int,"
    " firstDirtyOffset bigint, firstUncleanableOffset bigint, cleanBytes bigint, dirtyBytes bigint,"
    " uncleanableBytes bigint, dirtyRatio double, isDue boolean, reason string, stoppedBy string,"
    " nextDirtyOffset bigint, segmentsBefore int, segments int, bytesBefore bigint, bytes bigint, tasks int,"
    " error string"
)
Row = tuple[Any, ...]

_WIDTH = SCHEMA.count(",") + 1


def plan_row(path: Path, log: CompactionOutlook, outcome: CompactedLog | TidelogError | None = None) -> Row:
    plan, stop = log.plan, log.stopped_by
    planned: Row = (None,) * 6 + (False, "cleanup.policy has no compact", None)
    if plan is not None:
        planned = (
            plan.first_dirty_offset,
            plan.first_uncleanable_offset,
            plan.clean_bytes,
            plan.dirty_bytes,
            plan.uncleanable_bytes,
            plan.dirty_ratio,
            plan.is_due,
            plan.reason,
            None if stop is None else f"{stop.what} ({stop.path}, position {stop.position}, offset {stop.offset})",
        )
    error = outcome if isinstance(outcome, TidelogError) else log.error
    done: Row = (None,) * 6
    if isinstance(outcome, CompactedLog):
        done = (
            outcome.first_dirty_offset,
            outcome.segments_before,
            outcome.segments,
            outcome.bytes_before,
            outcome.bytes,
            outcome.tasks,
        )
    return (
        str(path),
        log.partition.topic,
        log.partition.partition,
        *planned,
        *done,
        None if error is None else str(error),
    )


def refused_row(path: Path, error: TidelogError) -> Row:
    """Return the row of a whole directory that was refused."""
    return (str(path), *(None,) * (_WIDTH - 2), str(error))
