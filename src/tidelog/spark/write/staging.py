"""A task's part of a write: it turns rows into staged files and a report of them.

Rows are gathered to some megabytes, grouped by partition, and encoded column by column. No record becomes a Python
object. A task that ends early removes the files it wrote, unless it is killed.

``timestamp`` is the time of the encoding, as the producer's (create time). A topic with ``message.timestamp.type`` =
``LogAppendTime`` gets the same time as the broker's. A topic with a ``compression.type`` other than the producer's is
stored with its own, as by a broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from tidelog.model import RecordTooLargeError, TimestampType, TopicPartition
from tidelog.record.arrow import from_arrow
from tidelog.record.build import build_batches
from tidelog.runtime import Clock
from tidelog.spark.write.placement import Placement
from tidelog.spark.write.staged_files import StagedFiles
from tidelog.spark.write.topic_layout import TopicLayout, TopicLayouts
from tidelog.spark.write.write_options import WriteOptions
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.append.append_rules import stored_compression
from tidelog.storage.manager.staged.staged_commit import StagedFile

_GATHERED_BYTES = 32 * 1024 * 1024
"""Enough for full batches in dozens of partitions. A task needs a few times as much memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """``number`` is the task's number in its job. ``query`` and ``batch`` are those of ``StagedCommit``."""

    number: int
    query: str
    batch: int | None


@dataclass(frozen=True, kw_only=True)
class StagedReport(WriterCommitMessage):
    """The files that a task has staged, for the commit. A partition that only has to be created has no files."""

    query: str
    batch: int | None
    files: Mapping[TopicPartition, tuple[StagedFile, ...]]


class Staging:
    def __init__(self, fs: FileSystem, options: WriteOptions, layouts: TopicLayouts, *, clock: Clock) -> None:
        self._fs = fs
        self._options = options
        self._layouts = layouts
        self._clock = clock

    def stage(self, task: Task, batches: Iterable[pa.RecordBatch]) -> StagedReport:
        """Stage ``batches``, which have the columns of ``SinkColumns``. Raise the errors of ``Placement.by_partition``,
        InvalidRecordError for headers without a key, RecordTooLargeError for a record above its topic's limit, or
        StorageError."""
        files = StagedFiles(self._fs, self._options.log_dir, task.query, task.batch)
        placement = Placement(self._options, self._layouts, task.number)
        try:
            for rows in _gathered(batches):
                for partition, records in placement.by_partition(rows):
                    self._append(files, partition, records)
            staged = files.finish()
        except BaseException:
            files.remove()
            raise
        made = {
            TopicPartition(topic, number): ()
            for topic in {partition.topic for partition in staged}
            for number in self._layouts.of(topic).missing
        }
        return StagedReport(query=task.query, batch=task.batch, files=made | staged)

    def _append(self, files: StagedFiles, partition: TopicPartition, records: pa.Table) -> None:
        layout = self._layouts.of(partition.topic)
        for batch in self._encode(records, layout):
            if len(batch) > layout.max_batch_bytes:
                raise RecordTooLargeError(
                    f"a record for {partition} makes a batch of {len(batch)} bytes, its topic takes "
                    f"{layout.max_batch_bytes} (max.message.bytes, segment.bytes)"
                )
            files.append(partition, batch, max_file_bytes=layout.max_file_bytes)

    def _encode(self, records: pa.Table, layout: TopicLayout) -> list[bytearray]:
        now_ms = self._clock.now_ms()
        codec, level = stored_compression(layout.config)
        by_broker = layout.config.message_timestamp_type == "LogAppendTime"
        return build_batches(
            from_arrow(records, default_timestamp_ms=now_ms),
            max_batch_bytes=min(self._options.batch_bytes, layout.max_batch_bytes),
            codec=self._options.codec if codec is None else codec,
            level=self._options.level if codec is None else level,
            timestamp_type=TimestampType.LOG_APPEND if by_broker else TimestampType.CREATE,
            append_time_ms=now_ms if by_broker else None,
        )


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if not batch.num_rows:
            continue
        gathered.append(batch)
        size += batch.nbytes
        if size >= _GATHERED_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)
