"""The decoder of batches of any format and codec into columns.

``ColumnDecoder.add_batches`` (compiled) takes runs of uncompressed v2 batches and stops at a compressed or legacy row.
This module decompresses or unwraps that row and passes it on. No Python code runs per record, except for messages of
v0 and v1.

Pure. Thread rule: a decoder belongs to one thread. Several threads with a decoder each use several cores (codecs and
decoder work without the GIL).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from tidelog.kernel import BatchRow, BatchTable, ColumnDecoder, RecordColumns
from tidelog.model import CorruptRecordError, UnsupportedCompressionError
from tidelog.record import attributes as attribute_bits
from tidelog.record.batch_header import V2_HEADER_BYTES
from tidelog.record.codec.limit import MAX_DECOMPRESSED_BYTES
from tidelog.record.compression import decompress
from tidelog.record.legacy import read_messages
from tidelog.record.rows import iter_records

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["decode_chunk", "decode_columns", "iter_records"]

_RECORD_OVERHEAD_BYTES: Final = 16
"""A lower bound for the bytes that the decoder counts for a record in addition to its key and value."""
_BLOCK_ROWS: Final = 64
"""The number of table rows converted to Python values in one step."""


def decode_chunk(
    buffer: Buffer,
    table: BatchTable,
    decoder: ColumnDecoder,
    *,
    base_position: int = 0,
    first: int = 0,
    last: int | None = None,
    batch: int = 0,
    keep: npt.NDArray[np.bool_] | None = None,
    max_bytes: int = MAX_DECOMPRESSED_BYTES,
) -> int:
    """Add the rows [first, last) of ``table`` to ``decoder``; ``buffer`` begins at ``base_position`` in its positions.

    Return ``last``, or the row to continue from after the caller has called ``decoder.finish()``: the decoder is full,
    or the row's records do not fit into 2 GiB per column with the records it holds. Records get the batch number
    ``batch`` + row. Rows with a False ``keep`` are skipped. ``max_bytes`` limits one decompressed batch.

    Raise CorruptRecordError (with position and offset) for a batch with a wrong CRC or contradicting contents, and
    UnsupportedCompressionError: the rows before it are added, and ``decoder.stopped_at`` is its row. Raise
    OverflowError if a single batch exceeds a column's limit.
    """
    view = memoryview(buffer).cast("B")
    end = len(table) if last is None else last
    row = first
    block: list[BatchRow] = []
    block_start = first
    while True:
        row = decoder.add_batches(view, table, row, end, base_position=base_position, batch=batch, keep=keep)
        if row >= end or decoder.full:
            return row
        if row - block_start >= len(block):
            block_start = row
            block = list(table.take(slice(row, min(end, row + _BLOCK_ROWS))).rows())
        if not _add_row(view, block[row - block_start], decoder, base_position, batch + row, max_bytes):
            return row
        row += 1


def decode_columns(
    buffer: Buffer,
    table: BatchTable,
    decoder: ColumnDecoder,
    *,
    base_position: int = 0,
    keep: npt.NDArray[np.bool_] | None = None,
) -> Iterator[RecordColumns]:
    """Yield all rows of ``table`` as columns, in parts by the decoder's limits; no part is empty."""
    row = 0
    while row < len(table):
        row = decode_chunk(buffer, table, decoder, base_position=base_position, first=row, keep=keep)
        if decoder.rows:
            yield decoder.finish()


def _add_row(
    view: memoryview, row: BatchRow, decoder: ColumnDecoder, base_position: int, batch: int, max_bytes: int
) -> bool:
    """Add one compressed or legacy row; return False if it does not fit with the records that the decoder holds."""
    start = row.position - base_position
    entry = view[start : start + row.size]
    try:
        if row.magic < 2:
            return _add_legacy(entry, decoder, batch, max_bytes)
        if row.record_count == 0:  # in some releases, a batch emptied by the cleaner keeps its codec but has no payload
            return True
        codec = attribute_bits.codec_of(row.attributes)
        payload = decompress(codec, entry[V2_HEADER_BYTES:], max_bytes=max_bytes)
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        raise type(error)(error.message, position=row.position, offset=row.base_offset) from None
    try:
        decoder.add_payload(
            payload,
            base_offset=row.base_offset,
            base_timestamp=row.base_timestamp,
            max_timestamp=row.max_timestamp,
            attributes=row.attributes,
            record_count=row.record_count,
            batch=batch,
            base_sequence=row.base_sequence,
            last_offset=row.last_offset,
            position=row.position,
        )
    except OverflowError:
        if not decoder.rows:
            raise
        return False
    return True


def _add_legacy(entry: memoryview, decoder: ColumnDecoder, batch: int, max_bytes: int) -> bool:
    messages = read_messages(entry, max_bytes=max_bytes)
    parts = [part for message in messages for part in (message.key, message.value) if part is not None]
    size = sum(map(len, parts)) + _RECORD_OVERHEAD_BYTES * len(messages)
    if decoder.rows and not decoder.fits(size):
        return False
    for message in messages:
        decoder.add_record(
            offset=message.offset,
            timestamp=message.timestamp,
            timestamp_type=message.timestamp_type,
            key=message.key,
            value=message.value,
            batch=batch,
        )
    return True
