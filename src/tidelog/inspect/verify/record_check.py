"""The check for batches with a right CRC whose records do not decode.

The cause is a faulty producer, or damage with a forged checksum. Compiled code walks the records without keeping them,
so the check costs little more than the CRC. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tidelog.inspect.verify.finding import Finding
from tidelog.kernel import ColumnDecoder
from tidelog.model import CorruptRecordError, UnsupportedCompressionError
from tidelog.record.decode import decode_chunk
from tidelog.storage.segment.segment_reader import Chunk


def undecodable_batches(chunk: Chunk, path: Path) -> Iterator[Finding]:
    """Yield one finding per batch. Batches with a bad CRC or header are left out: they have a finding already."""
    table = chunk.table
    if not table.summary.sound:
        table = table.take(table.crc_ok & table.header_ok)
    row = 0
    while row < len(table):
        decoder = ColumnDecoder(keys=False, values=False, headers=False)
        try:
            row = decode_chunk(chunk.buffer, table, decoder, base_position=chunk.base_position, first=row)
        except (CorruptRecordError, UnsupportedCompressionError) as error:
            yield Finding(path=path, message=error.message, position=error.position, offset=error.offset)
            row = _row_after(table.position, error.position, row)


def _row_after(positions: np.ndarray[tuple[int, ...], np.dtype[np.int64]], position: int | None, row: int) -> int:
    """Return the row after the batch that holds ``position``, and at least the next row, whatever the error says."""
    if position is None:
        return row + 1
    return max(row + 1, int(np.searchsorted(positions, position, side="right")))
