"""Keys of batches into the offset map. Twin of _map_keys.pyx; the contract stands there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.kernel.reference.offset_map import OffsetMap
from tidelog.kernel.reference.open_batch import OpenBatch, check_rows, open_batch
from tidelog.kernel.table import BatchTable

if TYPE_CHECKING:
    from typing_extensions import Buffer


def put_batch_keys(
    offset_map: OffsetMap,
    buffer: Buffer,
    table: BatchTable,
    *,
    wanted: npt.NDArray[np.bool_],
    start_offset: int,
    plain: Sequence[Buffer | None] | None = None,
    base_position: int = 0,
) -> int:
    check_rows(table, wanted=wanted, plain=plain)
    data = memoryview(buffer).cast("B")
    for row, last_offset in enumerate(table.last_offset.tolist()):
        if last_offset < start_offset:
            continue
        if wanted[row] and not _put_keys(offset_map, open_batch(data, table, row, plain, base_position), start_offset):
            return row
        offset_map.latest_offset = max(offset_map.latest_offset, last_offset)
    return len(table)


def _put_keys(offset_map: OffsetMap, batch: OpenBatch, start_offset: int) -> bool:
    """False once a key comes when the map is full, be it known: there Kafka's cleaner ends its map."""
    for record in batch.read():
        offset = batch.header.base_offset + record.offset_delta
        if record.key is None or offset < start_offset:
            continue
        if offset_map.full:
            return False
        offset_map.put(record.key, offset)
    return True
