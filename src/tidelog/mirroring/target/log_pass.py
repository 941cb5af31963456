"""The work on the logs after one fetch response: several partitions in one turn of a background thread.

====================  ================================================================================================
command               what the pass does
====================  ================================================================================================
``Append``            append the leader's batches unchanged, in pieces that fill segments well; the kernel checks
                      their CRCs once
``TruncateTo``        remove the records from an offset on, with the cleaner paused, and write recovery points
``TruncateFully``     remove all records and go on at an offset
``RaiseLogStart``     delete the oldest records, as the leader did
``SetHighWatermark``  nothing: the high watermark of a copy is its log end
====================  ================================================================================================

Before anything is done, the pass looks for the largest producer id in the headers of the batches, and in the values of
``__transaction_state``. If it is not reserved, the pass ends with that id, and it is repeated after the reservation. So
a crash never leaves a record whose producer id a broker on the copy could hand out again.

An error ends the work on its partition only. Thread rule: one pass at a time for a partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from tidelog.kernel import Stop, scan_batches
from tidelog.mirroring.target.transaction_states import producer_ids
from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import TRANSACTION_STATE_TOPIC
from tidelog.replication.follower_commands import Append, LogCommand, RaiseLogStart, TruncateFully, TruncateTo
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.manager.log_manager import LogManager

if TYPE_CHECKING:
    from typing_extensions import Buffer

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
    largest = largest_producer_id(work)
    if largest >= reserved_end:
        return PassResult(unreserved_id=largest)
    return PassResult(outcomes=[_run(logs, one) for one in work])


def largest_producer_id(work: Iterable[LogWork]) -> int:
    """Return the largest producer id of the batches to append, or -1."""
    largest = -1
    for partition, _log, commands in work:
        for command in commands:
            if isinstance(command, Append):
                largest = max(largest, _largest_in_headers(command.records))
                if partition.topic == TRANSACTION_STATE_TOPIC:
                    largest = max(largest, max(producer_ids(command.records), default=-1))
    return largest


def _largest_in_headers(records: Buffer) -> int:
    table = scan_batches(records, verify_crc=False)
    return int(table.producer_id.max()) if len(table) else -1


def _run(logs: LogManager, work: LogWork) -> LogOutcome:
    appended = 0
    try:
        for command in work.commands:
            match command:
                case Append():
                    for piece in _pieces(command.records, work.log.config.segment_bytes):
                        work.log.append_as_follower(piece, command.leader_epoch)
                        appended += piece.nbytes
                case TruncateTo():
                    logs.truncate_to({work.partition: command.offset})
                case TruncateFully():
                    logs.truncate_fully_and_start_at(work.partition, command.offset)
                case RaiseLogStart():
                    work.log.maybe_increment_log_start_offset(command.offset)
    except TidelogError as error:
        return LogOutcome(error, appended)
    return LogOutcome(None, appended)


def _pieces(records: Buffer, segment_bytes: int) -> Iterator[memoryview]:
    """Yield the complete batches in pieces of several batches, since an append goes into one segment as a whole.

    A piece has at most a sixteenth of a segment, or one batch, and its offsets fit into one segment.
    """
    table = scan_batches(records, verify_crc=False)
    data, most = memoryview(records).cast("B"), max(1, segment_bytes // _PIECES_A_SEGMENT)
    start = end = 0
    first_offset = 0
    for position, size, base, last in zip(
        table.position.tolist(),
        table.size.tolist(),
        table.base_offset.tolist(),
        table.last_offset.tolist(),
        strict=True,
    ):
        if end > start and (position + size - start > most or last - first_offset > _MOST_OFFSETS):
            yield data[start:end]
            start = end
        if end == start:
            first_offset = base
        end = position + size
    if end > start:
        yield data[start:end]
    if table.stop not in (Stop.END, Stop.PARTIAL):
        yield data[end:]  # the append names the damage
