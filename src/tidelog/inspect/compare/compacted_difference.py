"""The first difference between two replicas of a compacted log, which may differ without being wrong.

Each broker cleans its own replica at its own time. Batches with equal bytes are settled first. The rest:

=======================================  ==============================================================================
a batch or record                        rule
=======================================  ==============================================================================
batches with the same last offset        have the same epoch, producer, producer epoch and sequence
records with the same offset             have the same timestamp, key, value and headers
a record of only one replica             was removed by the other's cleaner: it has no value or no key, its transaction
                                         was aborted, or one of the replicas has a later record of its key
a marker of only one replica             no rule: the cleaner removes it when its transaction has no records left
=======================================  ==============================================================================

A tombstone that only one replica lost is not found: a cleaner removes tombstones too. The first pass finds the records
of only one replica. If some of them need a later record of their key, two more passes follow. They hash the keys from
the first of these records on (24 bytes for each key, like the cleaner's map), and look them up.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.inspect.compare.difference import BatchPlace, Difference, DifferenceKind
from tidelog.inspect.compare.log_difference import rows_difference
from tidelog.inspect.compare.paired_rows import RowsInTurn, place_of
from tidelog.kernel import ColumnDecoder, OffsetMap
from tidelog.model import StorageError
from tidelog.record.arrow import record_schema, to_arrow
from tidelog.record.decode import decode_columns
from tidelog.runtime.progress import Advance
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import ReadRange, Rows
from tidelog.storage.log.view.transaction_scan import AbortedRanges

_OWNER_FIELDS: Final = ("leader_epoch", "producer_id", "producer_epoch", "base_sequence")
_SLOT_BYTES: Final = 28
"""The bytes of a key in the map, with room for free slots."""
_LARGEST_MAP: Final = 2 * 1024**3
_SCHEMA: Final = record_schema()

Offsets = npt.NDArray[np.int64]


def first_compacted_difference(
    left: LogView, right: LogView, start: int, end: int, advance: Advance = lambda _bytes: None
) -> Difference | None:
    """Return a difference in ``[start, end)`` that compaction does not explain, or None.

    It is the first one in the logs' common records. If there is none, it is the first record that only one of them has.
    Raise CorruptRecordError for an invalid batch, and StorageError if the keys need too much memory.
    """
    sides = [_Side(view, start, end, advance) for view in (left, right)]
    while _fill_both(sides):
        last_offset = min(side.rows.last_offset for side in sides if side.rows.last_offset is not None)
        chunks = [side.rows.take_to(last_offset) for side in sides]
        found = _chunk_difference(sides, chunks, start, min(end, last_offset + 1))
        if found is not None:
            return found
        start = last_offset + 1
    if not any(side.alone for side in sides):
        return None
    return _missing_record(sides, advance)


def _fill_both(sides: Sequence[_Side]) -> bool:
    """Return False if both sides are at their end."""
    filled = [side.rows.fill() for side in sides]
    return any(filled)


class _Side:
    """A replica's unread rows, and the offsets of the records that need a later record of their key."""

    def __init__(self, view: LogView, start: int, end: int, advance: Advance) -> None:
        self.view = view
        self.rows = RowsInTurn(view, start, end, advance, verify_crc=True)
        self.aborted: AbortedRanges = view.transactions(view.log_end).aborted
        self.alone: list[Offsets] = []

    def records(self, rows: Rows, keep: npt.NDArray[np.bool_], start: int, end: int) -> pa.Table:
        """Return the records of the kept rows, without markers and without aborted records."""
        table = rows.table
        wanted = keep & ~table.is_control & ~self.aborted.hits(table)
        return _decoded(rows, wanted, ColumnDecoder(start_offset=start, end_offset=end))


def _decoded(rows: Rows, wanted: npt.NDArray[np.bool_], decoder: ColumnDecoder) -> pa.Table:
    parts = decode_columns(rows.buffer, rows.table.take(wanted), decoder, base_position=rows.base_position)
    return pa.Table.from_batches([to_arrow(part) for part in parts], _SCHEMA).combine_chunks()


def _chunk_difference(sides: Sequence[_Side], chunks: Sequence[Rows | None], start: int, end: int) -> Difference | None:
    """Return the first difference of the chunks' common records, and note the records of only one side."""
    ours, theirs = chunks
    if ours is not None and theirs is not None:
        if len(ours.table) == len(theirs.table) and rows_difference(ours, theirs) is None:
            return None
        found, unequal = _owner_difference(ours, theirs)
        if found is not None:
            return found
    else:
        unequal = [np.ones(0 if rows is None else len(rows.table), np.bool_) for rows in chunks]
    records = [
        _SCHEMA.empty_table() if rows is None else side.records(rows, keep, start, end)
        for side, rows, keep in zip(sides, chunks, unequal, strict=True)
    ]
    return _record_difference(sides, chunks, records)


