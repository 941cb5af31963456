"""The keys of batches for the offset map. This is the twin of _map_keys.pyx; the contract is there."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from kernel.reference.offset_map import OffsetMap
from kernel.reference.open_batch import check_rows, open_batch
from tidelog.kernel.hashed_keys import HashedKeys
from tidelog.kernel.table import BatchTable

if TYPE_CHECKING:
    from typing_extensions import Buffer

_ENTRY: Final = struct.Struct("=QQq")
_WORD: Final = (1 << 64) - 1


def hash_batch_keys(
    offset_map: OffsetMap,
    buffer: Buffer,
    table: BatchTable,
    *,
    wanted: npt.NDArray[np.bool_],
    start_offset: int,
    opened: Sequence[Buffer | None] | None = None,
    base_position: int = 0,
) -> HashedKeys:
    check_rows(table, wanted=wanted, opened=opened)
    data = memoryview(buffer).cast("B")
    entries = bytearray()
    row_ends = []
    for row in range(len(table)):
        if wanted[row] and table.last_offset[row] >= start_offset:
            batch = open_batch(data, table, row, opened, base_position)
            for record in batch.read():
                offset = batch.header.base_offset + record.offset_delta
                if record.key is not None and offset >= start_offset:
                    hashed = offset_map.hash_of(record.key)
                    entries += _ENTRY.pack(hashed & _WORD, hashed >> 64, offset)
        row_ends.append(len(entries) // _ENTRY.size)
    skipped = np.where(table.last_offset < start_offset, table.magic < 2, ~wanted) & ~table.is_control
    ends = np.array(row_ends, np.int64)
    return HashedKeys(memoryview(bytes(entries)), ends, np.array(table.last_offset), bool(skipped.any()))


def put_hashed_keys(offset_map: OffsetMap, hashed: HashedKeys, *, start_offset: int) -> bool:
    entries = list(_ENTRY.iter_unpack(hashed.entries))
    ends, last_offsets = hashed.row_ends.tolist(), hashed.last_offsets.tolist()
    if len(last_offsets) != len(ends) or max(ends, default=0) > len(entries):
        raise ValueError(f"{len(entries)} keys of {len(ends)} batches, of which {len(last_offsets)} have a last offset")
    done = 0
    for end, last_offset in zip(ends, last_offsets, strict=True):
        for low, high, offset in entries[done:end]:
            if offset_map.full:
                return False
            before = offset_map.put_hashed(high << 64 | low, offset)
            assert before is not None  # the map is not full
            offset_map.note_superseded(before, offset)
        done = max(done, end)
        if last_offset >= start_offset:
            offset_map.latest_offset = max(offset_map.latest_offset, last_offset)
    return True
