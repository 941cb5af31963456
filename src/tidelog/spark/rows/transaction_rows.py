"""The ``transactions`` table: a row for every open transaction, with the data it blocks and a verdict.

The rows match ``tidelog transactions``, judged as of the read's planning. If a transaction is open, the coordinators'
logs are searched in all directories of the read.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from tidelog.inspect.transaction_survey import JudgedTransaction, survey_transactions
from tidelog.inspect.transactions import partition_transactions
from tidelog.model import TidelogError
from tidelog.spark.read.options import ReadOptions
from tidelog.spark.read.whole_partition import WholePartition
from tidelog.spark.rows.storage_rows import microseconds
from tidelog.spark.schema import TRANSACTIONS
from tidelog.storage.fs import path_of


def transaction_rows(whole: WholePartition, options: ReadOptions) -> Iterator[pa.RecordBatch | TidelogError]:
    open_ = partition_transactions(whole.view(), whole.partition)
    paths = [path_of(name) for name in options.log_dirs]
    survey = survey_transactions(whole.fs, paths, open_, now_ms=whole.now_ms, threads=1)
    yield pa.RecordBatch.from_pylist([_row(whole, one) for one in survey.transactions], schema=TRANSACTIONS)


def _row(whole: WholePartition, judged: JudgedTransaction) -> dict[str, object]:
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
