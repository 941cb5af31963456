"""The leader's side of a partition: its in-sync replicas, its high watermark, and the fetches of its followers.

It drives the core ``InSyncReplicas``, which has the rules, and executes that core's commands on the log. A proposal
goes to the controller by ``propose``, which calls ``altered`` later. ``check_lag`` removes lagging followers from the
in-sync replicas; the replica manager calls it every half of ``replica.lag.time.max.ms``.

A fetch offset confirms the records below it, so ``fetched`` may move the high watermark. The caller then checks the
partition's delayed operations. Thread rule: the event loop only. Source: Kafka's ``Partition`` (KIP-497, KIP-903,
KIP-966).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tidelog.model import LogOffsetMetadata
from tidelog.protocol.errors import ApiError
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
from tidelog.replication.in_sync_replicas import DEFAULT_LAG_TIME_MAX_MS
from tidelog.replication.replica_state import ANY_BROKER_EPOCH
from tidelog.runtime.timers import Timers
from tidelog.server.replicas.log_in_use import LogInUse
from tidelog.storage.log.partition_log import LogRead

NO_EPOCH = -1
"""The leader epoch of a request that does not state one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeadingSetup:
    """The parts of the broker that a leader uses."""

    node_id: int
    brokers: Brokers
    timers: Timers
    propose: Callable[[IsrProposal], object]
    """Sends a proposal to the controller, and calls ``altered`` later, never within this call."""
    lag_time_max_ms: int = DEFAULT_LAG_TIME_MAX_MS
    note_isr: Callable[[int], object] = lambda _change: None
    """Called with the growth of the in-sync replicas after the controller has committed it; negative if they shrank."""


class Leading:
    def __init__(self, log: LogInUse, setup: LeadingSetup) -> None:
        self.in_sync = InSyncReplicas(setup.node_id, log, setup.brokers, lag_time_max_ms=setup.lag_time_max_ms)
        """The in-sync replicas. Their leadership begins once the log has recorded the epoch."""
        self._log = log
        self._setup = setup

    # --- metadata ---

    def lead(self, partition: LedPartition) -> bool:
        """Lead as the metadata says. Return True if the leader epoch is new. Raise StorageError if the log cannot
        record it, and ApiError(KAFKA_STORAGE_ERROR) if it is offline."""
        is_new = not self.in_sync.is_leader or self.in_sync.leader_epoch != partition.leader_epoch
        if is_new:
            self._log.change(lambda log: log.begin_epoch(partition.leader_epoch))
        before = self.in_sync.isr
        self._run(self.in_sync.lead(partition, self._now_ms))
        if not is_new:
            self._note_isr(before)
        return is_new

    def resign(self) -> None:
        self.in_sync.resign()

    def altered(self, proposal: IsrProposal, response: AlteredPartition) -> bool:
        """Process the controller's response to a proposal. Return True if the high watermark moved."""
        before = self.in_sync.isr
        has_moved = self._run(self.in_sync.altered(proposal, response, self._now_ms))
        self._note_isr(before)
        return has_moved

    def check_lag(self) -> bool:
        """Propose to remove the followers that have not been caught up for too long. Return True if the high watermark
        moved: it no longer waits for a replica that was about to join the in-sync replicas, and then stopped fetching.
        Kafka waits for the next append."""
        now_ms = self._now_ms
        self._run(self.in_sync.check_lag(now_ms))
        return self._run(self.in_sync.appended(now_ms))

    # --- replication ---

    def appended(self) -> bool:
        """Advance the high watermark if the leader alone decides it. Return True if it moved."""
        return self._run(self.in_sync.appended(self._now_ms))

    def require_follower(self, replica_id: int, leader_epoch: int, broker_epoch: int) -> None:
        """Raise ApiError if the fetching broker is not, or not yet, a follower of this leader."""
        error = self.in_sync.fetch_error(
            replica_id, has_leader_epoch=leader_epoch != NO_EPOCH, broker_epoch=broker_epoch
        )
        if error:
            raise ApiError(
                error,
                f"Replica {replica_id} in broker epoch {broker_epoch} is not a current replica of"
                f" {self._log.topic_partition} in leader epoch {self.in_sync.leader_epoch} with partition epoch"
                f" {self.in_sync.partition_epoch}",
            )

    def fetched(
        self, replica_id: int, read: LogRead, *, log_start_offset: int, broker_epoch: int = ANY_BROKER_EPOCH
    ) -> bool:
        """Record that a follower has every record below the start of ``read``, which did not diverge. Return True if
        the high watermark moved."""
        fetch = FollowerFetch(
            replica_id=replica_id,
            offset=read.start,
            log_start_offset=log_start_offset,
            leader_end_offset=read.offsets.log_end.message_offset,
            now_ms=self._now_ms,
            broker_epoch=broker_epoch,
        )
        return self._run(self.in_sync.fetched(fetch))

    @property
    def low_watermark(self) -> int:
        """The smallest log start of this leader and of its followers that are alive. A follower that has not fetched
        yet counts with its unknown start, -1."""
        starts = [self._log.require().log_start_offset]
        for replica_id, state in self.in_sync.followers.items():
            if self._setup.brokers.active_epoch(replica_id) is not None:
                starts.append(state.log_start_offset)
        return min(starts)

    # --- inside ---

    @property
    def _now_ms(self) -> int:
        return self._setup.timers.monotonic_ms()

    def _note_isr(self, before: frozenset[int]) -> None:
        if self.in_sync.isr != before:
            self._setup.note_isr(len(self.in_sync.isr) - len(before))

    def _run(self, commands: LeaderCommands) -> bool:
        """Execute commands of ``in_sync``. Return True if the high watermark moved."""
        moved = False
        for command in commands:
            if isinstance(command, AdvanceHighWatermark):
                moved = self._advance(command.offset) or moved
            else:
                self._setup.propose(command.proposal)
        return moved

    def _advance(self, wanted: LogOffsetMetadata) -> bool:
        return self._log.change(lambda log: log.maybe_increment_high_watermark(wanted)) is not None
