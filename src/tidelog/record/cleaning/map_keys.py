"""The first half of a clean: the offset map learns the latest offset of each key in the dirty part of a log.

Called by the cleaner with the chunks of a segment in the order of their offsets. One thread a map. Source: Kafka's
``Cleaner.buildOffsetMapForSegment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable, OffsetMap, put_batch_keys
from tidelog.record.cleaning.plain_records import plain_parts

if TYPE_CHECKING:
    from typing_extensions import Buffer


def put_keys(
    offset_map: OffsetMap,
    buffer: Buffer,
    table: BatchTable,
    *,
    wanted: npt.NDArray[np.bool_],
    start_offset: int,
    base_position: int = 0,
) -> bool:
    """Put the keys of all records from ``start_offset`` on that are in ``wanted`` batches, a bool a row of ``table``.

    ``buffer`` begins at ``base_position`` of the table's positions. ``offset_map.latest_offset`` becomes the last
    offset of each batch passed, also of those not wanted (markers, aborted data), whose records are not looked at.
    False once the map is full when a record with a key comes: ``latest_offset`` is then the last one that went in.
    CorruptRecordError and UnsupportedCompressionError name position and offset; the batches before are in.
    """
    read = wanted & (table.last_offset >= start_offset)
    for rows, plain in plain_parts(buffer, table, read, base_position=base_position):
        part = table.take(rows)
        done = put_batch_keys(
            offset_map,
            buffer,
            part,
            wanted=wanted[rows],
            start_offset=start_offset,
            plain=plain,
            base_position=base_position,
        )
        if done < len(part):
            return False
    return True
