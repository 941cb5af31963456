"""Records as columns, in bounded chunks, from the batches of a row stream.

A chunk ends when it has ``max_rows`` records or ``max_bytes`` of data, and at the end of each buffer. A batch is never
divided, so its last batch may exceed the bound. All records of a chunk come from one batch table, and ``columns.batch``
holds row numbers of that table.
Thread rule: one thread, as for the row stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tidelog.kernel import BatchTable, ColumnDecoder, RecordColumns
from tidelog.model import TidelogError
from tidelog.record.decode import decode_chunk
from tidelog.storage.log.view.row_stream import OnSkipped, Rows, SkippedRange

MAX_ROWS = 64 * 1024
MAX_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChoice:
    """The decoded columns and the bounds of a chunk. Offset, timestamp and timestamp type are always decoded."""

    keys: bool = True
    values: bool = True
    headers: bool = True
    max_rows: int = MAX_ROWS
    max_bytes: int = MAX_BYTES


ALL_COLUMNS = ColumnChoice()
TIMESTAMPS_ONLY = ColumnChoice(keys=False, values=False, headers=False)


class ColumnChunk(NamedTuple):
    columns: RecordColumns
    table: BatchTable
    """The batches that ``columns.batch`` refers to; other chunks may share it."""
    path: Path
    """The ``.log`` file of the batches."""


def column_chunks(
    rows: Iterable[Rows], choice: ColumnChoice, start: int, end: int, *, on_skipped: OnSkipped | None = None
) -> Iterator[ColumnChunk]:
    """Yield the records with offsets in ``[start, end)``.

    Raise CorruptRecordError, with file and position, for a batch with a valid CRC but unreadable records. All earlier
    records come first. With ``on_skipped`` the batch is left out instead, and reported between the records before and
    after it.
    """
    decoder = ColumnDecoder(
        keys=choice.keys,
        values=choice.values,
        headers=choice.headers,
        start_offset=start,
        end_offset=end,
        max_rows=choice.max_rows,
        max_bytes=choice.max_bytes,
    )
    for buffer, table, base_position, path in rows:
        row = 0
        while row < len(table):
            skipped: SkippedRange | None = None
            try:
                row = decode_chunk(buffer, table, decoder, base_position=base_position, first=row)
            except TidelogError as error:
                error.path = error.path or str(path)
                if on_skipped is None:
                    if decoder.rows:
                        yield ColumnChunk(decoder.finish(), table, path)
                    raise
                row = decoder.stopped_at
                skipped = _range_of(table, row, path, error)
                row += 1
            if decoder.rows:
                yield ColumnChunk(decoder.finish(), table, path)
            if skipped is not None and on_skipped is not None:
                on_skipped(skipped)


def _range_of(table: BatchTable, row: int, path: Path, error: TidelogError) -> SkippedRange:
    batch = table.row(row)
    return SkippedRange(
        path=path, position=batch.position, size_bytes=batch.size, offset=batch.base_offset, reason=error.message
    )
