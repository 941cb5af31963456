"""The batch reader that Spark drives: ``partitions`` in a planning worker, ``read`` in the executors' workers.

Two classes, because a reader that has ``pushFilters`` is refused by Spark where pushdown is switched off. What plans
and what makes each table is imported when it is asked for: no worker does both, and workers are started for each query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.spark.read.options import ReadOptions
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.schema import Mode
from tidelog.spark.worker.speaking_up import short_errors, short_errors_of_items, speaking_reduce
from tidelog.spark.worker.zip_finders import forget_zip_finders

if TYPE_CHECKING:
    from tidelog.spark.read.split import Piece


class LogReader(DataSourceReader):
    def __init__(self, options: ReadOptions, pruning: Pruning | None = None) -> None:
        self.options = options
        self.pruning = Pruning() if pruning is None else pruning

    @short_errors
    def partitions(self) -> list[InputPartition]:
        from tidelog.spark.read.planner import plan
        from tidelog.spark.read.split import LogSplit

        # Spark reads no splits as one split without a value; an empty one says what is meant.
        splits = list(plan(self.options, self.pruning)) or [LogSplit()]
        forget_zip_finders()
        return splits

    @short_errors_of_items
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Arrow batches; their schema is ``options.arrow_schema`` exactly."""
        from tidelog.spark.read.split import LogSplit

        assert isinstance(partition, LogSplit)
        schema = self.options.arrow_schema
        try:
            for piece in partition.pieces:
                yield from self._piece(piece, schema)
            if partition.whole:
                from tidelog.spark.rows.partition_rows import partition_rows

                for whole in partition.whole:
                    yield from partition_rows(whole, self.options, schema)
        finally:
            forget_zip_finders()

    def _piece(self, piece: Piece, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        match self.options.mode:
            case Mode.RECORDS:
                from tidelog.spark.rows.record_rows import record_batches

                return record_batches(piece, self.options, schema, self.pruning.min_timestamp_ms)
            case Mode.BATCHES:
                from tidelog.spark.rows.storage_rows import batch_rows

                return batch_rows(piece, self.options, schema)
            case Mode.SEGMENTS:
                from tidelog.spark.rows.storage_rows import segment_rows

                return segment_rows(piece, schema)
        raise AssertionError(f"the table of {self.options.mode} is made of whole partitions")

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return speaking_reduce(type(self), self.options, self.pruning)


class PushdownLogReader(LogReader):
    """Takes filters in to narrow what is read; Spark evaluates them all again on the rows."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 (Spark's name)
        self.pruning = self.pruning.narrowed(filters)
        return filters
