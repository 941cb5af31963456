"""Batches to be cleaned, and the functions with which the tests of this directory clean them."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import Buffer

from tidelog.kernel import ColumnDecoder, OffsetMap, scan_batches
from tidelog.kernel.table import BatchTable
from tidelog.model import Record, TimestampType
from tidelog.record.build import build_batch
from tidelog.record.cleaning import BatchRetention, CleaningRules, Retention, clean_batches, hash_keys, put_keys
from tidelog.record.cleaning.clean_batches import CleanedBatches
from tidelog.record.decode import decode_chunk, iter_records

NOW = 1_700_000_000_000
RULES = CleaningRules(now_ms=NOW, delete_retention_ms=1000)
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


def record(offset: int, key: bytes | None, value: bytes | None = b"value", timestamp: int | None = None) -> Record:
    return Record(offset, 1000 + offset if timestamp is None else timestamp, TimestampType.CREATE, key, value)


def batch_of(*records: Record, base_offset: int | None = None, **fields: Any) -> bytes:
    first = records[0].offset if base_offset is None else base_offset
    return bytes(build_batch(list(records), base_offset=first, keep_offsets=True, **fields))


def fates_of(
    table: BatchTable,
    retention: Retention = Retention.DELETE_EMPTY,
    *,
    discard: bool = False,
    ends_empty_transaction: bool = False,
) -> BatchRetention:
    count = len(table)
    return BatchRetention(
        retention=np.full(count, retention, np.uint8),
        discard=np.full(count, discard),
        ends_empty_transaction=np.full(count, ends_empty_transaction),
    )


def map_of(data: Buffer, start_offset: int = 0) -> OffsetMap:
    offset_map = OffsetMap(24 * 1000, key=bytes(16))
    table = scan_batches(data)
    wanted = ~table.is_control
    hashed = hash_keys(offset_map, data, table, wanted=wanted, start_offset=start_offset)
    assert put_keys(offset_map, hashed, start_offset=start_offset)
    return offset_map


def clean(
    data: Buffer, *, offset_map: OffsetMap | None = None, rules: CleaningRules = RULES, **fates: Any
) -> CleanedBatches:
    table = scan_batches(data)
    if offset_map is None:
        offset_map = map_of(data)
    return clean_batches(data, table, fates_of(table, **fates), offset_map, rules)


def records_of(cleaned: CleanedBatches) -> list[Record]:
    decoder = ColumnDecoder()
    table = scan_batches(cleaned.data)
    assert table.summary.sound
    assert decode_chunk(cleaned.data, table, decoder) == len(table)
    return list(iter_records(decoder.finish()))
