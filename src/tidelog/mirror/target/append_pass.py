"""The appends of one fetch response: several partitions in one turn of a background thread.

A batch whose producer id is not reserved is not appended. The pass then ends with that id, and it is repeated after the
reservation. So a crash never leaves a record whose producer id a broker on the copy could hand out again. Records are
never decoded; the header table of each partition's bytes is enough. Thread rule: one pass at a time for a partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from tidelog.kernel import scan_batches
from tidelog.model import TidelogError, TopicPartition
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from typing_extensions import Buffer


class FetchedRecords(NamedTuple):
    """The batches that a leader sent for one partition."""

    partition: TopicPartition
    log: PartitionLog
    data: Buffer
    leader_epoch: int
    """The epoch of the fetch. Batches of a later epoch are left out."""
    log_start_offset: int
    """The leader's log start; negative if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendedRecords:
    """The result for one partition: an error, or the offsets."""

    partition: TopicPartition
    result: AppendResult | None = None
    error: TidelogError | None = None


def largest_producer_id(fetched: Sequence[FetchedRecords]) -> int:
    """Return the largest producer id in the batches' headers, or -1."""
    largest = -1
    for part in fetched:
        table = scan_batches(part.data, verify_crc=False)
        if len(table):
            largest = max(largest, int(table.producer_id.max()))
    return largest


def append_all(fetched: Sequence[FetchedRecords]) -> list[AppendedRecords]:
    """Append the records of each partition, and follow the leader's log start.

    An error ends the work on its partition only.
    """
    appended = []
    for part in fetched:
        try:
            result = part.log.append_as_follower(part.data, part.leader_epoch)
            follow_log_start(part.log, part.log_start_offset)
        except TidelogError as error:
            appended.append(AppendedRecords(partition=part.partition, error=error))
        else:
            appended.append(AppendedRecords(partition=part.partition, result=result))
    return appended


def follow_log_start(log: PartitionLog, log_start_offset: int) -> None:
    """Delete the records that the leader has deleted (retention, DeleteRecords), as far as the log has records."""
    if log_start_offset > log.log_start_offset:
        log.maybe_increment_log_start_offset(min(log_start_offset, log.end_offset))
