"""The division of each partition's range of offsets into tasks.

Each range is split at batch boundaries into pieces of about one size. If pieces are still too few or too long, they are
split at offsets. Then two tasks open the batch between them, and each keeps its own records. Small pieces share a task.

==========================  ========================================================================================
``splitBytes``              the size of a piece; by default every core of this machine gets two pieces, within 64 and
                            256 MiB, because every task costs Spark CPU time, most with PySpark 4.0. If no record is
                            opened, up to 512 MiB, as such pieces are read faster
``minPartitions``           the minimum number of tasks, if there are as many offsets
``maxRecordsPerPartition``  the maximum number of offsets, and so of records, in a task
==========================  ========================================================================================

Only indexes and batch headers are read.
"""

from __future__ import annotations

import enum
import heapq
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path

from tidelog.model import TopicPartition
from tidelog.runtime.parallel import run_parallel
from tidelog.spark.read.split import SMALL_TASK_BYTES, LogSplit, Piece, grouped
from tidelog.storage.log.view.log_view import LogView

LEAST_SPLIT_BYTES = 64 * 1024 * 1024
MOST_SPLIT_BYTES = 256 * 1024 * 1024
MOST_BYTES_OF_SEGMENTS = 512 * 1024 * 1024
PLANNING_THREADS = 2 * (os.cpu_count() or 1)
"""Planning waits for disks more than it computes."""


class SplitBoundaries(enum.Enum):
    """The boundaries at which a range may be split."""

    BATCHES = enum.auto()
    SEGMENTS = enum.auto()
    NONE = enum.auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRange:
    """A partition's range in a read, as one piece before the split."""

    view: LogView
    piece: Piece
    boundaries: SplitBoundaries
    min_timestamp_ms: int | None = None
    reports_tail: bool = False
    """True if the bytes after the log end make a piece of their own when nothing else does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitPlan:
    split_bytes: int | None = None
    min_partitions: int | None = None
    max_records_per_partition: int | None = None

    def tasks(self, ranges: list[PartitionRange]) -> list[LogSplit]:
        """Return the tasks by partition and offset."""
        # Segments are never split, so small ones are grouped up to the target size.
        of_segments = any(part.boundaries is SplitBoundaries.SEGMENTS for part in ranges)
        most_bytes = MOST_BYTES_OF_SEGMENTS if of_segments else MOST_SPLIT_BYTES
        target = self._target_bytes(sum(part.piece.size_bytes for part in ranges), most_bytes)
        nested = run_parallel(lambda part: _pieces(part, target), ranges, name="plan", threads=PLANNING_THREADS)
        pieces = [piece for part in nested for piece in part]
        most = self.max_records_per_partition
        if most is not None:
            pieces = [part for piece in pieces for part in _cut_by_offsets(piece, most)]
        tasks = grouped(pieces, target if of_segments else min(SMALL_TASK_BYTES, target), most)
        if self.min_partitions is None or len(tasks) >= self.min_partitions:
            return tasks
        return grouped(_halved(pieces, self.min_partitions), 0)

    def _target_bytes(self, total: int, most_bytes: int) -> int:
        chosen = total // (2 * (os.cpu_count() or 1))
        target = self.split_bytes or min(max(chosen, LEAST_SPLIT_BYTES), most_bytes)
        return target if self.min_partitions is None else max(1, min(target, total // self.min_partitions))


def _pieces(part: PartitionRange, target_bytes: int) -> list[Piece]:
    whole = replace(part.piece, leads=True)
    pieces: list[Piece]
    match part.boundaries:
        case SplitBoundaries.BATCHES:
            splits = part.view.splits(whole.start, whole.end, target_bytes, min_timestamp_ms=part.min_timestamp_ms)
            pieces = [
                replace(whole, start=split.start, end=split.end, size_bytes=split.size_bytes, leads=number == 0)
                for number, split in enumerate(splits)
            ]
        case SplitBoundaries.SEGMENTS:
            pieces = _by_segments(whole)
        case SplitBoundaries.NONE:
            pieces = [whole]
    return [whole] if part.reports_tail and not pieces else pieces


def _by_segments(whole: Piece) -> list[Piece]:
    segments = whole.state.segments
    pieces: list[Piece] = []
    for segment in segments.between(whole.start, whole.end):
        following = segments.higher(segment.base_offset)
        start = max(whole.start, segment.base_offset)
        end = whole.end if following is None else min(whole.end, following.base_offset)
        pieces.append(replace(whole, start=start, end=end, size_bytes=segment.size, leads=not pieces))
    return pieces


def _cut_by_offsets(piece: Piece, most: int) -> Iterator[Piece]:
    width = piece.end - piece.start
    if width <= most:
        yield piece
        return
    for start in range(piece.start, piece.end, most):
        end = min(start + most, piece.end)
        size = piece.size_bytes * (end - start) // width
        yield replace(piece, start=start, end=end, size_bytes=size, leads=piece.leads and start == piece.start)


def _halved(pieces: list[Piece], wanted: int) -> list[Piece]:
    """Split the largest pieces in half until there are ``wanted``, as far as their offsets allow."""
    ticket = count()

    def entry(piece: Piece) -> tuple[int, int, Piece]:
        return (-piece.size_bytes, next(ticket), piece)

    single: list[Piece] = []
    heap = [entry(piece) for piece in pieces]
    heapq.heapify(heap)
    while heap and len(heap) + len(single) < wanted:
        piece = heapq.heappop(heap)[2]
        if piece.end - piece.start <= 1:
            single.append(piece)
            continue
        middle = piece.start + (piece.end - piece.start) // 2
        half = piece.size_bytes // 2
        heapq.heappush(heap, entry(replace(piece, end=middle, size_bytes=piece.size_bytes - half)))
        heapq.heappush(heap, entry(replace(piece, start=middle, size_bytes=half, leads=False)))
    return sorted([*single, *(piece for _, _, piece in heap)], key=_place)


def _place(piece: Piece) -> tuple[TopicPartition, Path, int]:
    return piece.partition, piece.directory, piece.start
