"""The first records of a batch as a batch of their own, for a log that ends inside a batch.

==========================  ===========================================================================================
field                       becomes
==========================  ===========================================================================================
records                     those below the end offset, byte for byte; compressed again with the batch's codec
last offset                 the end offset - 1, so the log end, and the producer's last sequence, are those of the end
largest timestamp           that of the remaining records; unchanged with log append time; -1 without records
other fields of v2          unchanged: producer, epoch, base sequence, leader epoch, base timestamp, attributes
a wrapper of v0 or v1       a v2 batch of its first messages, as Kafka's cleaner writes it since 4.0
==========================  ===========================================================================================

A batch whose first record was removed by the cleaner may keep no record. It stays as a header if it has a producer,
because its sequences belong to the producer's state. Pure. Thread rule: any thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidelog.kernel import ColumnDecoder, scan_batches, seal_batch
from tidelog.model import TimestampType
from tidelog.record.attributes import CODEC_MASK, DELETE_HORIZON_FLAG, NONE, codec_of, timestamp_type_of
from tidelog.record.batch_header import MAGIC_AT, V2_HEADER, V2_HEADER_BYTES
from tidelog.record.compression import compress, decompress
from tidelog.record.decode import decode_columns
from tidelog.record.legacy import read_messages
from tidelog.record.legacy_upgrade import as_v2

if TYPE_CHECKING:
    from typing_extensions import Buffer


def truncate_batch(batch: Buffer, end_offset: int) -> bytes:
    """Return the batch of the records below ``end_offset``, empty bytes if nothing of it stays.

    The batch begins below ``end_offset`` and ends at or above it. Raise CorruptRecordError or
    UnsupportedCompressionError if it cannot be read.
    """
    view = memoryview(batch).cast("B")
    if view[MAGIC_AT] < 2:
        return _truncate_wrapper(view, end_offset)
    base_offset, _, leader_epoch, _, _, attributes, _, base_timestamp, max_timestamp, *producer = V2_HEADER.unpack_from(
        view
    )
    producer_id, producer_epoch, base_sequence, _ = producer
    kept, largest = _records_below(view, end_offset)
    records: Buffer = b""
    if kept:
        records = _first_records(decompress(codec_of(attributes), view[V2_HEADER_BYTES:]), kept)
        records = compress(codec_of(attributes), records)
        if timestamp_type_of(attributes) is not TimestampType.LOG_APPEND:
            max_timestamp = largest
    elif producer_id < 0:
        return b""
    else:  # like a batch that the cleaner has emptied
        attributes &= ~(CODEC_MASK | DELETE_HORIZON_FLAG)
        base_timestamp = max_timestamp = -1
    return bytes(
        seal_batch(
            records,
            base_offset=base_offset,
            last_offset_delta=end_offset - 1 - base_offset,
            record_count=kept,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            attributes=attributes,
            leader_epoch=leader_epoch,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
        )
    )


def _records_below(batch: memoryview, end_offset: int) -> tuple[int, int]:
    """Return the number of records before the first one at or above ``end_offset``, and their largest timestamp."""
    kept, largest = 0, -1
    for columns in decode_columns(batch, scan_batches(batch), ColumnDecoder(keys=False, values=False, headers=False)):
        above = np.flatnonzero(columns.offset >= end_offset)
        below = int(above[0]) if len(above) else len(columns)
        if below:
            largest = max(largest, int(columns.timestamp[:below].max()))
        kept += below
        if len(above):
            break
    return kept, largest


def _first_records(payload: Buffer, count: int) -> memoryview:
    """Return the bytes of the first ``count`` records of a payload, which the decoder has checked."""
    view = memoryview(payload).cast("B")
    position = 0
    for _ in range(count):
        encoded = shift = 0
        while True:
            byte = view[position]
            position += 1
            encoded |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        position += (encoded >> 1) ^ -(encoded & 1)
    return view[:position]


def _truncate_wrapper(message: memoryview, end_offset: int) -> bytes:
    messages = read_messages(message)
    kept = [inner for inner in messages if inner.offset < end_offset]
    if not kept:
        return b""
    codec = message[MAGIC_AT + 1] & CODEC_MASK
    return bytes(as_v2(kept, codec=codec, last_offset=end_offset - 1)) if codec != NONE else bytes(message)
