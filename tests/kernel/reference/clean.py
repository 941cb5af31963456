"""The cleaner's filter. This is the twin of _clean.pyx, which has the contract of every function."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kernel.reference.encode import seal_batch
from kernel.reference.offset_map import OffsetMap
from kernel.reference.open_batch import CONTROL, DELETE_HORIZON, LOG_APPEND, Header, OpenBatch, check_rows, open_batch
from kernel.reference.record_reader import RawRecord
from kernel.reference.scan import V2_HEADER
from kernel.reference.varint import write_varint
from kernel.reference.wrap import wrap64
from tidelog.kernel.batch_retention import BatchRetention, CleaningRules, FilteredBatches, Retention
from tidelog.kernel.faults import OpenFault
from tidelog.kernel.table import BatchTable

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KEPT_ATTRIBUTES: Final = 0x38
"""The bits for timestamp type, transactional and control."""


def filter_batches(
    buffer: Buffer,
    table: BatchTable,
    decisions: BatchRetention,
    offset_map: OffsetMap,
    rules: CleaningRules,
    *,
    opened: Sequence[Buffer | None] | None = None,
    base_position: int = 0,
) -> FilteredBatches:
    columns = {name: getattr(decisions, name) for name in ("retention", "discard", "ends_empty_transaction")}
    check_rows(table, opened=opened, **columns)
    filtering = _Filter(offset_map, rules)
    data = memoryview(buffer).cast("B")
    for row in range(len(table)):
        if decisions.retention[row] == Retention.DELETE:
            continue
        batch = open_batch(data, table, row, opened, base_position)
        kept = [] if decisions.discard[row] else filtering.select(batch)
        filtering.records_read += batch.header.record_count
        filtering.records_kept += len(kept)
        if kept:
            filtering.put(batch, kept, ends_empty_transaction=bool(decisions.ends_empty_transaction[row]))
        elif decisions.retention[row] == Retention.RETAIN_EMPTY:
            filtering.put_empty(batch)
    return FilteredBatches(
        memoryview(bytes(filtering.data)),
        np.array(filtering.unpacked, np.int64).reshape(-1, 2),
        filtering.records_read,
        filtering.records_kept,
        filtering.invalid_records,
    )


class _Filter:
    def __init__(self, offset_map: OffsetMap, rules: CleaningRules) -> None:
        self.map = offset_map
        self.rules = rules
        self.data = bytearray()
        self.unpacked: list[tuple[int, int]] = []
        self.records_read = self.records_kept = self.invalid_records = 0

    def select(self, batch: OpenBatch) -> list[RawRecord]:
        return [record for record in batch.read() if self._stays(batch, record)]

    def _stays(self, batch: OpenBatch, record: RawRecord) -> bool:
        offset = batch.header.base_offset + record.offset_delta
        if batch.header.attributes & CONTROL or offset > self.map.latest_offset:
            return True
        if record.key is None:
            self.invalid_records += 1
            return False
        if self.map.is_superseded(offset) or offset < self.map.get(record.key):
            return False
        return record.value is not None or self._tombstones_stay(batch)

    def _tombstones_stay(self, batch: OpenBatch) -> bool:
        if batch.is_legacy:
            return self.rules.retain_legacy_deletes
        return batch.delete_horizon is None or self.rules.now_ms < batch.delete_horizon

    def put(self, batch: OpenBatch, kept: list[RawRecord], *, ends_empty_transaction: bool) -> None:
        horizon = batch.delete_horizon
        is_new = horizon is None and (ends_empty_transaction or any(record.value is None for record in kept))
        if len(kept) == batch.header.record_count and not is_new and not batch.is_legacy:
            self.data += batch.whole
            return
        if is_new:
            horizon = wrap64(self.rules.now_ms + self.rules.delete_retention_ms)
        self._rebuild(batch, kept, None if horizon is None or horizon < 0 else horizon)

    def _rebuild(self, batch: OpenBatch, kept: list[RawRecord], horizon: int | None) -> None:
        header = batch.header
        timestamps = [batch.timestamp_of(record) for record in kept]
        base_timestamp = timestamps[0] if horizon is None else horizon
        base_delta, last_delta = 0, header.last_offset_delta
        if batch.is_legacy:
            base_delta, last_delta = kept[0].offset_delta, kept[-1].offset_delta
        payload = b"".join(
            _record(record, wrap64(timestamp - base_timestamp), record.offset_delta - base_delta)
            for record, timestamp in zip(kept, timestamps, strict=True)
        )
        attributes = header.attributes & _KEPT_ATTRIBUTES | batch.codec
        header = header._replace(
            base_offset=header.base_offset + base_delta,
            attributes=attributes | (0 if horizon is None else DELETE_HORIZON),
            last_offset_delta=last_delta - base_delta,
            base_timestamp=base_timestamp,
            max_timestamp=header.max_timestamp if attributes & LOG_APPEND else max(-1, *timestamps),
            record_count=len(kept),
        )
        start = len(self.data)
        self.data += _seal(header, payload)
        if batch.codec:
            self.unpacked.append((start, len(self.data)))

    def put_empty(self, batch: OpenBatch) -> None:
        if batch.is_legacy:
            raise batch.error(OpenFault.EMPTY_LEGACY)
        attributes = batch.header.attributes & _KEPT_ATTRIBUTES
        self.data += _seal(batch.header._replace(attributes=attributes, base_timestamp=-1, record_count=0), b"")


def pack_batches(filtered: FilteredBatches, packed: Sequence[Buffer]) -> Buffer:
    if len(packed) != len(filtered.unpacked):
        raise ValueError(f"{len(packed)} payloads for {len(filtered.unpacked)} batches")
    data = memoryview(filtered.data).cast("B")
    out = bytearray()
    done = 0
    for start, end in filtered.unpacked.tolist():
        if not done <= start <= end <= len(data) or end - start < V2_HEADER.size:
            raise ValueError(f"no batch lies at [{start}:{end}] of {len(data)} bytes")
        done = end
    done = 0
    for (start, end), records in zip(filtered.unpacked.tolist(), packed, strict=True):
        out += data[done:start]
        out += _seal(Header(*V2_HEADER.unpack_from(data, start)), records)
        done = end
    return memoryview(bytes(out) + bytes(data[done:]))


def _seal(header: Header, records: Buffer) -> bytearray:
    fields: dict[str, Any] = header._asdict()
    for computed in ("length", "magic", "crc"):
        del fields[computed]
    return seal_batch(records, **fields)


def _record(record: RawRecord, timestamp_delta: int, offset_delta: int) -> bytes:
    body = b"\0" + write_varint(timestamp_delta) + write_varint(offset_delta) + record.fields
    return write_varint(len(body)) + body