def _owner_difference(ours: Rows, theirs: Rows) -> tuple[Difference | None, list[npt.NDArray[np.bool_]]]:
    """Return the first two batches with the same last offset and different owners, and masks of the unequal batches."""
    unequal = [np.ones(len(rows.table), np.bool_) for rows in (ours, theirs)]
    _, left, right = np.intersect1d(
        ours.table.last_offset, theirs.table.last_offset, assume_unique=True, return_indices=True
    )
    for our, their in zip(left.tolist(), right.tolist(), strict=True):
        places = place_of(ours, our), place_of(theirs, their)
        fields = tuple(n for n in _OWNER_FIELDS if getattr(places[0].row, n) != getattr(places[1].row, n))
        if fields:
            offset = min(place.row.base_offset for place in places)
            return (
                Difference(kind=DifferenceKind.HEADER, offset=offset, fields=fields, left=places[0], right=places[1]),
                unequal,
            )
        if _bytes_of(ours, places[0]) == _bytes_of(theirs, places[1]):
            unequal[0][our] = unequal[1][their] = False
    return None, unequal


def _bytes_of(rows: Rows, place: BatchPlace) -> bytes:
    start = place.row.position - rows.base_position
    return bytes(rows.buffer[start : start + place.row.size])


def _record_difference(
    sides: Sequence[_Side], chunks: Sequence[Rows | None], records: Sequence[pa.Table]
) -> Difference | None:
    offsets: list[Offsets] = [table.column("offset").to_numpy() for table in records]
    common, left, right = np.intersect1d(offsets[0], offsets[1], assume_unique=True, return_indices=True)
    ours, theirs = records[0].take(left), records[1].take(right)
    if len(common) and not ours.equals(theirs):
        row = _first_unequal(ours, theirs)
        fields = tuple(name for name in _SCHEMA.names if ours.column(name)[row] != theirs.column(name)[row])
        return Difference(
            kind=DifferenceKind.RECORDS,
            offset=int(common[row]),
            fields=fields,
            left=_batch_with(chunks[0], int(common[row])),
            right=_batch_with(chunks[1], int(common[row])),
        )
    for side, table, own in zip(sides, records, offsets, strict=True):
        needs_later = ~np.isin(own, common, assume_unique=True)
        for name in ("key", "value"):
            needs_later &= table.column(name).is_valid().to_numpy()
        if needs_later.any():
            side.alone.append(own[needs_later])
    return None


def _first_unequal(ours: pa.Table, theirs: pa.Table) -> int:
    """Return the first row that differs. The tables have the same length, and differ."""
    first, count = 0, len(ours)
    while count > 1:
        half = count // 2
        if ours.slice(first, half).equals(theirs.slice(first, half)):
            first, count = first + half, count - half
        else:
            count = half
    return first


def _batch_with(rows: Rows | None, offset: int) -> BatchPlace | None:
    if rows is None:
        return None
    row = int(np.searchsorted(rows.table.last_offset, offset))
    return place_of(rows, row) if row < len(rows.table) else None


def _missing_record(sides: Sequence[_Side], advance: Advance) -> Difference | None:
    """Return the first record of only one side that no record of its key follows."""
    first = min(int(offsets[0]) for side in sides for offsets in side.alone)
    latest = _latest_offsets(sides, first, advance)
    found = [_first_without_later(side, latest, advance) for side in sides]
    places = [place for place in found if place is not None]
    if not places:
        return None
    offset, place = min(places, key=lambda entry: entry[0])
    is_left = found[0] is not None and found[0][0] == offset
    return Difference(
        kind=DifferenceKind.MISSING,
        offset=offset,
        left=place if is_left else None,
        right=None if is_left else place,
    )


def _latest_offsets(sides: Sequence[_Side], first: int, advance: Advance) -> OffsetMap:
    """Return the latest offset of each key from ``first`` on in both logs, also after their common range."""
    count = sum(max(0, side.view.log_end - first) for side in sides)
    latest = OffsetMap(min(count * _SLOT_BYTES + 1024, _LARGEST_MAP), key=os.urandom(16))
    for side in sides:
        for rows in _data_rows(side, first, side.view.log_end, advance):
            keep = ~side.aborted.hits(rows.table)
            decoder = ColumnDecoder(values=False, headers=False, start_offset=first)
            for columns in decode_columns(
                rows.buffer, rows.table.take(keep), decoder, base_position=rows.base_position
            ):
                if latest.put_columns(columns) < len(columns):
                    raise StorageError(
                        f"more than {latest.max_size:,} keys: their latest offsets do not fit into memory",
                        path=side.view.directory,
                    )
    return latest


def _first_without_later(side: _Side, latest: OffsetMap, advance: Advance) -> tuple[int, BatchPlace] | None:
    if not side.alone:
        return None
    alone = np.concatenate(side.alone)
    for rows in _data_rows(side, int(alone[0]), int(alone[-1]) + 1, advance):
        decoder = ColumnDecoder(values=False, headers=False, start_offset=int(alone[0]))
        for columns in decode_columns(rows.buffer, rows.table, decoder, base_position=rows.base_position):
            is_last = np.isin(columns.offset, alone) & (latest.get_columns(columns) <= columns.offset)
            if is_last.any():
                offset = int(columns.offset[np.argmax(is_last)])
                place = _batch_with(rows, offset)
                assert place is not None
                return offset, place
    return None


def _data_rows(side: _Side, start: int, end: int, advance: Advance) -> Iterator[Rows]:
    for rows in side.view.batches(ReadRange(start=start, end=end)):
        advance(int(rows.table.size.sum()))
        yield rows
