"""The first half of a clean: the offset map learns the latest offset of each key.

It has two steps. ``hash_keys`` decompresses the batches of a chunk and hashes their keys; any thread may call it.
``put_keys`` takes chunk after chunk by ascending offset, in one thread per map.
Source: Kafka's ``Cleaner.buildOffsetMapForSegment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable, HashedKeys, OffsetMap, hash_batch_keys, put_hashed_keys
from tidelog.record.cleaning.opened_batches import opened_parts
from tidelog.record.record_size import MAX_RECORD_BYTES

if TYPE_CHECKING:
    from typing_extensions import Buffer


def hash_keys(
    offset_map: OffsetMap,
    buffer: Buffer,
    table: BatchTable,
    *,
    wanted: npt.NDArray[np.bool_],
    start_offset: int,
    base_position: int = 0,
    max_record_bytes: int = MAX_RECORD_BYTES,
) -> list[HashedKeys]:
    """Return the hashed keys of all records from ``start_offset`` on in ``wanted`` batches (a bool per table row).

    Only the hash function of ``offset_map`` is used. ``buffer`` begins at ``base_position`` in the table's positions.
    Batches that are not wanted (markers, aborted data) are not decompressed. Raise CorruptRecordError and
    UnsupportedCompressionError with position and offset, and InvalidRecordError for a record above
    ``max_record_bytes``.
    """
    read = wanted & (table.last_offset >= start_offset)
    return [
        hash_batch_keys(
            offset_map,
            buffer,
            table.take(rows),
            wanted=wanted[rows],
            start_offset=start_offset,
            opened=opened,
            base_position=base_position,
        )
        for rows, opened in opened_parts(
            buffer, table, read, base_position=base_position, max_record_bytes=max_record_bytes
        )
    ]


def put_keys(offset_map: OffsetMap, hashed: list[HashedKeys], *, start_offset: int) -> bool:
    """Put the results of ``hash_keys`` into the map; return False if the map is full and another key comes.

    ``offset_map.latest_offset`` becomes the last offset of each passed batch, wanted or not. If the map is full, it is
    the offset of the last key in it.
    """
    return all(put_hashed_keys(offset_map, part, start_offset=start_offset) for part in hashed)
