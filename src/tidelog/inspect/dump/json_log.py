"""A file of batches as JSON objects, one per record or one per batch.

An unreadable batch becomes an object of type ``error`` with position and offset, and the dump goes on. Thread rule: one
thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tidelog.inspect.dump.column_text import StringColumn
from tidelog.inspect.dump.json_payload import Json, PayloadJson, control_json, named_bytes, payload_json
from tidelog.inspect.dump.kafka_lines import last_sequences
from tidelog.inspect.dump.log_batches import BatchRun, batch_runs
from tidelog.inspect.dump.options import PayloadDecoder
from tidelog.kernel import BatchRow, BatchTable, RecordColumns
from tidelog.model import TidelogError, TimestampType
from tidelog.record.attributes import (
    CODECS,
    CONTROL_FLAG,
    DELETE_HORIZON_FLAG,
    TRANSACTIONAL_FLAG,
    codec_of,
    timestamp_type_of,
)
from tidelog.record.internal_records.text import java_text
from tidelog.storage.fs import File
from tidelog.storage.segment.segment_reader import file_chunks


def log_json(file: File, *, batches: bool, decoder: PayloadDecoder, max_bytes: int | None) -> Iterator[Json]:
    """Yield objects of type ``batch`` or ``record``, ``error``, and ``trailing_bytes`` if the file does not end with a
    batch."""
    end = file.size if max_bytes is None else min(file.size, max_bytes)
    payload = payload_json(decoder)
    position = 0
    for chunk in file_chunks(file, 0, end):
        position = chunk.table.end_position
        if batches:
            yield from _batch_objects(chunk.table)
            continue
        for run in batch_runs(chunk):
            yield from _record_objects(run, payload)
            if run.error is not None:
                yield error_json(run.error)
    if position < end and max_bytes is None:
        yield {"type": "trailing_bytes", "position": position, "size": end - position}


def error_json(error: TidelogError) -> Json:
    return {"type": "error", "message": error.message, "position": error.position, "offset": error.offset}


def _batch_objects(table: BatchTable) -> Iterator[Json]:
    sequences = last_sequences(table.base_sequence.astype("i8"), table.last_offset - table.base_offset).tolist()
    for number in range(len(table)):
        row = table.row(number)
        yield {
            "type": "batch",
            "position": row.position,
            "size": row.size,
            "base_offset": row.base_offset,
            "last_offset": row.last_offset,
            "count": row.record_count,
            "magic": row.magic,
            "codec": CODECS.get(codec_of(row.attributes)),
            "timestamp_type": _timestamp_name(row),
            "base_timestamp": row.base_timestamp,
            "max_timestamp": row.max_timestamp,
            "leader_epoch": row.leader_epoch,
            "producer_id": row.producer_id,
            "producer_epoch": row.producer_epoch,
            "base_sequence": row.base_sequence,
            "last_sequence": sequences[number],
            "is_transactional": _has(row, TRANSACTIONAL_FLAG),
            "is_control": _has(row, CONTROL_FLAG),
            "delete_horizon_ms": row.base_timestamp if _has(row, DELETE_HORIZON_FLAG) else None,
            "crc": row.crc,
            "is_valid": row.crc_ok,
        }


def _record_objects(run: BatchRun, payload: PayloadJson) -> Iterator[Json]:
    rows = [run.table.row(number) for number in range(run.first, run.last)]
    if run.columns is not None:
        yield from _column_objects(run.columns, run.first, rows, payload)
        return
    for message in run.messages or ():
        key = None if message.key is None else bytes(message.key)
        value = None if message.value is None else bytes(message.value)
        yield {
            **_head(message.offset, message.timestamp, message.timestamp_type, rows[0], -1),
            **payload(key, value),
            "headers": [],
        }


def _column_objects(
    columns: RecordColumns, first: int, rows: Sequence[BatchRow], payload: PayloadJson
) -> Iterator[Json]:
    assert columns.sequence is not None
    assert columns.batch is not None
    for offset, timestamp, kind, sequence, batch, key, value, headers in zip(
        columns.offset.tolist(),
        columns.timestamp.tolist(),
        columns.timestamp_type.tolist(),
        columns.sequence.tolist(),
        (columns.batch - first).tolist(),
        StringColumn.keys(columns).byte_strings(),
        StringColumn.values(columns).byte_strings(),
        _headers(columns),
        strict=True,
    ):
        row = rows[batch]
        data = control_json(key, value) if _has(row, CONTROL_FLAG) else payload(key, value)
        yield {**_head(offset, timestamp, kind, row, sequence), **data, "headers": headers}


def _head(offset: int, timestamp: int, kind: int, row: BatchRow, sequence: int) -> Json:
    return {
        "type": "record",
        "offset": offset,
        "timestamp": timestamp,
        "timestamp_type": TimestampType(kind).name.lower(),
        "position": row.position,
        "producer_id": row.producer_id,
        "sequence": sequence,
        "is_transactional": _has(row, TRANSACTIONAL_FLAG),
        "is_valid": row.crc_ok,
    }


def _headers(columns: RecordColumns) -> list[list[Json]]:
    assert columns.header_offsets is not None
    headers = [
        {"key": java_text(key or b"")} | named_bytes("value", value)
        for key, value in zip(
            StringColumn.header_keys(columns).byte_strings(),
            StringColumn.header_values(columns).byte_strings(),
            strict=True,
        )
    ]
    return [headers[start:end] for start, end in pairwise(columns.header_offsets.tolist())]


def _timestamp_name(row: BatchRow) -> str:
    return timestamp_type_of(row.attributes, row.magic).name.lower()


def _has(row: BatchRow, flag: int) -> bool:
    return row.magic >= 2 and row.attributes & flag != 0
