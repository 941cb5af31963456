"""The work on the logs after one fetch response: several partitions in one turn of a background thread.

====================  ================================================================================================
command               what is done
====================  ================================================================================================
``Append``            append the leader's batches unchanged, in pieces that fill segments well, up to the first
                      invalid batch
``TruncateTo``        remove the records from an offset on, with the cleaner paused, and write recovery points
``TruncateFully``     remove all records and go on at an offset
``RaiseLogStart``     delete the oldest records, as the leader did
``SetHighWatermark``  set the high watermark, if the caller wants it: that of the mirror's copy is its log end
====================  ================================================================================================

``check_batches`` scans all batches first, so a caller can look at them before anything is done. A log that was replaced
by a move between log directories is looked up again, and the command is repeated on the new one.

An error ends the work on its partition only. A short pass (``is_short``) may run on the event loop, as a leader's
append does: it costs less than a switch of threads. Thread rule: one pass at a time for a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from tidelog.model import ClosedError, TidelogError, TopicPartition
from tidelog.replication.follower_commands import (
    Append,
    LogCommand,
    RaiseLogStart,
    SetHighWatermark,
    TruncateFully,
    TruncateTo,
)
from tidelog.storage.log.append.follower_check import FetchedBatches
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager

_PIECES_A_SEGMENT: Final = 16
_MOST_OFFSETS: Final = 2**30
"""The span of a piece's offsets. A segment can hold twice as many; the base offset of an old compressed batch is
unknown."""
SHORT_PASS_BYTES: Final = 64 * 1024
"""The most bytes of records in a short pass."""

Value = TypeVar("Value")


class LogWork(NamedTuple):
    """The commands for one log, in sequence."""

    partition: TopicPartition
    log: PartitionLog
    commands: Sequence[LogCommand]


class LogOutcome(NamedTuple):
    """The result for one log. ``error`` is that of the first command that failed; later ones were not executed."""

    error: TidelogError | None
    appended_bytes: int


CheckedBatches = Sequence[FetchedBatches | None]
"""The checked batches of each command; None for a command without batches."""


def is_short(work: Sequence[LogWork]) -> bool:
    """Return True if the work neither waits for the disk nor appends more than ``SHORT_PASS_BYTES``."""
    size = 0
    for one in work:
        for command in one.commands:
            if isinstance(command, Append):
                if one.log.append_waits_for_disk or one.log.config.flushes_appends:
                    return False
                size += memoryview(command.records).nbytes
            elif not isinstance(command, SetHighWatermark):
                return False
    return size <= SHORT_PASS_BYTES


def check_batches(work: Sequence[LogWork]) -> list[CheckedBatches]:
    """Check the batches of all commands, in any thread."""
    return [
        [
            FetchedBatches.of(command.records, command.leader_epoch) if isinstance(command, Append) else None
            for command in one.commands
        ]
        for one in work
    ]


def run_work(
    logs: LogManager, work: Sequence[LogWork], batches: Sequence[CheckedBatches], *, sets_high_watermark: bool
) -> list[LogOutcome]:
    """Execute the commands, whose batches ``check_batches`` has checked."""
    return [_run(logs, one, found, sets_high_watermark) for one, found in zip(work, batches, strict=True)]


def _run(logs: LogManager, work: LogWork, batches: CheckedBatches, sets_high_watermark: bool) -> LogOutcome:
    log, appended = _LogInPass(logs, work), 0
    try:
        for command, found in zip(work.commands, batches, strict=True):
            match command:
                case Append():
                    assert found is not None
                    for piece in _pieces(found, work.log.config.segment_bytes):
                        log.change(PartitionLog.append_fetched, piece)
                        appended += int(piece.table.size.sum())
                    if found.damage is not None:
                        raise found.damage
                case TruncateTo():
                    log.change(lambda _log, offset: logs.truncate_to({work.partition: offset}), command.offset)
                case TruncateFully():
                    log.change(
                        lambda _log, offset: logs.truncate_fully_and_start_at(work.partition, offset), command.offset
                    )
                case RaiseLogStart():
                    log.change(PartitionLog.maybe_increment_log_start_offset, command.offset)
                case SetHighWatermark() if sets_high_watermark:
                    log.change(PartitionLog.update_high_watermark, command.offset)
    except TidelogError as error:
        return LogOutcome(error, appended)
    return LogOutcome(None, appended)


class _LogInPass:
    """The log of a partition during a pass. A move may replace it at any time."""

    def __init__(self, logs: LogManager, work: LogWork) -> None:
        self._logs = logs
        self._partition = work.partition
        self._log = work.log

    def change(self, change: Callable[[PartitionLog, Value], object], value: Value) -> None:
        """Change the log, or its replacement."""
        while True:
            try:
                change(self._log, value)
            except ClosedError:
                self._logs.handle_failures()  # returns once a running move or failure handling has ended
                found = self._logs.log(self._partition)
                if found is None or found is self._log:
                    raise
                self._log = found
            else:
                return


def _pieces(batches: FetchedBatches, segment_bytes: int) -> Iterator[FetchedBatches]:
    """Yield the batches in pieces of several batches, since an append goes into one segment as a whole.

    A piece has at most a sixteenth of a segment, or one batch, and its offsets fit into one segment.
    """
    table, most = batches.table, max(1, segment_bytes // _PIECES_A_SEGMENT)
    begun = first_position = first_offset = 0
    for number, (end, base, last) in enumerate(
        zip(
            (table.position + table.size).tolist(),
            table.base_offset.tolist(),
            table.last_offset.tolist(),
            strict=True,
        )
    ):
        if number > begun and (end - first_position > most or last - first_offset > _MOST_OFFSETS):
            yield batches.take(slice(begun, number))
            begun = number
        if number == begun:
            first_position, first_offset = int(table.position[number]), base
    if len(table):
        yield batches.take(slice(begun, None))
