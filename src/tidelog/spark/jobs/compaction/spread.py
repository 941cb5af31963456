"""The compaction of one large log by many Spark tasks, with the same result as by one process.

======  ================================  ============================================================================
step    where                             work
======  ================================  ============================================================================
1       the driver                        loads the log, groups its segments (``SpreadLog``)
2       one task                          reads the headers: the transactions known at the start of each group
3       one task per group                finds the group's keys, each with its latest offset in the dirty part
4       one task per range of key hashes  finds each key's latest offset in all groups, for every group with the key
5       one task per group                rewrites it by its keys, into a directory of the task's own
6       the driver                        moves the new files into the log's directory, and swaps them in at once
======  ================================  ============================================================================

No task holds more keys than its group has, so one round suffices, however many keys the log has. Tasks exchange keys
and segments as files in ``staging`` directories, which all tasks see as they see the log. A crash before step 6 leaves
the log unchanged. A crash in step 6 leaves the old or the new segments (``segment_swap``).

The driver runs the steps while it holds the directory.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np

from tidelog.model import TidelogError
from tidelog.runtime import Clock
from tidelog.spark.jobs.compaction.group_keys import keys_of_group
from tidelog.spark.jobs.compaction.group_rewriting import Rewritten, rewrite_group
from tidelog.spark.jobs.compaction.keys import (
    KeyBlock,
    KeyFile,
    newest_of_all_groups,
    ranges_of,
    read_keys,
    split_by_number,
    write_keys,
)
from tidelog.spark.jobs.compaction.spread_log import SpreadLog, transactions_at_groups
from tidelog.spark.jobs.staging import new_job_id, remove_staging
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.compact.log_compaction import CompactedLog, LogToCompact
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, FileState, segment_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

R = TypeVar("R")


class _StagedSegment(NamedTuple):
    base_offset: int
    size: int
    path: Path


def compact_spread(spark: SparkSession, work: LogToCompact, *, clock: Clock) -> CompactedLog | TidelogError:
    """Compact the log and return the result, or the error for which the log is unchanged."""
    job_id = new_job_id()
    try:
        log = work.open(LOCAL, clock)
    except TidelogError as error:
        return error
    try:
        segments_before, bytes_before = len(log.segments), log.size
        spread = SpreadLog.of(log, work, now_ms=clock.now_ms(), job_id=job_id)
        rewritten = _rewritten(spark, spread)
        _swap_in(log, spread, rewritten)
        return CompactedLog(
            partition=work.plan.partition,
            first_dirty_offset=work.plan.end_offset,
            rounds=1,
            segments_before=segments_before,
            segments=len(log.segments),
            bytes_before=bytes_before,
            bytes=log.size,
            tasks=len(rewritten),
        )
    except TidelogError as error:
        return error
    finally:
        log.close_handlers()
        remove_staging(work.directory.parent, job_id)


def _rewritten(spark: SparkSession, spread: SpreadLog) -> list[Rewritten]:
    """Run steps 2 to 5 and return the groups' segments in group order. Raise the first failed task's TidelogError."""
    numbers = range(len(spread.groups))
    [states] = _whole(run_tasks(spark, [spread], transactions_at_groups))
    found = _whole(run_tasks(spark, [_Finding(spread, number) for number in numbers], _find_keys))
    parts = [_Part(spread, [file.block(number) for file in found]) for number in numbers]
    latest = _whole(run_tasks(spark, parts, _latest_by_group))
    groups = [
        _Rewriting(spread, number, [file.block(number) for file in latest], state)
        for number, state in zip(numbers, states, strict=True)
    ]
    return _whole(run_tasks(spark, groups, _rewrite))


def _whole(outcomes: list[R | TidelogError]) -> list[R]:
    whole = []
    for one in outcomes:
        if isinstance(one, TidelogError):
            raise one
        whole.append(one)
    return whole


class _Finding(NamedTuple):
    spread: SpreadLog
    number: int
    """The group's number."""


class _Part(NamedTuple):
    spread: SpreadLog
    blocks: list[KeyBlock]
    """The blocks of one range, from every group."""


class _Rewriting(NamedTuple):
    spread: SpreadLog
    number: int
    """The group's number."""
    blocks: list[KeyBlock]
    """The group's blocks, from every range."""
    transactions: bytes


def _find_keys(work: _Finding) -> KeyFile:
    """Run step 3. The file has a block for each range, and there are as many ranges as groups."""
    keys = keys_of_group(work.spread, work.number)
    ranges = ranges_of(keys.column("key"), len(work.spread.groups))
    return write_keys(LOCAL, work.spread.new_staging(), split_by_number(keys, ranges))


def _latest_by_group(work: _Part) -> KeyFile:
    """Run step 4. The file has a block for each group."""
    latest = newest_of_all_groups(read_keys(LOCAL, work.blocks))
    groups = latest.column("number").to_numpy().astype(np.int64)
    return write_keys(LOCAL, work.spread.new_staging(), split_by_number(latest, groups))


def _rewrite(work: _Rewriting) -> Rewritten:
    """Run step 5. A group without keys that count is rewritten too."""
    keys = read_keys(LOCAL, work.blocks)
    return rewrite_group(work.spread, work.number, keys, pickle.loads(work.transactions))


def _swap_in(log: PartitionLog, spread: SpreadLog, rewritten: list[Rewritten]) -> None:
    """Run step 6. The order of the moves does not matter: until the swap begins, a load removes the files."""
    new = []
    for one in rewritten:
        place = segment_file(log.directory, one.base_offset, FileKind.LOG, FileState.CLEANED)
        new.append(_StagedSegment(one.base_offset, one.size, place))
        for kind in SEGMENT_KINDS:
            source = segment_file(one.staging, one.base_offset, kind, FileState.CLEANED)
            if LOCAL.exists(source):
                LOCAL.rename(source, segment_file(log.directory, one.base_offset, kind, FileState.CLEANED))
    LOCAL.sync_dir(log.directory)
    old = [segment for segment in log.segments if segment.base_offset < spread.first_uncleanable]
    log.replace_segments(new, old, truncation_count=log.truncation_count)
    log.remove_deleted()
