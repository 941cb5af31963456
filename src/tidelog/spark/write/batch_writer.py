"""The batch sink that Spark drives: planned and committed at the driver, written on executors.

Every write is a separate query with a random name. It is committed once and never repeated.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.spark.worker import clear_zipimport_cache, reduce_with_import_hint, short_errors
from tidelog.spark.write.commit import Commits
from tidelog.spark.write.sink_columns import SinkColumns
from tidelog.spark.write.staging import StagedReport, Staging, Task
from tidelog.spark.write.topic_layout import TopicLayouts
from tidelog.spark.write.write_options import WriteOptions
from tidelog.storage.fs import LOCAL


class LogWriter(DataSourceArrowWriter):
    def __init__(
        self, options: WriteOptions, columns: SinkColumns, layouts: TopicLayouts, query: str | None = None
    ) -> None:
        self.options = options
        self.columns = columns
        self.layouts = layouts
        self.query = uuid.uuid4().hex if query is None else query

    @short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedReport:
        context = TaskContext.get()
        assert context is not None
        staging = Staging(LOCAL, self.options, self.layouts, clock=SYSTEM_CLOCK)
        task = Task(number=context.partitionId(), query=self.query, batch=None)
        try:
            return staging.stage(task, map(self.columns.of_batch, iterator))
        finally:
            clear_zipimport_cache()

    @short_errors
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._commits.commit(self.query, None, reports_of(messages))

    @short_errors
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove staged files. Files of tasks that still run then stay until ``tidelog recover`` removes them."""
        self._commits.abort(reports_of(messages), self.query)

    @property
    def _commits(self) -> Commits:
        return Commits(LOCAL, self.options, clock=SYSTEM_CLOCK)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return reduce_with_import_hint(type(self), self.options, self.columns, self.layouts, self.query)


def reports_of(messages: list[WriterCommitMessage | None]) -> list[StagedReport]:
    """Return the reports of the tasks that have reported, by task."""
    return [message for message in messages if isinstance(message, StagedReport)]
