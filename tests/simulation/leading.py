"""The driver of a broker's ``InSyncReplicas`` for one partition: fetches, appends and the core's commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from simulation.history import History, listed, name_of
from simulation.replica import Replica
from simulation.requests import Fetch, Fetched, ListedOffsets, ListOffsets
from tidelog.model import LogOffsetMetadata, OffsetOutOfRangeError
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import (
    AdvanceHighWatermark,
    AlteredPartition,
    Brokers,
    FollowerFetch,
    InSyncReplicas,
    IsrProposal,
    LeaderCommands,
    LedPartition,
)
from tidelog.server.metadata.partition_state import PartitionState

LAG_TIME_MS = 10_000
"""``replica.lag.time.max.ms``."""
FETCH_BYTES = 400
"""``replica.fetch.max.bytes``: a few batches."""


class PendingAck(NamedTuple):
    """A produce request with acks=all that waits for the high watermark."""

    first: int
    end: int
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """The parts of a broker that a leader uses."""

    node_id: int
    brokers: Brokers
    propose: Callable[[int, IsrProposal], None]
    """Called with the partition and a proposal for the controller."""
    advanced: Callable[[int], None]
    """Called with the partition after its high watermark has advanced."""
    acknowledge: Callable[[int, PendingAck, int], None]
    """Called with the partition, the request and its epoch once a record is acknowledged."""
    history: History


class LeadingDriver:
    def __init__(self, replica: Replica, outside: Surroundings) -> None:
        self.replica = replica
        self.core = InSyncReplicas(outside.node_id, replica, outside.brokers, lag_time_max_ms=LAG_TIME_MS)
        self._outside = outside
        self._waiting: list[PendingAck] = []

    @property
    def epoch(self) -> int:
        return self.core.leader_epoch

    # --- metadata ---

    def lead(self, state: PartitionState, now_ms: int) -> None:
        """Begin to lead, or take over a newer partition epoch of the same leadership."""
        is_new = not self.core.is_leader or state.leader_epoch > self.core.leader_epoch
        if is_new:
            self._waiting = []
            self.replica.begin_epoch(state.leader_epoch)
            self._outside.history.note(
                "broker {} becomes leader of {} in epoch {} at offset {}, with high watermark {}",
                self._outside.node_id,
                name_of(self.replica.partition),
                state.leader_epoch,
                self.replica.end,
                self.replica.high_watermark,
            )
        partition = LedPartition(
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
        )
        self._run(self.core.lead(partition, now_ms))

    def resign(self) -> None:
        self.core.resign()
        self._waiting = []

    # --- requests ---

    def produce(self, batch: int, records: int, now_ms: int, *, acks_all: bool) -> ErrorCode:
        """Append a batch. With acks=all it is acknowledged once all in-sync replicas have it."""
        error = self.core.append_error() if acks_all else ErrorCode.NONE
        if error is not ErrorCode.NONE:
            return error
        first = self.replica.append_as_leader(batch, records, self.epoch)
        if acks_all:
            self._waiting.append(PendingAck(first, first + records, batch))
        self._outside.history.note(
            "broker {} appends batch {} to {} at offset {}, acks={}",
            self._outside.node_id,
            batch,
            name_of(self.replica.partition),
            first,
            "all" if acks_all else 1,
        )
        self._run(self.core.appended(now_ms))
        return ErrorCode.NONE

    def fetch(self, request: Fetch, now_ms: int) -> Fetched:
        replica = self.replica
        error = self._epoch_error(request.leader_epoch) or self.core.fetch_error(
            request.broker_id, has_leader_epoch=True, broker_epoch=request.broker_epoch
        )
        if error:
            return Fetched(error)
        try:
            if request.last_fetched_epoch >= 0:
                diverging = replica.log.epochs.diverging(request.last_fetched_epoch, request.offset)
                if diverging is not None:
                    return Fetched(ErrorCode.NONE, replica.high_watermark, replica.start, b"", diverging)
            data = replica.read(request.offset, FETCH_BYTES)
        except OffsetOutOfRangeError:
            return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE)
        response = Fetched(ErrorCode.NONE, replica.high_watermark, replica.start, data)
        self._run(
            self.core.fetched(
                FollowerFetch(
                    replica_id=request.broker_id,
                    offset=LogOffsetMetadata(request.offset),
                    log_start_offset=request.log_start,
                    leader_end_offset=replica.end,
                    now_ms=now_ms,
                    broker_epoch=request.broker_epoch,
                )
            )
        )
        return response

    def list_offsets(self, request: ListOffsets) -> ListedOffsets:
        error = self._epoch_error(request.leader_epoch)
        if error:
            return ListedOffsets(error)
        return ListedOffsets(ErrorCode.NONE, self.replica.start if request.is_earliest else self.replica.end)

    def _epoch_error(self, leader_epoch: int) -> ErrorCode:
        """Return the error of a request with another leader epoch than this leader's, or NONE."""
        if leader_epoch == self.epoch:
            return ErrorCode.NONE
        return ErrorCode.FENCED_LEADER_EPOCH if leader_epoch < self.epoch else ErrorCode.UNKNOWN_LEADER_EPOCH

    # --- in-sync replicas ---

    def tick(self, now_ms: int) -> None:
        """Remove lagging followers from the in-sync replicas."""
        self._run(self.core.check_lag(now_ms))

    def altered(self, proposal: IsrProposal, response: AlteredPartition, now_ms: int) -> None:
        self._run(self.core.altered(proposal, response, now_ms))

    # --- commands ---

    def _run(self, commands: LeaderCommands) -> None:
        partition = self.replica.partition
        for command in commands:
            if isinstance(command, AdvanceHighWatermark):
                self.replica.advance_high_watermark(command.offset.message_offset)
                self._outside.advanced(partition)
            else:
                self._outside.history.note(
                    "broker {} asks the controller for the in-sync replicas {} of {}",
                    self._outside.node_id,
                    listed(command.proposal.broker_ids),
                    name_of(partition),
                )
                self._outside.propose(partition, command.proposal)
        while self._waiting and (error := self.core.replication_error(self._waiting[0].end)) is not None:
            ack = self._waiting.pop(0)
            if error is ErrorCode.NONE:
                self._outside.acknowledge(partition, ack, self.epoch)
