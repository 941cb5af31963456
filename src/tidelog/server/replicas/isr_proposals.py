"""The proposals of all led partitions on their way to the controller: the driver of ``AlterPartitions``.

One request is in flight at a time, and proposals that come meanwhile share the next one. A failed request is sent again
after a back-off, until it succeeds or the partition is gone. A proposal that the controller refuses for an unexpected
reason is proposed again by the partition, also after the back-off.
Thread rule: the event loop only. Source: Kafka's ``DefaultAlterPartitionManager``.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence

from tidelog.model import TidelogError
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import (
    AlteredPartition,
    AlterPartitionBatch,
    AlterPartitionResult,
    AlterPartitions,
    IsrProposal,
)
from tidelog.replication.alter_partitions import RETRY_BACKOFF_MS, PartitionKey
from tidelog.replication.in_sync_replicas import FINAL_ERRORS, WITHDRAWN_ERRORS
from tidelog.runtime.executor import Spawn
from tidelog.runtime.timers import Timers, pause
from tidelog.server.metadata.requests import AlteredPartition as CommittedAlteration
from tidelog.server.metadata.requests import PartitionAlteration
from tidelog.server.replicas.partition import Partition

_log = logging.getLogger(__name__)

_EXPECTED = {ErrorCode.NONE} | FINAL_ERRORS | WITHDRAWN_ERRORS
"""Results after which the partition does not repeat its proposal."""

Send = Callable[[Sequence[PartitionAlteration]], Awaitable[Sequence[CommittedAlteration]]]


class IsrProposals:
    def __init__(
        self,
        send: Send,
        partition_of: Callable[[PartitionKey], Partition | None],
        *,
        timers: Timers,
        spawn: Spawn,
        note_failure: Callable[[], object],
    ) -> None:
        """``send`` makes a request to the controller. ``partition_of`` returns None for a partition that is gone.
        ``note_failure`` is called for each proposal that the controller refuses."""
        self._send = send
        self._partition_of = partition_of
        self._timers = timers
        self._spawn = spawn
        self._note_failure = note_failure
        self._queue = AlterPartitions()
        self._sending: asyncio.Task[None] | None = None

    def submit(self, partition: Partition, proposal: IsrProposal) -> None:
        """Send a proposal, and call the partition's ``altered`` later."""
        refused = self._queue.submit((partition.topic_id, partition.topic_partition.partition), proposal)
        if refused is not None:
            asyncio.get_running_loop().call_soon(self._deliver, refused)
        elif self._sending is None:
            self._sending = self._spawn(self._send_all())

    async def _send_all(self) -> None:
        """Send batches until no proposal is left."""
        try:
            while len(self._queue):
                now_ms = self._timers.monotonic_ms()
                batch = self._queue.next_request(now_ms)
                if batch is None:  # a timer may fire before the back-off ends
                    await pause(self._timers, max(1, self._queue.ready_at_ms - now_ms))
                elif not await self._send_batch(batch):
                    await pause(self._timers, RETRY_BACKOFF_MS)
        finally:
            self._sending = None

    async def _send_batch(self, batch: AlterPartitionBatch) -> bool:
        """Send a batch and deliver its results. Return False if a part of it must be repeated."""
        try:
            results = await self._send([_alteration(key, one) for key, one in batch.proposals.items()])
        except TidelogError as error:
            names = ", ".join(
                str(partition.topic_partition) for key in batch.proposals if (partition := self._partition_of(key))
            )
            _log.warning("The in-sync replicas of %s cannot be changed now; this is retried: %s", names, error)
            self._queue.failed(batch, self._timers.monotonic_ms())
            return False
        parts = {key: _response(one) for key, one in zip(batch.proposals, results, strict=True)}
        delivered = self._queue.received(batch, parts)
        for result in delivered:
            self._deliver(result)
        return all(result.response.error_code in _EXPECTED for result in delivered)

    def _deliver(self, result: AlterPartitionResult) -> None:
        partition, code = self._partition_of(result.key), result.response.error_code
        if code != ErrorCode.NONE:
            self._note_failure()
        if partition is not None:
            name, wanted = partition.topic_partition, sorted(result.proposal.broker_ids)
            if code == ErrorCode.NONE:
                _log.info("The in-sync replicas of %s are %s", name, wanted)
            else:
                _log.info(
                    "The controller refuses the in-sync replicas %s of %s: %s", wanted, name, ErrorCode(code).name
                )
            partition.altered(result.proposal, result.response)


def _alteration(key: tuple[uuid.UUID, int], proposal: IsrProposal) -> PartitionAlteration:
    return PartitionAlteration(
        topic_id=key[0],
        partition=key[1],
        isr=[member.broker_id for member in proposal.isr],
        leader_epoch=proposal.leader_epoch,
        partition_epoch=proposal.partition_epoch,
        broker_epochs=[member.broker_epoch for member in proposal.isr],
    )


def _response(committed: CommittedAlteration) -> AlteredPartition:
    state = committed.state
    if state is None:
        return AlteredPartition(error_code=committed.outcome.error)
    return AlteredPartition(
        error_code=committed.outcome.error,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=state.isr,
    )
