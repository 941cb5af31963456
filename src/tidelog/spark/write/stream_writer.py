"""The stream sink that Spark drives: each batch takes effect once, however often Spark repeats it.

There are two classes, because PySpark before 4.1 passes a stream's rows one by one. Spark makes one writer for the
tasks of a batch, and another one in a worker on the driver's machine for the commit. They share only the tasks'
reports.

Spark's task properties name the query and the batch. The query's id is stored in its checkpoint, so it survives a
restart, and a repeated batch has the same number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage

from tidelog.model import ConfigError
from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.spark.worker import clear_zipimport_cache, reduce_with_import_hint, short_errors
from tidelog.spark.write.batch_writer import reports_of
from tidelog.spark.write.commit import Commits
from tidelog.spark.write.sink_columns import SinkColumns
from tidelog.spark.write.staging import StagedReport, Staging, Task
from tidelog.spark.write.topic_layout import TopicLayouts
from tidelog.spark.write.write_options import WriteOptions
from tidelog.storage.fs import LOCAL

_QUERY = "sql.streaming.queryId"
_BATCH = "streaming.sql.batchId"


class LogStreamWriter(DataSourceStreamWriter):
    """A writer with ``layouts`` None can only commit or abort."""

    def __init__(self, options: WriteOptions, columns: SinkColumns, layouts: TopicLayouts | None) -> None:
        self.options = options
        self.columns = columns
        self.layouts = layouts

    @short_errors
    def write(self, iterator: Iterator[Row]) -> StagedReport:
        return self.stage(self.columns.of_rows(iterator))

    def stage(self, batches: Iterable[pa.RecordBatch]) -> StagedReport:
        assert self.layouts is not None
        context = TaskContext.get()
        assert context is not None
        task = Task(number=context.partitionId(), query=_told(context, _QUERY), batch=int(_told(context, _BATCH)))
        staging = Staging(LOCAL, self.options, self.layouts, clock=SYSTEM_CLOCK)
        try:
            return staging.stage(task, batches)
        finally:
            clear_zipimport_cache()

    @short_errors
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        reports = reports_of(messages)
        self._commits.commit(reports[0].query, batchId, reports)

    @short_errors
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove the reported files. The batch's commit removes the files of other tasks when Spark repeats it."""
        self._commits.abort(reports_of(messages))

    @property
    def _commits(self) -> Commits:
        return Commits(LOCAL, self.options, clock=SYSTEM_CLOCK)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return reduce_with_import_hint(type(self), self.options, self.columns, self.layouts)


def _told(context: TaskContext, name: str) -> str:
    value: str | None = context.getLocalProperty(name)
    if value is None:
        raise ConfigError(f"Spark did not pass {name} to its task: this is not a batch of a streaming query")
    return value
