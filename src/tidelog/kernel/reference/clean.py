"""The cleaner's map of keys and its filter. Twin of _clean.pyx; the contract of every function stands there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from tidelog.kernel.fates import BatchFates, CleaningRules, FilteredBatches, Retention
from tidelog.kernel.reference.encode import seal_batch
from tidelog.kernel.reference.open_batch import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND,
    Header,
    OpenBatch,
    open_batch,
)
from tidelog.kernel.reference.record_reader import RawRecord
from tidelog.kernel.reference.scan import V2_HEADER
from tidelog.kernel.reference.varint import write_varint
from tidelog.kernel.reference.wrap import wrap64
from tidelog.kernel.table import BatchTable
from tidelog.model.errors import InvalidRecordError

if TYPE_CHECKING:
    from typing_extensions import Buffer

_KEPT_ATTRIBUTES: Final = 0x38
"""Timestamp type, transactional and control."""


class _Map(Protocol):
    latest_offset: int

    @property
    def full(self) -> bool: ...
    def put(self, key: Buffer, offset: int) -> bool: ...
    def get(self, key: Buffer) -> int: ...


def put_batch_keys(
    offset_map: _Map,
    buffer: Buffer,
    table: BatchTable,
    *,
    wanted: npt.NDArray[np.bool_],
    start_offset: int,
    plain: Sequence[Buffer | None] | None = None,
    base_position: int = 0,
) -> int:
    data = memoryview(buffer).cast("B")
    _check_rows(table, wanted=wanted, plain=plain)
    for row, last_offset in enumerate(table.last_offset.tolist()):
        if last_offset < start_offset:
            continue
        if wanted[row] and not _put_keys(offset_map, open_batch(data, table, row, plain, base_position), start_offset):
            return row
        offset_map.latest_offset = max(offset_map.latest_offset, last_offset)
    return len(table)


def _put_keys(offset_map: _Map, batch: OpenBatch, start_offset: int) -> bool:
    """False where the map was full when the next key came, known or not: so Kafka's cleaner stops."""
    for record in batch.read():
        offset = batch.header.base_offset + record.offset_delta
        if record.key is None or offset < start_offset:
            continue
        if offset_map.full:
            return False
        offset_map.put(record.key, offset)
    return True


def filter_batches(
    buffer: Buffer,
    table: BatchTable,
    fates: BatchFates,
    offset_map: _Map,
    rules: CleaningRules,
    *,
    plain: Sequence[Buffer | None] | None = None,
    base_position: int = 0,
) -> FilteredBatches:
    columns = {name: getattr(fates, name) for name in ("retention", "discard", "ends_empty_transaction")}
    _check_rows(table, plain=plain, **columns)
    filtering = _Filter(offset_map, rules)
    data = memoryview(buffer).cast("B")
    for row in range(len(table)):
        if fates.retention[row] == Retention.DELETE:
            continue
        batch = open_batch(data, table, row, plain, base_position)
        kept = [] if fates.discard[row] else filtering.select(batch)
        filtering.records_read += batch.header.record_count
        filtering.records_kept += len(kept)
        if kept:
            filtering.put(batch, kept, ends_empty_transaction=bool(fates.ends_empty_transaction[row]))
        elif fates.retention[row] == Retention.RETAIN_EMPTY:
            filtering.put_empty(batch)
    return FilteredBatches(
        memoryview(bytes(filtering.data)),
        np.array(filtering.unpacked, np.int64).reshape(-1, 2),
        filtering.records_read,
        filtering.records_kept,
        filtering.invalid_records,
    )


class _Filter:
    def __init__(self, offset_map: _Map, rules: CleaningRules) -> None:
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
        if offset < self.map.get(record.key):
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
            self.data[start + 17 : start + 21] = bytes(4)
            self.unpacked.append((start, len(self.data)))

    def put_empty(self, batch: OpenBatch) -> None:
        if batch.is_legacy:
            raise InvalidRecordError(
                f"a batch of format v{batch.whole[16]} that loses all its records cannot be kept",
                position=batch.position,
                offset=int.from_bytes(batch.whole[:8], "big", signed=True),
            )
        attributes = batch.header.attributes & _KEPT_ATTRIBUTES
        self.data += _seal(batch.header._replace(attributes=attributes, base_timestamp=-1, record_count=0), b"")


def pack_batches(filtered: FilteredBatches, packed: Sequence[Buffer]) -> Buffer:
    if len(packed) != len(filtered.unpacked):
        raise ValueError(f"{len(packed)} payloads for {len(filtered.unpacked)} batches")
    data = memoryview(filtered.data).cast("B")
    out = bytearray()
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


def _check_rows(table: BatchTable, **columns: Any) -> None:
    for name, column in columns.items():
        if column is not None and len(column) != len(table):
            raise ValueError(f"{name} has {len(column)} rows, the table {len(table)}")
