"""Compact one large log with many Spark tasks; what is left is what one process leaves.

======  ================================  ============================================================================
step    where                             what
======  ================================  ============================================================================
1       the driver                        loads the log, groups its segments (``SpreadLog``)
2       a task                            passes the headers: which transactions are known where a group begins
3       a task a group                    finds the group's keys, each with its latest offset in the dirty part
4       a task a range of keys' hashes    the latest offset of each key of all groups, for every group that has the key
5       a task a group                    rewrites it, by the keys that it has, into a directory of its own
6       the driver                        moves what was written beside the log, and swaps it in at once
======  ================================  ============================================================================

No task holds more keys than its group has, so there is one round, however many keys the log has.
What is written meanwhile lies in ``staging`` directories, so until step 6 the log is as it was; in it, a crash leaves
the one or the other (``segment_swap``).

Called by: the compaction job, on the driver, which holds the directory.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from tidelog.model import TidelogError
from tidelog.runtime import Clock
from tidelog.spark.jobs.compaction.group_keys import keys_of_group
from tidelog.spark.jobs.compaction.group_rewriting import Rewritten, rewrite_group
from tidelog.spark.jobs.compaction.key_ranges import KEYS, cut, from_block, of_all_groups, ranges_of, to_block
from tidelog.spark.jobs.compaction.spread_log import SpreadLog, transactions_at_groups
from tidelog.spark.jobs.staging import new_job_id, remove_staging
from tidelog.spark.jobs.tasks import run_tasks
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.compact.log_compaction import CompactedLog, LogToCompact
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, FileState, segment_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class _Draft(NamedTuple):
    base_offset: int
    size: int
    path: Path


def compact_spread(spark: SparkSession, work: LogToCompact, *, clock: Clock) -> CompactedLog | TidelogError:
    """What was done, or why the log is as it was."""
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
    """Steps 2 to 5; in order of the groups."""
    [states] = run_tasks(spark, [spread], transactions_at_groups)
    if isinstance(states, TidelogError):
        raise states
    context, count = spark.sparkContext, len(spread.groups)
    numbers = context.parallelize(range(count), count)
    keys = numbers.flatMap(partial(_keys_by_range, spread)).groupByKey(count, partitionFunc=_itself)
    # A group may have no key that counts; it is rewritten all the same.
    latest = keys.flatMap(_latest_by_group).union(numbers.map(_nothing)).groupByKey(count, partitionFunc=_itself)
    found = latest.map(partial(_rewrite, spread, states)).collect()
    for one in found:
        if isinstance(one, TidelogError):
            raise one
    return sorted(found, key=lambda one: one.number)


Block = bytes | TidelogError
"""Keys, or why there are none: an error goes on through the steps to the end."""


def _itself(number: int) -> int:
    return number


def _nothing(number: int) -> tuple[int, Block]:
    return number, to_block(KEYS.empty_table())


def _keys_by_range(spread: SpreadLog, number: int) -> Iterator[tuple[int, Block]]:
    """Step 3; by numbers of ranges, as many as there are groups."""
    try:
        keys = keys_of_group(spread, number)
    except TidelogError as error:
        yield 0, error
    else:
        yield from cut(keys, ranges_of(keys.column("key"), len(spread.groups)))


def _latest_by_group(entry: tuple[int, Iterable[Block]]) -> Iterator[tuple[int, Block]]:
    """Step 4; by numbers of groups."""
    tables = []
    for block in entry[1]:
        if isinstance(block, TidelogError):
            yield 0, block
            return
        tables.append(from_block(block))
    latest = of_all_groups(pa.concat_tables(tables))
    yield from cut(latest, latest.column("number").to_numpy().astype(np.int64))


def _rewrite(
    spread: SpreadLog, states: Sequence[bytes], entry: tuple[int, Iterable[Block]]
) -> Rewritten | TidelogError:
    """Step 5."""
    number, tables = entry[0], []
    for block in entry[1]:
        if isinstance(block, TidelogError):
            return block
        tables.append(from_block(block))
    try:
        return rewrite_group(spread, number, pa.concat_tables(tables), pickle.loads(states[number]))
    except TidelogError as error:
        return error


def _swap_in(log: PartitionLog, spread: SpreadLog, rewritten: list[Rewritten]) -> None:
    """Step 6. The order of the moves says nothing: until the swap begins all of it is rubbish to a loading."""
    drafts = []
    for one in rewritten:
        place = segment_file(log.directory, one.base_offset, FileKind.LOG, FileState.CLEANED)
        drafts.append(_Draft(one.base_offset, one.size, place))
        for kind in SEGMENT_KINDS:
            source = segment_file(one.staging, one.base_offset, kind, FileState.CLEANED)
            if LOCAL.exists(source):
                LOCAL.rename(source, segment_file(log.directory, one.base_offset, kind, FileState.CLEANED))
    LOCAL.sync_dir(log.directory)
    old = [segment for segment in log.segments if segment.base_offset < spread.first_uncleanable]
    log.replace_segments(drafts, old, cuts=log.cuts)
    log.remove_deleted()
