"""The data source that Spark finds under the name ``tidelog``. It creates readers and writers.

Spark imports this module in several short-lived workers for one query. Most of them only need a name or a schema, so
the modules that read and write are imported on use.
"""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from tidelog.model import ConfigError
from tidelog.spark.read.options import Reader, ReadOptions, Use, option_warnings
from tidelog.spark.read.schema import spark_schema
from tidelog.spark.worker import PUSHDOWN, clear_zipimport_cache, reduce_with_import_hint, runs_in, short_errors

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_log = logging.getLogger(__name__)
_ADMISSION = "pyspark.sql.streaming.datasource"
"""PySpark's module of read limits. If it exists, Spark passes a stream reader the start of a batch."""


class TidelogDataSource(DataSource):
    """The data source for batch and stream reads and writes. A read is
    ``spark.read.format("tidelog").option("logDirs", …).option("subscribe", …).load()``, or ``spark.readStream``. A
    write is ``frame.write.format("tidelog").option("logDirs", …).option("topic", …).mode("append").save()``."""

    @classmethod
    def name(cls) -> str:
        return "tidelog"

    @short_errors
    def schema(self) -> StructType:
        options = ReadOptions.parse(self.options, Use.TABLE)
        _refuse_jvm(options)
        schema = spark_schema(options.arrow_schema)
        clear_zipimport_cache()
        return schema

    @short_errors
    def reader(self, schema: StructType) -> DataSourceReader:
        options = ReadOptions.parse(self.options)
        _refuse_other_schema(schema, spark_schema(options.arrow_schema))
        for warning in option_warnings(self.options):
            _log.warning("%s", warning)
        from tidelog.spark.rows.reader import LogReader, PushdownLogReader

        clear_zipimport_cache()
        return PushdownLogReader(options) if _asked_by_pushdown() else LogReader(options)

    @short_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        from tidelog.spark.stream.stream_options import StreamOptions
        from tidelog.spark.stream.stream_reader import LogStreamReader

        options = StreamOptions.parse(self.options)
        _refuse_other_schema(schema, spark_schema(options.read.arrow_schema))
        for warning in option_warnings(self.options, Use.STREAM):
            _log.warning("%s", warning)
        clear_zipimport_cache()
        if importlib.util.find_spec(_ADMISSION) is None:
            return LogStreamReader(options)
        from tidelog.spark.stream.admitting_reader import AdmittingStreamReader

        return AdmittingStreamReader(options)

    @short_errors
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from tidelog.spark.write.sinks import batch_sink

        writer = batch_sink(self.options, schema, overwrite=overwrite)
        clear_zipimport_cache()
        return writer

    @short_errors
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        from tidelog.spark.write.sinks import stream_sink

        writer = stream_sink(self.options, schema, overwrite=overwrite)
        clear_zipimport_cache()
        return writer

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return reduce_with_import_hint(type(self), self.options)


def _refuse_jvm(options: ReadOptions) -> None:
    """Raise ConfigError if the JVM reader was asked for: with its jar, Spark would not have come here."""
    if options.reader is Reader.JVM:
        raise ConfigError(
            "Option 'reader' can't be jvm: this session's class path lacks the reader's jar; tidelog.spark.session() "
            "adds it, and tidelog.spark.jar_path() names it for spark.jars"
        )


def _refuse_other_schema(given: StructType, own: StructType) -> None:
    """Raise ConfigError for another schema: Spark passes the user's declared schema instead of the source's."""
    if given.simpleString() != own.simpleString():
        raise ConfigError(
            f"format tidelog has a fixed schema, which its options decide: {own.simpleString()}; "
            f"it can't be read as {given.simpleString()}"
        )


def _asked_by_pushdown() -> bool:
    """Return True if Spark's planner is about to push filters.

    A reader with ``pushFilters`` fails if ``spark.sql.python.filterPushdown.enabled`` is off. A planning worker cannot
    see that setting, but Spark pushes filters from a separate worker module.
    """
    return runs_in(PUSHDOWN)
