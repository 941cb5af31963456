"""The work on the logs after one fetch response: several partitions in one turn of a background thread.

====================  ================================================================================================
command               what the pass does
====================  ================================================================================================
``Append``            append the leader's batches unchanged, in pieces that fill segments well, up to the first
                      invalid batch
``TruncateTo``        remove the records from an offset on, with the cleaner paused, and write recovery points
``TruncateFully``     remove all records and go on at an offset
``RaiseLogStart``     delete the oldest records, as the leader did
``SetHighWatermark``  nothing: the high watermark of a copy is its log end
====================  ================================================================================================

Before anything is done, the pass checks all batches in one scan. It looks for the largest producer id in their
headers, and in the values of ``__transaction_state``. If it is not reserved, the pass ends with that id, and it is
repeated after the reservation. So a crash never leaves a record whose producer id a broker on the copy could hand out
again.

An error ends the work on its partition only. Thread rule: one pass at a time for a partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.mirroring.target.transaction_states import producer_ids
from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import TRANSACTION_STATE_TOPIC
from tidelog.replication.follower_commands import Append, LogCommand, RaiseLogStart, TruncateFully, TruncateTo
from tidelog.storage.log.append.follower_check import FetchedBatches
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager

_PIECES_A_SEGMENT: Final = 16
_MOST_OFFSETS: Final = 2**30
"""The span of a piece's offsets. A segment can hold twice as many; the base offset of an old compressed batch is
unknown."""


class LogWork(NamedTuple):
    """The commands for one log, in sequence."""

    partition: TopicPartition
    log: PartitionLog
    commands: Sequence[LogCommand]


class LogOutcome(NamedTuple):
    """The result for one log. ``error`` is that of the first command that failed; later ones were not executed."""

    error: TidelogError | None
    appended_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """The outcomes in the order of the work, or a producer id to reserve before the pass is repeated."""

    outcomes: Sequence[LogOutcome] = ()
    unreserved_id: int | None = None


def run_pass(logs: LogManager, work: Sequence[LogWork], reserved_end: int) -> PassResult:
    """Execute the commands. Producer ids from ``reserved_end`` on are not reserved."""
    batches = [
        [
            FetchedBatches.of(command.records, command.leader_epoch) if isinstance(command, Append) else None
            for command in one.commands
        ]
        for one in work
    ]
    largest = max(
        (
            _largest_producer_id(one.partition.topic, appended)
            for one, found in zip(work, batches, strict=True)
            for appended in found
            if appended is not None
        ),
        default=-1,
    )
    if largest >= reserved_end:
        return PassResult(unreserved_id=largest)
    return PassResult(outcomes=[_run(logs, one, found) for one, found in zip(work, batches, strict=True)])


def _largest_producer_id(topic: str, batches: FetchedBatches) -> int:
    """Return the largest producer id of batches, or -1."""
    table = batches.table
    if not len(table):
        return -1
    largest = int(table.producer_id.max())
    if topic == TRANSACTION_STATE_TOPIC:
        end = int(table.position[-1] + table.size[-1])
        largest = max(largest, max(producer_ids(batches.data[:end]), default=-1))
    return largest


def _run(logs: LogManager, work: LogWork, batches: Sequence[FetchedBatches | None]) -> LogOutcome:
    appended = 0
    try:
        for command, found in zip(work.commands, batches, strict=True):
            match command:
                case Append():
                    assert found is not None
                    for piece in _pieces(found, work.log.config.segment_bytes):
                        work.log.append_fetched(piece)
                        appended += int(piece.table.size.sum())
                    if found.damage is not None:
                        raise found.damage
                case TruncateTo():
                    logs.truncate_to({work.partition: command.offset})
                case TruncateFully():
                    logs.truncate_fully_and_start_at(work.partition, command.offset)
                case RaiseLogStart():
                    work.log.maybe_increment_log_start_offset(command.offset)
    except TidelogError as error:
        return LogOutcome(error, appended)
    return LogOutcome(None, appended)


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
