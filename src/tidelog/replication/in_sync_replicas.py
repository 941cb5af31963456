"""The in-sync replicas of a partition that this broker leads, and its high watermark. Without I/O.

A driver calls a method for each event, and executes the commands that it returns::

    replicas = InSyncReplicas(node_id, log, brokers)
    run(replicas.lead(partition, now_ms))          # the metadata names this broker as the leader
    run(replicas.appended(now_ms))                 # the log end has moved
    run(replicas.fetched(FollowerFetch(…)))        # a follower's Fetch was read and did not diverge
    run(replicas.check_lag(now_ms))                # every half of replica.lag.time.max.ms
    run(replicas.altered(proposal, response, now_ms))
    replicas.resign()                              # another broker leads

=====================  =================================================================================
command                what the driver does
=====================  =================================================================================
ProposeIsr             send an AlterPartition request, and call ``altered`` with the response
AdvanceHighWatermark   ``log.maybe_increment_high_watermark(offset)``, and check delayed operations
=====================  =================================================================================

The committed ISR is the controller's. A change is proposed to the controller, one at a time, and is pending until its
response, or newer metadata, arrives. The maximal ISR holds every replica that may be in the controller's ISR:

==================  =======================================  ===================================================
state               committed ISR                            maximal ISR
==================  =======================================  ===================================================
nothing pending     the controller's                         the committed one
expansion pending   without the new replica                  with the new replica
shrink pending      with the lagging replicas                the committed one: the shrink may fail
==================  =======================================  ===================================================

==================================================  ===============================================================
rule                                                condition
==================================================  ===============================================================
high watermark                                      the smallest log end of the leader, of the maximal ISR, and of
                                                    every replica that is caught up and eligible: it is about to
                                                    join. Under the minimum it stays (KIP-966)
expand, at a follower's fetch                       nothing is pending; the follower is eligible, and its log end
                                                    is at or above the high watermark and the start of the epoch
shrink, at ``check_lag``                            nothing is pending; members that are not caught up, all at once
eligible                                            registered, not fenced, not shutting down, and in the broker
                                                    epoch of its last fetch (or that fetch had none)
caught up                                           ``ReplicaState.is_caught_up``, within replica.lag.time.max.ms
minimum                                             min.insync.replicas, at most the number of replicas
under the minimum                                   the committed ISR is smaller; acks=all is refused
response of acks=all                                after the high watermark, see ``replication_error``
==================================================  ===============================================================

==================================================  ===============================================================
response of AlterPartition                          effect
==================================================  ===============================================================
to another proposal than the pending one            none
another leader epoch, or an older partition epoch   none: newer metadata will follow
success                                             its ISR is the committed one
OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA         the proposal is withdrawn: the controller has not applied it
an error of ``FINAL_ERRORS``                        the proposal stays pending until newer metadata arrives
any other error                                     the same proposal again
==================================================  ===============================================================

Metadata with a larger partition epoch replaces the committed ISR and ends a pending proposal. Metadata of the known
partition epoch changes nothing: Kafka drops a pending proposal then, although the controller may still apply it.
Thread rule: one thread, or the driver's lock. Source: Kafka's ``Partition`` (KIP-497, KIP-704, KIP-841, KIP-903,
KIP-966).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tidelog.model import LogOffsetMetadata
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.isr_proposal import AlteredPartition, IsrMember, IsrProposal, LedPartition
from tidelog.replication.replica_state import ANY_BROKER_EPOCH, FollowerFetch, ReplicaState

DEFAULT_LAG_TIME_MAX_MS = 30_000
"""The default of ``replica.lag.time.max.ms``."""
NO_EPOCH = -1

WITHDRAWN_ERRORS = frozenset({ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA})
"""The controller has the leader's partition epoch, and has not applied the proposal."""

FINAL_ERRORS = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.INVALID_UPDATE_VERSION,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.NEW_LEADER_ELECTED,
    }
)
"""The partition has changed at the controller, and the metadata will tell. A retry cannot succeed."""


class LeaderLog(Protocol):
    """The leader's log. ``PartitionLog`` implements the first two; the last one is a setting of the topic."""

    @property
    def high_watermark(self) -> int: ...
    @property
    def log_end(self) -> LogOffsetMetadata: ...
    @property
    def min_insync_replicas(self) -> int: ...


class Brokers(Protocol):
    """The brokers in the metadata."""

    def active_epoch(self, broker_id: int, /) -> int | None:
        """Return the epoch of a registered broker that is not fenced, or None."""
        ...

    def is_shutting_down(self, broker_id: int, /) -> bool: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposeIsr:
    """Send the proposal to the controller, now or with others."""

    proposal: IsrProposal


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvanceHighWatermark:
    """Move the high watermark forward to ``offset``."""

    offset: LogOffsetMetadata


