"""The obstacles of a clean: batches and records that stop a cleaner, or that it drops or repairs.

==========  ============================================  ==========================================================
kind        cause                                         effect on a clean
==========  ============================================  ==========================================================
CORRUPT     a batch whose bytes contradict themselves     fails at it; the log does not change
OVERFLOWED  a segment with an offset that no index holds  splits the segment, then cleans
NO_KEY      records without a key                         drops them and goes on
==========  ============================================  ==========================================================

They are found by reading everything that a clean would read, also while a broker is running. Only the first of several
corrupt batches is reported, because no clean reaches the others. Data of aborted transactions is not checked, because a
clean drops it unread. Source: Kafka's ``Cleaner.buildOffsetMap`` and ``shouldRetainRecord``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tidelog.model import CorruptRecordError, UnsupportedCompressionError
from tidelog.runtime.progress import Advance
from tidelog.storage.log.load.overflow_split import is_overflowed
from tidelog.storage.log.view.column_stream import ColumnChoice, ColumnChunk, column_chunks
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import ReadRange, Rows
from tidelog.storage.segment.file_names import FileKind, segment_file
from tidelog.storage.segment.read_ahead import read_ahead

_KEYS_ONLY = ColumnChoice(values=False, headers=False)


class ObstacleKind(enum.StrEnum):
    """The kinds of the module's table."""

    CORRUPT = "corrupt"
    OVERFLOWED = "overflowed"
    NO_KEY = "no_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """``position`` is the batch's in its file, None for a segment. ``count`` is the number of NO_KEY records."""

    kind: ObstacleKind
    path: Path
    offset: int | None
    position: int | None = None
    count: int = 1
    what: str
    """A clause for people."""

    @property
    def stops(self) -> bool:
        return self.kind is ObstacleKind.CORRUPT


def find_obstacles(view: LogView, end: int, *, aborted_below: int, advance: Advance) -> tuple[Obstacle, ...]:
    """Return the obstacles below ``end``. Above ``aborted_below``, the high watermark, nothing counts as aborted."""
    wanted = ReadRange(
        start=view.state.segments.first.base_offset if len(view.state.segments) else view.log_start,
        end=end,
        aborted=view.transactions(aborted_below).aborted,
    )
    obstacles = list(_overflowed(view, end))
    keyless: Obstacle | None = None
    try:
        for chunk in column_chunks(read_ahead(_told(view, wanted, advance)), _KEYS_ONLY, wanted.start, wanted.end):
            if chunk.columns.key_null_count:
                found = _without_key(chunk)
                keyless = found if keyless is None else replace(keyless, count=keyless.count + found.count)
    except (CorruptRecordError, UnsupportedCompressionError) as error:
        obstacles.append(
            Obstacle(
                kind=ObstacleKind.CORRUPT,
                path=view.directory if error.path is None else Path(error.path),
                position=error.position,
                offset=error.offset,
                what=error.message,
            )
        )
    return tuple(obstacles if keyless is None else [*obstacles, keyless])


def _told(view: LogView, wanted: ReadRange, advance: Advance) -> Iterator[Rows]:
    for rows in view.batches(wanted):
        yield rows
        advance(int(rows.table.size.sum()))


def _without_key(chunk: ColumnChunk) -> Obstacle:
    """Return the first record without a key in a chunk that has one, with their number."""
    columns = chunk.columns
    assert columns.key_valid is not None
    assert columns.batch is not None
    first = int(np.flatnonzero(~columns.key_valid)[0])
    return Obstacle(
        kind=ObstacleKind.NO_KEY,
        path=chunk.path,
        position=int(chunk.table.position[columns.batch[first]]),
        offset=int(columns.offset[first]),
        count=columns.key_null_count,
        what="a record without a key",
    )


def _overflowed(view: LogView, end: int) -> Iterator[Obstacle]:
    bases = view.state.segments.base_offsets
    for base_offset in bases:
        if base_offset < end and is_overflowed(view.fs, view.directory, base_offset, bases):
            yield Obstacle(
                kind=ObstacleKind.OVERFLOWED,
                path=segment_file(view.directory, base_offset, FileKind.LOG),
                offset=base_offset,
                what="a segment with offsets that no index can hold",
            )
