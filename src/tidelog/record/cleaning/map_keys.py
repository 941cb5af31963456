"""The first half of a clean: the offset map learns the latest offset of each key in the dirty part of a log.

Two steps: ``hash_keys`` of a chunk, which opens its batches, in any thread; ``put_keys`` of chunk after chunk in the
order of their offsets, one thread a map. Called by the cleaner. Source: Kafka's ``Cleaner.buildOffsetMapForSegment``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchTable, HashedKeys, OffsetMap, hash_batch_keys, put_hashed_keys
from tidelog.record.cleaning.plain_records import plain_parts
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
    """The keys of all records from ``start_offset`` on that are in ``wanted`` batches, a bool a row of ``table``.

    They are hashed as ``offset_map`` does, which is not otherwise looked at. ``buffer`` begins at ``base_position`` of
    the table's positions. Batches that are not wanted (markers, aborted data) are not opened. CorruptRecordError and
    UnsupportedCompressionError name position and offset, and InvalidRecordError that of a batch with a record above
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
            plain=plain,
            base_position=base_position,
        )
        for rows, plain in plain_parts(
            buffer, table, read, base_position=base_position, max_record_bytes=max_record_bytes
        )
    ]


def put_keys(offset_map: OffsetMap, hashed: list[HashedKeys], *, start_offset: int) -> bool:
    """Put what ``hash_keys`` found; False once the map is full when a key comes.

    ``offset_map.latest_offset`` becomes the last offset of each batch passed, be it wanted or not; where the map is
    full it is the last one that went in.
    """
    return all(put_hashed_keys(offset_map, part, start_offset=start_offset) for part in hashed)
