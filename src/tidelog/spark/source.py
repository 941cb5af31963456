"""The data source Spark finds under the name ``tidelog``: options and schema in, a reader or a writer out."""

from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyspark.sql.datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from tidelog.model import ConfigError
from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.spark.read.options import ReadOptions, Use, remarks
from tidelog.spark.read.reader import LogReader, PushdownLogReader
from tidelog.spark.schema import arrow_schema, spark_schema
from tidelog.spark.stream.stream_options import StreamOptions
from tidelog.spark.stream.stream_reader import LogStreamReader
from tidelog.spark.worker.speaking_up import short_errors, speaking_reduce
from tidelog.spark.worker.zip_finders import forget_zip_finders
from tidelog.spark.write.batch_writer import LogWriter
from tidelog.spark.write.commit import Commits
from tidelog.spark.write.sink_columns import SinkColumns
from tidelog.spark.write.stream_writer import LogStreamWriter
from tidelog.spark.write.topic_layout import TopicLayouts
from tidelog.spark.write.write_options import WriteOptions
from tidelog.spark.write.write_options import remarks as write_remarks
from tidelog.storage.fs import LOCAL

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)
_ADMISSION = "pyspark.sql.streaming.datasource"
"""PySpark's module of read limits: where it is there, a stream reader is told where a batch begins."""
_ARROW_STREAMS = "DataSourceStreamArrowWriter"
"""Where PySpark has it, a stream's rows can be had as Arrow batches."""
_PUSHDOWN_WORKER = "pyspark.sql.worker.data_source_pushdown_filters"
_COMMITTING_WORKER = "pyspark.sql.worker.python_streaming_sink_runner"


class TidelogDataSource(DataSource):
    """``spark.read.format("tidelog").option("logDirs", …).option("subscribe", …).load()``, or ``spark.readStream``;
    ``frame.write.format("tidelog").option("logDirs", …).option("topic", …).mode("append").save()``"""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    @short_errors
    def schema(self) -> StructType:
        schema = spark_schema(arrow_schema(ReadOptions.parse(self.options, Use.TABLE)))
        forget_zip_finders()
        return schema

    @short_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        options = ReadOptions.parse(self.options)
        _refuse_other_schema(schema, spark_schema(arrow_schema(options)))
        for remark in remarks(self.options):
            _log.warning("%s", remark)
        forget_zip_finders()
        return PushdownLogReader(options) if _asked_by_pushdown() else LogReader(options)

    @short_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        options = StreamOptions.parse(self.options)
        _refuse_other_schema(schema, spark_schema(arrow_schema(options.read)))
        for remark in remarks(self.options, Use.STREAM):
            _log.warning("%s", remark)
        forget_zip_finders()
        if importlib.util.find_spec(_ADMISSION) is None:
            return LogStreamReader(options)
        from tidelog.spark.stream.admitting_reader import AdmittingStreamReader

        return AdmittingStreamReader(options)

    @short_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        options, columns = self._sink(schema, overwrite)
        writer = LogWriter(options, columns, self._planned(options))
        forget_zip_finders()
        return writer

    @short_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        options, columns = self._sink(schema, overwrite)
        layouts = None if _runs_in(_COMMITTING_WORKER) else self._planned(options)
        forget_zip_finders()
        if not hasattr(pyspark.sql.datasource, _ARROW_STREAMS):
            return LogStreamWriter(options, columns, layouts)
        from tidelog.spark.write.arrow_stream_writer import ArrowLogStreamWriter

        return ArrowLogStreamWriter(options, columns, layouts)

    def _sink(self, schema: StructType, overwrite: bool) -> tuple[WriteOptions, SinkColumns]:
        if overwrite:
            raise ConfigError("A log is appended to: the mode of a write is append, not overwrite or complete")
        options = WriteOptions.parse(self.options)
        return options, SinkColumns.of(schema, options.topic)

    def _planned(self, options: WriteOptions) -> TopicLayouts:
        """Before any task runs; LockedError where another process has the directory, and keeps it."""
        for remark in write_remarks(self.options):
            _log.warning("%s", remark)
        Commits(LOCAL, options, clock=SYSTEM_CLOCK).prepare()
        return TopicLayouts.read(LOCAL, options)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return speaking_reduce(type(self), self.options)


def _refuse_other_schema(given: StructType, own: StructType) -> None:
    """A schema that the user declared is given in place of ours."""
    if given.simpleString() != own.simpleString():
        raise ConfigError(
            f"format tidelog has a fixed schema, which its options decide: {own.simpleString()}; "
            f"it can't be read as {given.simpleString()}"
        )


def _asked_by_pushdown() -> bool:
    """Whether Spark's planner is about to push filters.

    A reader that has ``pushFilters`` fails where the setting ``spark.sql.python.filterPushdown.enabled`` is off, and a
    planning worker cannot see the setting; but Spark pushes filters from a worker module of its own.
    """
    return _runs_in(_PUSHDOWN_WORKER)


def _runs_in(worker: str) -> bool:
    """Whether this process is one of Spark's workers that run that module."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return worker in sys.modules or (main is not None and main.name == worker)
