"""The tables that are made one partition at a time, and the handling of damage in them.

================  =====================================================================================================
table             rows
================  =====================================================================================================
``index``         index entries (``index_rows``)
``producers``     every producer that a partition knows at its log end, from the newest snapshot and the batches after
                  it, as when a broker loads the log. No producer has expired. Unknown numbers are null
``transactions``  every open transaction, with the data it blocks and a verdict, as in ``tidelog transactions``, judged
                  as of the read's planning. If one is open, the coordinators' logs in all directories are searched
``groups``        every committed offset of a group. ``topic`` and ``partition`` name the consumed partition, and the
                  subscription selects by them; ``sourcePartition`` and ``sourceOffset`` name the commit's place.
                  Undecodable records, such as those of a newer Kafka, are skipped, and their number is reported
================  =====================================================================================================

A table yields its rows as it goes, and a TidelogError for each part that it cannot read. ``onCorrupt`` decides: the
error ends the read (``fail``), is ignored (``skip``), or becomes a row (``report``). That row has the topic, the
partition, the directory, the offset if the table has one, and the sentence in ``corrupt``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping

import pyarrow as pa

from tidelog.inspect.committed_offsets import CommittedOffset, partition_offsets
from tidelog.inspect.transaction_survey import JudgedTransaction, survey_transactions
from tidelog.inspect.transactions import partition_transactions
from tidelog.model import CorruptRecordError, FileMissingError, TidelogError
from tidelog.spark.read.options import OnCorrupt, ReadOptions, Until
from tidelog.spark.read.schema import TABLES
from tidelog.spark.read.table_columns import Mode
from tidelog.spark.read.whole_partition import WholePartition
from tidelog.spark.rows.index_rows import index_rows
from tidelog.spark.rows.storage_rows import microseconds
from tidelog.storage.fs import path_of
from tidelog.storage.log.view.log_view import Until as ViewUntil
from tidelog.storage.log.view.view_producers import read_producers
from tidelog.storage.producer.entry import ProducerEntry

_ROWS = 64 * 1024
"""The rows of one Arrow batch: a partition may know a million producers."""


def producer_rows(whole: WholePartition, _options: ReadOptions) -> Iterator[pa.RecordBatch | TidelogError]:
    entries = list(read_producers(whole.view()).values())
    for start in range(0, len(entries), _ROWS):
        rows = [_producer(whole, entry) for entry in entries[start : start + _ROWS]]
        yield pa.RecordBatch.from_pylist(rows, schema=TABLES[Mode.PRODUCERS])


def _producer(whole: WholePartition, entry: ProducerEntry) -> dict[str, object]:
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


def transaction_rows(whole: WholePartition, options: ReadOptions) -> Iterator[pa.RecordBatch | TidelogError]:
    open_ = partition_transactions(whole.view(), whole.partition)
    paths = [path_of(name) for name in options.log_dirs]
    survey = survey_transactions(whole.fs, paths, open_, now_ms=whole.now_ms, threads=1)
    yield pa.RecordBatch.from_pylist(
        [_transaction(whole, one) for one in survey.transactions], schema=TABLES[Mode.TRANSACTIONS]
    )


def _transaction(whole: WholePartition, judged: JudgedTransaction) -> dict[str, object]:
    found, known = judged.transaction, judged.judgement.known
    return {
        "topic": found.partition.topic,
        "partition": found.partition.partition,
        "producerId": found.producer_id,
        "producerEpoch": found.producer_epoch,
        "coordinatorEpoch": found.coordinator_epoch,
        "startOffset": found.start_offset,
        "startTimestamp": microseconds(found.start_timestamp),
        "lastOffset": found.last_offset,
        "lastTimestamp": microseconds(found.last_timestamp),
        "recordCount": found.records,
        "sizeBytes": found.bytes,
        "heldBackRecords": found.held_back_records,
        "heldBackOffsets": found.held_back_offsets,
        "heldBackBytes": found.held_back_bytes,
        "logStartOffset": found.log_start,
        "lastStableOffset": found.last_stable,
        "highWatermark": found.high_watermark,
        "logEndOffset": found.log_end,
        "transactionalId": None if known is None else known.name,
        "state": None if known is None else known.state,
        "timeoutMs": None if known is None else known.timeout_ms,
        "verdict": judged.judgement.verdict.value,
        "reason": judged.judgement.reason,
        "logDir": whole.log_dir,
    }


def group_rows(whole: WholePartition, options: ReadOptions) -> Iterator[pa.RecordBatch | TidelogError]:
    until = None if options.until is Until.AUTO else ViewUntil(options.until.value)
    found = partition_offsets(whole.view(), whole.partition, until=until)
    rows = [
        _commit(whole, commit)
        for (_group, partition), commit in sorted(found.offsets.items())
        if options.subscription.covers(partition)
    ]
    yield pa.RecordBatch.from_pylist(rows, schema=TABLES[Mode.GROUPS])
    if found.error is not None:
        raise found.error
    if found.undecoded and options.on_corrupt is OnCorrupt.REPORT:
        yield CorruptRecordError(f"{found.undecoded} keys or values were not decoded", path=whole.directory)


def _commit(whole: WholePartition, commit: CommittedOffset) -> dict[str, object]:
    return {
        "group": commit.group,
        "topic": commit.partition.topic,
        "partition": commit.partition.partition,
        "offset": commit.offset,
        "leaderEpoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commitTimestamp": microseconds(commit.commit_timestamp),
        "sourcePartition": commit.source.partition,
        "sourceOffset": commit.source_offset,
        "logDir": whole.log_dir,
    }


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
