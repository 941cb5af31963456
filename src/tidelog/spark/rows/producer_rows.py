"""The ``producers`` table: a row for every producer that a partition knows at its log end.

The rows come from the newest snapshot and the batches after it, as when a broker loads the log. No producer has
expired. ``lastSequence``, ``lastOffset`` and the epochs are null if they are not known.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidelog.model import TidelogError
from tidelog.spark.read.options import ReadOptions
from tidelog.spark.read.whole_partition import WholePartition
from tidelog.spark.rows.storage_rows import microseconds
from tidelog.spark.schema import PRODUCERS
from tidelog.storage.log.view.view_producers import read_producers
from tidelog.storage.producer.entry import ProducerEntry

_ROWS = 64 * 1024
"""The rows of one Arrow batch: a partition may know a million producers."""


def producer_rows(whole: WholePartition, _options: ReadOptions) -> Iterator[pa.RecordBatch | TidelogError]:
    entries = list(read_producers(whole.view()).values())
    for start in range(0, len(entries), _ROWS):
        rows = [_row(whole, entry) for entry in entries[start : start + _ROWS]]
        yield pa.RecordBatch.from_pylist(rows, schema=PRODUCERS)


def _row(whole: WholePartition, entry: ProducerEntry) -> dict[str, object]:
    return {
        "topic": whole.partition.topic,
        "partition": whole.partition.partition,
        "producerId": entry.producer_id,
        "producerEpoch": _known(entry.producer_epoch),
        "coordinatorEpoch": _known(entry.coordinator_epoch),
        "lastSequence": _known(entry.last_sequence),
        "lastOffset": _known(entry.last_data_offset),
        "lastTimestamp": microseconds(_known(entry.last_timestamp)),
        "transactionStartOffset": entry.transaction_first_offset,
        "logDir": whole.log_dir,
    }


def _known(value: int) -> int | None:
    return value if value >= 0 else None
