"""The batch reader that Spark drives: ``partitions`` in a planning worker, ``read`` on executors.

There are two classes, because Spark refuses a reader with ``pushFilters`` if pushdown is switched off. The planner and
the tables' modules are imported on use: no worker needs both, and workers are started for each query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.spark.read.options import ReadOptions
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.read.table_columns import Mode
from tidelog.spark.worker import clear_zipimport_cache, reduce_with_import_hint, short_errors, short_errors_of_items

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
        from tidelog.spark.rows.input_partition import LogInputPartition

        # Spark treats an empty list as one split without a value, so an explicit empty split is clearer.
        splits = plan(self.options, self.pruning) or [LogSplit()]
        clear_zipimport_cache()
        return [LogInputPartition(split) for split in splits]

    @short_errors_of_items
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield Arrow batches. Their schema is exactly ``options.arrow_schema``."""
        from tidelog.spark.rows.input_partition import LogInputPartition

        assert isinstance(partition, LogInputPartition)
        schema = self.options.arrow_schema
        try:
            for piece in partition.pieces:
                yield from self._piece(piece, schema)
            if partition.whole:
                from tidelog.spark.rows.partition_rows import partition_rows

                for whole in partition.whole:
                    yield from partition_rows(whole, self.options, schema)
        finally:
            clear_zipimport_cache()

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
        return reduce_with_import_hint(type(self), self.options, self.pruning)


class PushdownLogReader(LogReader):
    """A reader that accepts filters to narrow the read. Spark evaluates all of them again on the rows."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:  # noqa: N802 (Spark's name)
        self.pruning = self.pruning.narrowed(filters)
        return filters
