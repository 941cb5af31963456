"""The work on a copy's logs after one fetch response: ``run_work``, once all producer ids are reserved.

Before anything is done, the pass looks for the largest producer id in the batches' headers, and in the values of
``__transaction_state``. If it is not reserved, the pass ends with that id, and it is repeated after the reservation. So
a crash never leaves a record whose producer id a broker on the copy could hand out again.

The high watermark of a copy is its log end. Thread rule: one pass at a time for a partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tidelog.following.log_work import LogOutcome, LogWork, check_batches, run_work
from tidelog.mirroring.target.transaction_states import producer_ids
from tidelog.model.internal_topics import TRANSACTION_STATE_TOPIC
from tidelog.storage.log.append.follower_check import FetchedBatches
from tidelog.storage.manager.log_manager import LogManager


@dataclass(frozen=True, slots=True, kw_only=True)
class PassResult:
    """The outcomes in the order of the work, or a producer id to reserve before the pass is repeated."""

    outcomes: Sequence[LogOutcome] = ()
    unreserved_id: int | None = None


def run_pass(logs: LogManager, work: Sequence[LogWork], reserved_end: int) -> PassResult:
    """Execute the commands. Producer ids from ``reserved_end`` on are not reserved."""
    batches = check_batches(work)
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
    return PassResult(outcomes=run_work(logs, work, batches, sets_high_watermark=False))


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
