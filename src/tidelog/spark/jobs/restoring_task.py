"""The logs that one task writes. Its rows come partition by partition, each by ascending offset.

Spark runs it in a task of the restore job. If a partition fails, its row has the error and the task goes on with the
next one.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.model import TidelogError, TopicPartition
from tidelog.spark.jobs.restored_log import LogRestoring
from tidelog.spark.jobs.staging import new_staging
from tidelog.storage.log.state.log_config import LogConfig

WRITTEN = pa.schema(
    [
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("staging", pa.string()),
        pa.field("endOffset", pa.int64()),
        pa.field("segments", pa.int32()),
        pa.field("logBytes", pa.int64()),
        pa.field("error", pa.string()),
    ]
)
"""``staging`` is the directory of the complete log on disk. With an error, it and the other values are null."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A task's view of the log directory, as a value that every task receives."""

    log_dir: Path
    job_id: str
    configs: Mapping[str, LogConfig]
    """The configurations by topic."""
    topic_ids: Mapping[TopicPartition, uuid.UUID]
    """The topic ids of partitions for which they are known."""


def write_logs(target: Target, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Write the logs and yield a row of ``WRITTEN`` for each partition."""
    log: _Log | None = None
    for batch in batches:
        for partition, rows in _by_partition(batch):
            if log is None or log.partition != partition:
                if log is not None:
                    yield log.finish()
                log = _Log(target, partition)
            log.append(rows)
    if log is not None:
        yield log.finish()


class _Log:
    """A log being written, or the error that ended it."""

    def __init__(self, target: Target, partition: TopicPartition) -> None:
        self.partition = partition
        self._target = target
        self._restoring: LogRestoring | None = None
        self._error: TidelogError | None = None

    def append(self, rows: pa.RecordBatch) -> None:
        if self._error is not None:
            return
        try:
            if self._restoring is None:
                self._restoring = self._begin(rows.column("offset")[0].as_py())
            self._restoring.append(rows)
        except TidelogError as error:
            self._error = error
            if self._restoring is not None:
                self._restoring.abandon()

    def finish(self) -> pa.RecordBatch:
        done: tuple[str | int | None, ...] = (None,) * 4
        if self._error is None:
            assert self._restoring is not None
            try:
                log = self._restoring.finish()
                done = (str(log.directory), log.end_offset, log.segments, log.size)
            except TidelogError as error:
                self._error = error
        row = (*self.partition, *done, None if self._error is None else str(self._error))
        return pa.RecordBatch.from_pylist([dict(zip(WRITTEN.names, row, strict=True))], schema=WRITTEN)

    def _begin(self, first_offset: int) -> LogRestoring:
        target, partition = self._target, self.partition
        return LogRestoring(
            new_staging(target.log_dir, partition, target.job_id),
            target.configs[partition.topic],
            first_offset=first_offset,
            topic_id=target.topic_ids.get(partition),
        )


def _by_partition(batch: pa.RecordBatch) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    if not batch.num_rows:
        return
    topics, numbers = batch.column("topic"), batch.column("partition")
    last = batch.num_rows - 1
    changes = pc.or_(
        pc.not_equal(topics.slice(1), topics.slice(0, last)), pc.not_equal(numbers.slice(1), numbers.slice(0, last))
    )
    cuts = [0, *(np.flatnonzero(changes.to_numpy(zero_copy_only=False)) + 1).tolist(), batch.num_rows]
    for first, end in pairwise(cuts):
        partition = TopicPartition(topics[first].as_py(), numbers[first].as_py())
        yield partition, batch.slice(first, end - first)
