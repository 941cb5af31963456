"""The input of a task: pieces of partitions, with the planner's knowledge, so no worker plans again.

A piece carries the part of the partition's frozen state that it needs: its segments, their ends, the aborted
transactions. A worker opens only those segments. It looks at the directory again only if a broker removed a segment
meanwhile. Pieces are pickled for the workers, in a ``LogInputPartition``. Thread rule: any thread, since pieces are
immutable.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.spark.read.whole_partition import WholePartition
from tidelog.storage.fs import BY_PATH, FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.load.listing import sort_names
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.transaction_scan import AbortedRanges
from tidelog.storage.log.view.view_state import ViewSegment, ViewState

SMALL_TASK_BYTES = 4 * 1024 * 1024
"""Pieces are grouped into tasks up to this size: a task costs Spark milliseconds, however little it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """The offsets ``[start, end)`` of one partition, which also serve a row stream as a source of state."""

    partition: TopicPartition
    directory: Path
    start: int
    end: int
    size_bytes: int
    state: ViewState
    aborted: AbortedRanges | None = None
    leads: bool = False
    """True if no other piece of the read lies before it in its partition."""
    checked_from: int | None = None
    """The first segment (base offset) whose CRCs the planner has checked, up to the log end. None if there is none."""

    @property
    def fs(self) -> FileSystem:
        return ReadOnlyFileSystem(BY_PATH)

    def refresh(self) -> ViewState:
        from tidelog.storage.log.view.log_view import LogView  # seldom needed, and large

        return LogView(BY_PATH, self.directory).refresh()

    def trimmed(self) -> Piece:
        """Return the piece without state that no worker needs: other segments, file names, the recovered tail."""
        reaches_end = (
            self.end >= self.state.log_end.message_offset and self.state.condition is not DirectoryCondition.HELD
        )
        state = replace(
            self.state,
            listing=sort_names(()),
            segments=LogSegments(self._segments_and_next()),
            invalid_tail=self.state.invalid_tail if reaches_end else None,
            recovered=None,
        )
        aborted = None if self.aborted is None else self.aborted.touching(self.start, self.end)
        recovered = self.state.recovered
        checked_from = None if recovered is None else recovered.start_offset
        return replace(self, state=state, aborted=aborted, checked_from=checked_from)

    def is_checked(self, base_offset: int) -> bool:
        """Return True if the search for an uncleanly closed log's end has validated every CRC of that segment."""
        return self.checked_from is not None and base_offset >= self.checked_from

    def _segments_and_next(self) -> tuple[ViewSegment, ...]:
        # The next segment bounds the offsets of the last one.
        segments = self.state.segments.between(self.start, self.end)
        following = self.state.segments.higher(segments[-1].base_offset) if segments else None
        return segments if following is None else (*segments, following)


class LogSplit:
    """The input of one task, in this sequence: pieces of partitions, or whole partitions, as the table needs them."""

    def __init__(self, pieces: Iterable[Piece] = (), whole: Iterable[WholePartition] = ()) -> None:
        self.pieces = tuple(pieces)
        self.whole = tuple(whole)

    def __repr__(self) -> str:
        names = [f"{piece.partition}[{piece.start}, {piece.end})" for piece in self.pieces]
        names += [str(whole.partition) for whole in self.whole]
        return f"LogSplit({', '.join(names)})"


def grouped(pieces: Iterable[Piece], most_bytes: int, most_offsets: int | None = None) -> list[LogSplit]:
    """Group neighbouring pieces within the bounds. With ``most_bytes`` 0 every piece is a task of its own."""
    splits: list[LogSplit] = []
    pending: list[Piece] = []
    size = offsets = 0
    for piece in pieces:
        width = piece.end - piece.start
        fits = size + piece.size_bytes <= most_bytes and (most_offsets is None or offsets + width <= most_offsets)
        if pending and not fits:
            splits.append(LogSplit(pending))
            pending, size, offsets = [], 0, 0
        pending.append(piece.trimmed())
        size += piece.size_bytes
        offsets += width
    return [*splits, LogSplit(pending)] if pending else splits


def grouped_whole(partitions: Iterable[WholePartition]) -> list[LogSplit]:
    """Group neighbouring partitions while little of them is read."""
    splits: list[LogSplit] = []
    pending: list[WholePartition] = []
    size = 0
    for whole in partitions:
        if pending and size + whole.size_bytes > SMALL_TASK_BYTES:
            splits.append(LogSplit(whole=pending))
            pending, size = [], 0
        pending.append(whole)
        size += whole.size_bytes
    return [*splits, LogSplit(whole=pending)] if pending else splits
