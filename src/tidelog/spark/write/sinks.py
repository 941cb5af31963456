"""The sinks that the data source gives Spark, made from options and schema.

They are separate from the data source, because writers load the half of tidelog that writes logs, and no reader needs
it.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import pyspark.sql.datasource
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter
from pyspark.sql.types import StructType

from tidelog.model import ConfigError
from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.spark.worker import COMMITTING, runs_in
from tidelog.spark.write.batch_writer import LogWriter
from tidelog.spark.write.commit import Commits
from tidelog.spark.write.sink_columns import SinkColumns
from tidelog.spark.write.stream_writer import LogStreamWriter
from tidelog.spark.write.topic_layout import TopicLayouts
from tidelog.spark.write.write_options import WriteOptions, option_warnings
from tidelog.storage.fs import LOCAL

_log = logging.getLogger(__name__)
_ARROW_STREAMS = "DataSourceStreamArrowWriter"
"""PySpark's class for a stream writer that receives Arrow batches. Older versions lack it."""


def batch_sink(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceWriter:
    """Return the writer of a batch write. ConfigError names the option or column. Raise LockedError if another process
    holds the directory and keeps it."""
    options, columns = _parsed(given, schema, overwrite)
    return LogWriter(options, columns, _planned(given, options))


def stream_sink(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> DataSourceStreamWriter:
    """Return the writer of a stream, with the same errors as ``batch_sink``."""
    options, columns = _parsed(given, schema, overwrite)
    layouts = None if runs_in(COMMITTING) else _planned(given, options)
    if not hasattr(pyspark.sql.datasource, _ARROW_STREAMS):
        return LogStreamWriter(options, columns, layouts)
    from tidelog.spark.write.arrow_stream_writer import ArrowLogStreamWriter

    return ArrowLogStreamWriter(options, columns, layouts)


def _parsed(given: Mapping[str, str], schema: StructType, overwrite: bool) -> tuple[WriteOptions, SinkColumns]:
    if overwrite:
        raise ConfigError("A write appends to logs: its mode must be append, not overwrite or complete")
    options = WriteOptions.parse(given)
    return options, SinkColumns.of(schema, options.topic)


def _planned(given: Mapping[str, str], options: WriteOptions) -> TopicLayouts:
    """Prepare the directory and read the topics' layouts. It runs before any task."""
    for warning in option_warnings(given):
        _log.warning("%s", warning)
    Commits(LOCAL, options, clock=SYSTEM_CLOCK).prepare()
    return TopicLayouts.read(LOCAL, options)
