"""The first difference between two replicas of a log that is not compacted: batch by batch, byte by byte.

Followers append the leader's batches as they are, so equal offsets have equal bytes. The batch tables are compared
first, and the bytes of a chunk only up to the first header that differs. CRCs are not verified: an invalid batch
differs from its valid twin. If both replicas have the same damage, only ``tidelog verify`` finds it.
"""

from __future__ import annotations

import numpy as np

from tidelog.inspect.compare.difference import BatchPlace, Difference, DifferenceKind
from tidelog.inspect.compare.paired_rows import (
    RowsInTurn,
    differing_fields,
    equal_headers,
    first_differing_byte,
    place_of,
)
from tidelog.runtime.progress import Advance
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import Rows


def first_log_difference(
    left: LogView, right: LogView, start: int, end: int, advance: Advance = lambda _bytes: None
) -> Difference | None:
    """Return the first difference in ``[start, end)``, or None. Raise CorruptRecordError for bytes without a batch."""
    sides = [RowsInTurn(view, start, end, advance, verify_crc=False) for view in (left, right)]
    while True:
        has_left, has_right = [side.fill() for side in sides]
        if not (has_left or has_right):
            return None
        count = min(side.count for side in sides)
        if not count:
            return _only_one(sides[0].take(1), sides[1].take(1))
        ours, theirs = [side.take(count) for side in sides]
        assert ours is not None
        assert theirs is not None
        found = rows_difference(ours, theirs)
        if found is not None:
            return found


def rows_difference(ours: Rows, theirs: Rows) -> Difference | None:
    """Return the first difference between two tables of the same length."""
    equal = equal_headers(ours, theirs)
    count = len(equal) if equal.all() else int(np.argmin(equal))
    at = first_differing_byte(ours, theirs, count)
    if at is not None:
        row, byte = at
        left, right = place_of(ours, row), place_of(theirs, row)
        return Difference(kind=DifferenceKind.RECORDS, offset=left.row.base_offset, left=left, right=right, byte=byte)
    if count == len(equal):
        return None
    return _headers_differ(place_of(ours, count), place_of(theirs, count))


def _headers_differ(left: BatchPlace, right: BatchPlace) -> Difference:
    return Difference(
        kind=DifferenceKind.HEADER,
        offset=min(left.row.base_offset, right.row.base_offset),
        fields=differing_fields(left, right),
        left=left,
        right=right,
    )


def _only_one(ours: Rows | None, theirs: Rows | None) -> Difference:
    left, right = [None if rows is None else place_of(rows, 0) for rows in (ours, theirs)]
    place = left or right
    assert place is not None
    return Difference(kind=DifferenceKind.MISSING, offset=place.row.base_offset, left=left, right=right)
