"""Reads without an end: they wait for new records, over rolls, compaction and restarts of the owner.

Appends of another process to the page cache cause no notification, so the directory is read again after a pause. Thread
rule: a follower belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tidelog.model import Isolation
from tidelog.runtime import Clock
from tidelog.storage.log.view.column_stream import ColumnChoice, ColumnChunk, column_chunks
from tidelog.storage.log.view.log_view import LogView, Until

POLL_INTERVAL_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadRequest:
    """A caller's request. None stands for the log start, and for the end that ``until`` sets."""

    start: int | None = None
    end: int | None = None
    isolation: Isolation = Isolation.READ_UNCOMMITTED
    until: Until | None = None


def read_columns(view: LogView, request: ReadRequest, choice: ColumnChoice) -> Iterator[ColumnChunk]:
    """Return the present records. Raise OffsetOutOfRangeError at once if the log does not have the start."""
    wanted = view.range(request.start, request.end, isolation=request.isolation, until=request.until)
    return view.columns(wanted, choice)


def follow_columns(
    view: LogView, request: ReadRequest, choice: ColumnChoice, clock: Clock, check_open: Callable[[], None]
) -> Iterator[ColumnChunk]:
    """Return the records of ``read_columns`` and then new ones, until ``request.end`` or the caller stops.

    ``check_open`` raises once the log is closed.
    """
    first = view.range(request.start, request.end, isolation=request.isolation, until=request.until)
    return _follow(view, first.start, request, choice, clock, check_open)


def _follow(
    view: LogView, start: int, request: ReadRequest, choice: ColumnChoice, clock: Clock, check_open: Callable[[], None]
) -> Iterator[ColumnChunk]:
    next_offset = start
    while request.end is None or next_offset < request.end:
        wanted = view.range(next_offset, request.end, isolation=request.isolation, until=request.until)
        if wanted.start < wanted.end:
            stream = view.batches(wanted)
            yield from column_chunks(stream, choice, wanted.start, wanted.end)
            next_offset = stream.next_offset
        else:
            clock.sleep_ms(POLL_INTERVAL_MS)
        check_open()
        view.refresh()
