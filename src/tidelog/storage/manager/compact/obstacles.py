"""What stops a cleaner in a log, and what it drops or repairs on the way: found by reading all that a clean would read.

==========  ============================================  ==========================================================
kind        what is there                                 what a clean does
==========  ============================================  ==========================================================
CORRUPT     a batch whose bytes contradict themselves     fails at it; the log stays as it is
OVERFLOWED  a segment with an offset that no index holds  splits the segment, then cleans
NO_KEY      records without a key                         drops them: they are in the way of none, and none will be
==========  ============================================  ==========================================================

Of several corrupt batches the first is told: no clean gets to the others. Data of aborted transactions is dropped
unseen, so its records are not looked at. Reads only; beside a live broker too. Called by: the plan.
Source: Kafka's ``Cleaner.buildOffsetMap`` and ``shouldRetainRecord``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tidelog.model import CorruptRecordError, UnsupportedCompressionError
from tidelog.storage.log.load.overflow_split import is_overflowed
from tidelog.storage.log.view.column_stream import ColumnChoice, ColumnChunk, column_chunks
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import ReadRange, Rows
from tidelog.storage.segment.file_names import FileKind, segment_file
from tidelog.storage.segment.read_ahead import read_ahead

_KEYS_ONLY = ColumnChoice(values=False, headers=False)

Advance = Callable[[int], None]
"""Told how many bytes were read since the last call."""


class ObstacleKind(enum.StrEnum):
    """See the module's table."""

    CORRUPT = "corrupt"
    OVERFLOWED = "overflowed"
    NO_KEY = "no_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """``position`` is of a batch in the file, None for a whole segment; ``count``: records, of NO_KEY."""

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
    """Of the batches below ``end``. ``aborted_below``: the high watermark; above it nothing counts as aborted."""
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
    """The first one of a chunk that has any, and how many there are."""
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
