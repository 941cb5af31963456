"""The batches of a file in printable parts: columns of records with rows of the batch table.

A dump shows everything in the file: it also reads batches whose CRC fails. An unreadable batch does not hide the
batches after it. Runs of v2 batches are decoded as columns, in parts of bounded size. Messages of v0 and v1 come one
batch at a time, unwrapped but not as columns, since a dump shows their own checksums. Thread rule: one thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tidelog.kernel import BatchTable, ColumnDecoder, RecordColumns
from tidelog.kernel.table import COLUMNS
from tidelog.model import CorruptRecordError, TidelogError, UnsupportedCompressionError
from tidelog.record.decode import decode_chunk
from tidelog.record.legacy import LegacyMessage, read_messages
from tidelog.storage.segment.segment_reader import Chunk

_MAX_ROWS = 200_000
_MAX_BYTES = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchRun:
    """The rows [first, last) of ``table`` with their records: in ``columns`` (v2), or in ``messages`` (one batch).

    ``columns.batch`` is the row number in ``table``. If ``error`` is set, the records of the last row could not be
    read, and the run has none of them.
    """

    table: BatchTable
    first: int
    last: int
    columns: RecordColumns | None = None
    messages: list[LegacyMessage] | None = None
    error: TidelogError | None = None


def batch_runs(chunk: Chunk) -> Iterator[BatchRun]:
    """Yield all rows of a chunk in file order, with their records."""
    table = chunk.table
    readable = _with_all_crcs_accepted(table)
    legacy = table.magic < 2
    if not legacy.any():
        yield from _column_runs(chunk, table, readable, 0, len(table))
        return
    row = 0
    while row < len(table):
        if legacy[row]:
            yield _message_run(chunk, table, row)
            row += 1
            continue
        ahead = np.flatnonzero(legacy[row:])
        end = row + int(ahead[0]) if len(ahead) else len(table)
        yield from _column_runs(chunk, table, readable, row, end)
        row = end


def _column_runs(chunk: Chunk, table: BatchTable, readable: BatchTable, first: int, last: int) -> Iterator[BatchRun]:
    decoder = ColumnDecoder(sequences=True, max_rows=_MAX_ROWS, max_bytes=_MAX_BYTES)
    row = first
    while row < last:
        failure: TidelogError | None = None
        try:
            end = decode_chunk(chunk.buffer, readable, decoder, base_position=chunk.base_position, first=row, last=last)
        except (CorruptRecordError, UnsupportedCompressionError) as error:
            end = decoder.stopped_at + 1
            failure = error
        yield BatchRun(table=table, first=row, last=end, columns=decoder.finish(), error=failure)
        row = end


def _message_run(chunk: Chunk, table: BatchTable, row: int) -> BatchRun:
    start = int(table.position[row]) - chunk.base_position
    try:
        messages = read_messages(chunk.buffer[start : start + int(table.size[row])])
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        placed = type(error)(error.message, position=int(table.position[row]), offset=int(table.base_offset[row]))
        return BatchRun(table=table, first=row, last=row + 1, messages=[], error=placed)
    return BatchRun(table=table, first=row, last=row + 1, messages=messages)


def _with_all_crcs_accepted(table: BatchTable) -> BatchTable:
    """Return the table with every CRC marked as right, so that the decoder reads as many records as it can."""
    if table.crc_ok.all():
        return table
    columns = {name: np.array(getattr(table, name)) for name, _ in COLUMNS}
    columns["crc_ok"][:] = True
    return BatchTable.from_columns(columns, table.end_position, table.stop, table.partial_size)
