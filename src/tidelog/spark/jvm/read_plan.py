"""A read's tasks as data: the JSON objects that the JVM reader takes. docs/spark-jvm.md describes every field.

The planner's pieces have objects of the storage engine. Here they become names, offsets and positions, so a task needs
no index and no Python. The start of the first segment's bytes is looked up in its index. The functions only read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tidelog.model import FileMissingError
from tidelog.runtime.parallel import run_parallel
from tidelog.spark.read.options import ReadOptions
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.read.split import LogSplit, Piece
from tidelog.spark.read.splitting import PLANNING_THREADS
from tidelog.storage.fs import is_url
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.transaction_scan import AbortedRanges
from tidelog.storage.log.view.view_state import ViewSegment
from tidelog.storage.segment.file_names import FileKind


def settings_json(options: ReadOptions, pruning: Pruning) -> dict[str, Any]:
    """Return the settings of every task of a read."""
    return {
        "verifyChecksums": options.verify_checksums,
        "onCorrupt": options.on_corrupt.value,
        "failOnDataLoss": options.fail_on_data_loss,
        "includeControlRecords": options.include_control_records,
        "minTimestampMs": pruning.min_timestamp_ms,
        "readsAddresses": any(map(is_url, options.log_dirs)),
    }


def tasks_json(splits: Iterable[LogSplit]) -> list[dict[str, Any]]:
    """Return the tasks. Positions are looked up in several threads."""
    tasks = [list(split.pieces) for split in splits if split.pieces]
    pieces = [piece for task in tasks for piece in task]
    positions = run_parallel(_start_position, pieces, name="plan", threads=PLANNING_THREADS)
    numbered = iter(positions)
    return [{"pieces": [_piece_json(piece, next(numbered)) for piece in task]} for task in tasks]


def _start_position(piece: Piece) -> int:
    """Return a batch boundary at or before the piece's first offset, in its first segment."""
    if not len(piece.state.segments):
        return 0
    try:
        with piece.state.segments.first.open(piece.fs, piece.directory) as reader:
            return reader.position_of(piece.start)
    except FileMissingError:
        return 0  # the task reports it, or finds the segments that a running broker has now


def _piece_json(piece: Piece, position: int) -> dict[str, Any]:
    state = piece.state
    tail = state.invalid_tail
    return {
        "topic": piece.partition.topic,
        "partition": piece.partition.partition,
        "directory": str(piece.directory),
        "start": piece.start,
        "end": piece.end,
        "leads": piece.leads,
        "held": state.condition is DirectoryCondition.HELD,
        "logEnd": state.log_end.message_offset,
        "position": position,
        "segments": [_segment_json(piece, segment) for segment in state.segments],
        "aborted": None if piece.aborted is None else _ranges_json(piece.aborted),
        "tail": None
        if tail is None
        else {"file": str(tail.path), "position": tail.position, "length": tail.length, "reason": tail.reason},
    }


def _segment_json(piece: Piece, segment: ViewSegment) -> dict[str, Any]:
    state = piece.state
    following = state.segments.higher(segment.base_offset)
    return {
        "file": segment.files.path(piece.directory, FileKind.LOG).name,
        "baseOffset": segment.base_offset,
        "endOffset": state.log_end.message_offset if following is None else following.base_offset,
        "endPosition": state.end_position(segment),
    }


def _ranges_json(aborted: AbortedRanges) -> dict[str, list[int]]:
    return {
        "producerIds": aborted.producer_id.tolist(),
        "firstOffsets": aborted.first_offset.tolist(),
        "lastOffsets": aborted.last_offset.tolist(),
    }