LeaderCommands = tuple[ProposeIsr | AdvanceHighWatermark, ...]


class InSyncReplicas:
    def __init__(
        self, node_id: int, log: LeaderLog, brokers: Brokers, *, lag_time_max_ms: int = DEFAULT_LAG_TIME_MAX_MS
    ) -> None:
        """Create the state of a partition that this broker does not lead yet."""
        self.log = log
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = -1
        self.isr: frozenset[int] = frozenset()
        """The committed ISR."""
        self.pending: IsrProposal | None = None
        self.epoch_start_offset = 0
        """The log end at the start of the leader epoch."""
        self.is_leader = False
        self.followers: dict[int, ReplicaState] = {}
        """The state of every assigned replica but the leader."""
        self._node_id = node_id
        self._brokers = brokers
        self._lag_time_max_ms = lag_time_max_ms
        self._proposals = 0

    # --- state ---

    @property
    def maximal_isr(self) -> frozenset[int]:
        """Every replica that may be in the controller's ISR; see the module's table."""
        return self.isr if self.pending is None else self.isr | self.pending.broker_ids

    @property
    def min_isr(self) -> int:
        """The smallest ISR that accepts acks=all."""
        return min(self.log.min_insync_replicas, len(self.followers) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.isr) < self.min_isr

    # --- metadata ---

    def lead(self, partition: LedPartition, now_ms: int) -> LeaderCommands:
        """Apply the metadata of a partition that this broker leads. Ignore an older partition epoch.

        Call it before records are appended in a new leader epoch: that epoch starts at the log end.
        """
        if partition.partition_epoch < self.partition_epoch:
            return ()
        if partition.partition_epoch > self.partition_epoch or not self.is_leader:
            self.isr, self.pending = frozenset(partition.isr), None
        known = self.followers if self.is_leader else {}
        assigned = [replica_id for replica_id in partition.replicas if replica_id != self._node_id]
        followers = {replica_id: known.get(replica_id, ReplicaState()) for replica_id in assigned}
        if partition.leader_epoch > self.leader_epoch or not self.is_leader:
            end = self.log.log_end.message_offset
            followers = {
                replica_id: state.in_new_epoch(
                    leader_end_offset=end,
                    now_ms=now_ms,
                    is_new_leader=not self.is_leader,
                    is_in_sync=replica_id in self.isr,
                )
                for replica_id, state in followers.items()
            }
            self.leader_epoch, self.epoch_start_offset = partition.leader_epoch, end
        self.followers, self.partition_epoch, self.is_leader = followers, partition.partition_epoch, True
        return self._advance(now_ms)

    def resign(self) -> None:
        """Forget the followers and a pending proposal, because this broker is no longer the leader."""
        self.is_leader, self.pending, self.isr, self.followers = False, None, frozenset(), {}

    # --- replication ---

    def appended(self, now_ms: int) -> LeaderCommands:
        """Advance the high watermark if the leader alone decides it."""
        return self._advance(now_ms)

    def fetch_error(
        self, replica_id: int, *, has_leader_epoch: bool, broker_epoch: int = ANY_BROKER_EPOCH
    ) -> ErrorCode:
        """Return the error for a follower's Fetch of the right leader epoch, or NONE.

        A replica that is not assigned may be ahead in the metadata, if it knows the leader epoch: it retries then.
        """
        if replica_id not in self.followers:
            return ErrorCode.UNKNOWN_LEADER_EPOCH if has_leader_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER
        active_epoch = self._brokers.active_epoch(replica_id)
        if broker_epoch != ANY_BROKER_EPOCH and active_epoch is not None and broker_epoch < active_epoch:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE

    def fetched(self, fetch: FollowerFetch) -> LeaderCommands:
        """Note a follower's fetch, and let the follower join. Ignore a fetch that ``fetch_error`` refuses."""
        if self.fetch_error(fetch.replica_id, has_leader_epoch=False, broker_epoch=fetch.broker_epoch):
            return ()
        before = self.followers[fetch.replica_id]
        self.followers[fetch.replica_id] = before.after_fetch(fetch)
        commands: LeaderCommands = ()
        if self._can_join(fetch.replica_id):
            commands = self._propose(self.isr | {fetch.replica_id})
        if before.log_end.message_offset != fetch.offset.message_offset:
            commands += self._advance(fetch.now_ms)
        return commands

    def check_lag(self, now_ms: int) -> LeaderCommands:
        """Propose to remove the replicas that have not been caught up for the lag time."""
        lagging = self.lagging(now_ms)
        if not lagging or self.pending is not None:
            return ()
        return self._propose(self.isr - lagging)

    def lagging(self, now_ms: int) -> frozenset[int]:
        """Return the members of the committed ISR that are not caught up."""
        end = self.log.log_end.message_offset
        return frozenset(
            replica_id
            for replica_id in self.isr - {self._node_id}
            if (state := self.followers.get(replica_id)) is None
            or not state.is_caught_up(end, now_ms, self._lag_time_max_ms)
        )

    def altered(self, proposal: IsrProposal, response: AlteredPartition, now_ms: int) -> LeaderCommands:
        """Process the controller's response to a proposal; see the module's table."""
        if proposal != self.pending:
            return ()
        if response.error_code in WITHDRAWN_ERRORS:
            self.pending = None
            return ()
        if response.error_code in FINAL_ERRORS:
            return ()
        if response.error_code != ErrorCode.NONE:
            return (ProposeIsr(proposal=proposal),)
        if response.leader_epoch != self.leader_epoch or response.partition_epoch < self.partition_epoch:
            return ()
        self.isr, self.pending, self.partition_epoch = frozenset(response.isr), None, response.partition_epoch
        return self._advance(now_ms)

    # --- produce requests ---

    def append_error(self) -> ErrorCode:
        """Return the error of a produce request with acks=all, or NONE."""
        return ErrorCode.NOT_ENOUGH_REPLICAS if self.is_under_min_isr else ErrorCode.NONE

    def replication_error(self, end_offset: int) -> ErrorCode | None:
        """Return None while acks=all must wait for the records below ``end_offset``, and NONE once they are committed.

        Return NOT_ENOUGH_REPLICAS_AFTER_APPEND if they are, but too few replicas are in sync now.
        """
        if not self.is_leader:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self.log.high_watermark < end_offset:
            return None
        enough = self.min_isr <= len(self.maximal_isr)
        return ErrorCode.NONE if enough else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    # --- inside ---

    def _high_watermark_bound(self, now_ms: int) -> LogOffsetMetadata | None:
        """Return the offset below which all replicas that count have every record, or None under the minimum."""
        if self.is_under_min_isr:
            return None
        end = bound = self.log.log_end
        maximal = self.maximal_isr
        for replica_id, state in self.followers.items():
            if state.log_end.message_offset < bound.message_offset and (
                replica_id in maximal or self._is_about_to_join(replica_id, state, end.message_offset, now_ms)
            ):
                bound = state.log_end
        return bound

    def _is_about_to_join(self, replica_id: int, state: ReplicaState, leader_end: int, now_ms: int) -> bool:
        return state.is_caught_up(leader_end, now_ms, self._lag_time_max_ms) and self._is_eligible(replica_id)

    def _advance(self, now_ms: int) -> LeaderCommands:
        if not self.is_leader:
            return ()
        bound = self._high_watermark_bound(now_ms)
        if bound is None or bound.message_offset <= self.log.high_watermark:
            return ()
        return (AdvanceHighWatermark(offset=bound),)

    def _can_join(self, replica_id: int) -> bool:
        """Return True if a follower's last fetch lets it join the ISR."""
        end = self.followers[replica_id].log_end.message_offset
        return (
            self.pending is None
            and replica_id not in self.isr
            and end >= self.log.high_watermark
            and end >= self.epoch_start_offset
            and self._is_eligible(replica_id)
        )

    def _is_eligible(self, replica_id: int) -> bool:
        fetched_in, active_epoch = self.followers[replica_id].broker_epoch, self._brokers.active_epoch(replica_id)
        return (
            fetched_in is not None
            and active_epoch is not None
            and not self._brokers.is_shutting_down(replica_id)
            and fetched_in in (ANY_BROKER_EPOCH, active_epoch)
        )

    def _propose(self, broker_ids: frozenset[int]) -> LeaderCommands:
        self._proposals += 1
        self.pending = IsrProposal(
            number=self._proposals,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            isr=tuple(IsrMember(broker_id=id_, broker_epoch=self._epoch_of(id_)) for id_ in sorted(broker_ids)),
        )
        return (ProposeIsr(proposal=self.pending),)

    def _epoch_of(self, replica_id: int) -> int:
        if replica_id == self._node_id:
            epoch = self._brokers.active_epoch(replica_id)
        else:
            state = self.followers.get(replica_id)
            epoch = None if state is None else state.broker_epoch
        return ANY_BROKER_EPOCH if epoch is None else epoch
