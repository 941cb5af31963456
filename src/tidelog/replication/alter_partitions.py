"""The proposals of all partitions of a broker on their way to the controller. Without I/O.

A driver calls ``next_request`` whenever something may have changed, sends the batch as one AlterPartition request, and
calls ``received`` or ``failed``. One request is in flight at a time, so the proposals of many partitions share one.

==================================================  ===============================================================
event                                               effect
==================================================  ===============================================================
a proposal of a partition that has one here         OPERATION_NOT_ATTEMPTED: the new one is not queued
a response                                          each partition's part leaves the queue and is returned
a response without a partition                      the proposal stays, and is sent again at once
an error for the whole request, or no response      all proposals stay, and are sent again after the back-off
==================================================  ===============================================================

An error for the whole request may be STALE_BROKER_EPOCH, a refused authorization or authentication, or an unsupported
version. All of them can pass, so none is final. Source: Kafka's ``DefaultAlterPartitionManager`` (KIP-497).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from tidelog.protocol.errors import ErrorCode
from tidelog.replication.isr_proposal import AlteredPartition, IsrProposal

RETRY_BACKOFF_MS = 50

PartitionKey = tuple[uuid.UUID, int]
"""The topic's id and the partition's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionBatch:
    """The partitions of one AlterPartition request."""

    proposals: Mapping[PartitionKey, IsrProposal]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterPartitionResult:
    """A partition's proposal with the controller's response, for ``InSyncReplicas.altered``."""

    key: PartitionKey
    proposal: IsrProposal
    response: AlteredPartition


class AlterPartitions:
    def __init__(self, *, retry_backoff_ms: int = RETRY_BACKOFF_MS) -> None:
        """Create an empty queue."""
        self._queue: dict[PartitionKey, IsrProposal] = {}
        self._in_flight: AlterPartitionBatch | None = None
        self._retry_backoff_ms = retry_backoff_ms
        self.ready_at_ms = 0
        """The end of the last back-off."""

    def __len__(self) -> int:
        """Return the number of queued proposals, including those in flight."""
        return len(self._queue)

    def submit(self, key: PartitionKey, proposal: IsrProposal) -> AlterPartitionResult | None:
        """Queue a proposal. Return a result with OPERATION_NOT_ATTEMPTED if the partition has another one here."""
        if key in self._queue:
            refused = AlteredPartition(error_code=ErrorCode.OPERATION_NOT_ATTEMPTED)
            return AlterPartitionResult(key=key, proposal=proposal, response=refused)
        self._queue[key] = proposal
        return None

    def next_request(self, now_ms: int) -> AlterPartitionBatch | None:
        """Return the batch to send now, or None if there is none, one is in flight, or a back-off lasts."""
        if not self._queue or self._in_flight is not None or now_ms < self.ready_at_ms:
            return None
        self._in_flight = AlterPartitionBatch(proposals=dict(self._queue))
        return self._in_flight

    def received(
        self, batch: AlterPartitionBatch, parts: Mapping[PartitionKey, AlteredPartition]
    ) -> tuple[AlterPartitionResult, ...]:
        """Return the results of the batch in flight. They are out of the queue, so a new proposal can follow each."""
        if batch is not self._in_flight:
            return ()
        self._in_flight = None
        return tuple(
            AlterPartitionResult(key=key, proposal=self._queue.pop(key), response=parts[key])
            for key in batch.proposals
            if key in parts
        )

    def failed(self, batch: AlterPartitionBatch, now_ms: int) -> None:
        """Keep the proposals of the batch in flight until the back-off ends."""
        if batch is self._in_flight:
            self._in_flight = None
            self.ready_at_ms = now_ms + self._retry_backoff_ms
