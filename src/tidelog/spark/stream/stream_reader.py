"""The stream reader that Spark drives, in one long-lived worker of the driver and on executors.

PySpark before 4.2 asks for the latest offset without an argument, as this class expects. For newer versions see
``admitting_reader``. The state is a ``StreamProgress`` for the run that this process serves. Only the options are
pickled for the executors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from tidelog.runtime.clock import SYSTEM_CLOCK
from tidelog.spark.rows.input_partition import LogInputPartition
from tidelog.spark.rows.reader import LogReader
from tidelog.spark.stream.log_once import LogOnce
from tidelog.spark.stream.stream_offsets import from_json, to_json
from tidelog.spark.stream.stream_options import StreamOptions
from tidelog.spark.stream.stream_progress import StreamProgress
from tidelog.spark.worker import clear_zipimport_cache, reduce_with_import_hint, short_errors

_log = logging.getLogger(__name__)


class LogStreamReader(DataSourceStreamReader):
    def __init__(self, options: StreamOptions) -> None:
        self.options = options
        self.progress = StreamProgress(options, clock=SYSTEM_CLOCK.monotonic_ms, warn=LogOnce(_log))

    @short_errors
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's name)
        return to_json(self.progress.initial())

    @short_errors
    def latestOffset(self) -> dict[str, Any]:  # noqa: N802
        return to_json(self.progress.next_end())

    @short_errors
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        splits = self.progress.splits(from_json(start), from_json(end))
        clear_zipimport_cache()
        return [LogInputPartition(split) for split in splits]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a split as in a batch read."""
        return LogReader(self.options.read).read(partition)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return reduce_with_import_hint(type(self), self.options)
