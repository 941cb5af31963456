"""The tables that are made one partition at a time, and the handling of damage in them.

A table yields its rows as it goes, and a TidelogError for each part that it cannot read. ``onCorrupt`` decides: the
error ends the read (``fail``), is ignored (``skip``), or becomes a row (``report``). That row has the topic, the
partition, the directory, the offset if the table has one, and the sentence in ``corrupt``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from tidelog.model import FileMissingError, TidelogError
from tidelog.spark.read.options import OnCorrupt, ReadOptions
from tidelog.spark.read.whole_partition import WholePartition
from tidelog.spark.rows.group_rows import group_rows
from tidelog.spark.rows.index_rows import index_rows
from tidelog.spark.rows.producer_rows import producer_rows
from tidelog.spark.rows.transaction_rows import transaction_rows
from tidelog.spark.schema import Mode

_log = logging.getLogger(__name__)

_TABLES: Mapping[Mode, Callable[[WholePartition, ReadOptions], Iterator[pa.RecordBatch | TidelogError]]] = {
    Mode.INDEX: index_rows,
    Mode.PRODUCERS: producer_rows,
    Mode.TRANSACTIONS: transaction_rows,
    Mode.GROUPS: group_rows,
}


def partition_rows(whole: WholePartition, options: ReadOptions, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for found in _found(whole, options):
        if isinstance(found, pa.RecordBatch):
            if found.num_rows:
                yield _shaped(found, schema)
        elif options.on_corrupt is OnCorrupt.FAIL:
            raise found
        elif options.on_corrupt is OnCorrupt.REPORT:
            yield _damage(whole, found, schema)


def _found(whole: WholePartition, options: ReadOptions) -> Iterator[pa.RecordBatch | TidelogError]:
    try:
        yield from _TABLES[options.mode](whole, options)
    except FileMissingError:
        if options.fail_on_data_loss or whole.fs.exists(whole.directory):
            raise
        _log.warning("%s was deleted since the read was planned", whole.partition)
    except TidelogError as error:
        yield error


def _shaped(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    columns["corrupt"] = pa.nulls(batch.num_rows, pa.string())
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _damage(whole: WholePartition, error: TidelogError, schema: pa.Schema) -> pa.RecordBatch:
    row = {
        "topic": whole.partition.topic,
        "partition": whole.partition.partition,
        "offset": error.offset,
        "logDir": whole.log_dir,
        "corrupt": str(error),
    }
    return pa.RecordBatch.from_pylist([{name: row.get(name) for name in schema.names}], schema=schema)
