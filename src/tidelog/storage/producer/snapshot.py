"""The ``.snapshot`` file: a log's producers at an offset, so that loading need not read the complete log.

Layout, big-endian: version (int16, 1), CRC-32C of all bytes after it (uint32), number of entries (int32), then entries
of 46 bytes. An entry has: producer id (int64), epoch (int16), last sequence (int32), last offset (int64), offset delta
of the last batch (int32), last timestamp (int64), coordinator epoch (int32), first offset of the open transaction
(int64; -1 is none). The file's name is the offset: the state covers the batches below it.

Only the last of a producer's five cached batches is stored. The entries have the order of Kafka's hash table (see
``hash_order``), which only matters for equal bytes.
Pure: bytes in, bytes out. Source: Kafka's ``ProducerSnapshot``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from struct import Struct

from tidelog.kernel import crc32c
from tidelog.model import SnapshotCorruptError
from tidelog.storage.producer.entry import CachedBatch, ProducerEntry

SNAPSHOT_VERSION = 1

_HEADER = Struct(">hIi")
_CRC = Struct(">I")
_ENTRY = Struct(">qhiqiqiq")
_CRC_AT = 2
_COVERED_FROM = _CRC_AT + _CRC.size


def parse_snapshot(data: bytes, *, path: Path | None = None) -> list[ProducerEntry]:
    """Return the entries in file order. Raise SnapshotCorruptError for a wrong version, CRC or size."""
    if len(data) < _HEADER.size:
        raise SnapshotCorruptError(f"{len(data)} bytes are less than the header's {_HEADER.size}", path=path)
    version, crc, count = _HEADER.unpack_from(data)
    if version != SNAPSHOT_VERSION:
        raise SnapshotCorruptError(f"version {version} is unknown, {SNAPSHOT_VERSION} was expected", path=path)
    computed = crc32c(memoryview(data)[_COVERED_FROM:])
    if crc != computed:
        raise SnapshotCorruptError(f"the CRC is {crc:#010x}, of the contents {computed:#010x}", path=path)
    if len(data) != _HEADER.size + count * _ENTRY.size:
        raise SnapshotCorruptError(f"{count} entries do not fill {len(data)} bytes", path=path)
    return [_entry(*fields) for fields in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :])]


def format_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return a complete snapshot with the entries in the given order."""
    packed = [
        _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_data_offset,
            entry.last_offset_delta,
            entry.last_timestamp,
            entry.coordinator_epoch,
            -1 if entry.transaction_first_offset is None else entry.transaction_first_offset,
        )
        for entry in entries
    ]
    data = bytearray(_HEADER.pack(SNAPSHOT_VERSION, 0, len(packed)) + b"".join(packed))
    _CRC.pack_into(data, _CRC_AT, crc32c(memoryview(data)[_COVERED_FROM:]))
    return bytes(data)


def _entry(
    producer_id: int,
    producer_epoch: int,
    last_sequence: int,
    last_offset: int,
    offset_delta: int,
    timestamp: int,
    coordinator_epoch: int,
    transaction_first_offset: int,
) -> ProducerEntry:
    entry = ProducerEntry(
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        last_timestamp=timestamp,
        transaction_first_offset=transaction_first_offset if transaction_first_offset >= 0 else None,
    )
    if last_offset >= 0:
        entry.batches.append(CachedBatch(last_sequence, last_offset, offset_delta, timestamp))
    return entry
