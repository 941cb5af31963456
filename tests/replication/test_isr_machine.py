"""Random lives of a leader, its followers and the controller: requests are lost, late, doubled and refused.

Broker 1 leads. Followers are numbers: their true log ends. The controller applies proposals by Kafka's checks, and its
metadata arrives late. After each step, every member of the controller's ISR has all records below the high watermark.
"""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from replication.leader_harness import LAG_MS, BrokerTable, NumberLog
from tidelog.model import LogOffsetMetadata
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import (
    AdvanceHighWatermark,
    AlteredPartition,
    FollowerFetch,
    InSyncReplicas,
    IsrProposal,
    LeaderCommands,
    LedPartition,
    ProposeIsr,
)

FOLLOWERS = st.sampled_from([2, 3])
REPLICAS = (1, 2, 3)
WITHOUT_EPOCH = 3
"""The follower whose fetches have no broker epoch. Only the epoch protects from a loss of records (KIP-903)."""


@dataclass
class Controller:
    """The committed state, and the epochs and fences of brokers as the controller knows them."""

    brokers: BrokerTable
    isr: frozenset[int] = frozenset(REPLICAS)
    leader_epoch: int = 0
    partition_epoch: int = 0

    def metadata(self) -> LedPartition:
        return LedPartition(
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            replicas=REPLICAS,
            isr=tuple(sorted(self.isr)),
        )

    def change(self, isr: frozenset[int], *, leader_epochs: int = 0) -> None:
        self.isr = isr
        self.leader_epoch += leader_epochs
        self.partition_epoch += 1

    def alter(self, proposal: IsrProposal) -> AlteredPartition:
        """Apply a proposal, as ReplicationControlManager.validateAlterPartitionData does."""
        if proposal.leader_epoch < self.leader_epoch:
            return AlteredPartition(error_code=ErrorCode.FENCED_LEADER_EPOCH)
        if proposal.partition_epoch < self.partition_epoch:
            return AlteredPartition(error_code=ErrorCode.INVALID_UPDATE_VERSION)
        for member in proposal.isr:
            active_epoch = self.brokers.active_epoch(member.broker_id)
            if (
                active_epoch is None
                or self.brokers.is_shutting_down(member.broker_id)
                or member.broker_epoch not in (-1, active_epoch)
            ):
                return AlteredPartition(error_code=ErrorCode.INELIGIBLE_REPLICA)
        if proposal.broker_ids != self.isr:
            self.change(proposal.broker_ids)
        return AlteredPartition(
            leader_epoch=self.leader_epoch, partition_epoch=self.partition_epoch, isr=tuple(sorted(self.isr))
        )


class LeaderLife(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.controller = Controller(BrokerTable())
        self.log, self.now_ms = NumberLog(min_insync_replicas=2), 0
        self.seen_brokers = BrokerTable()
        """The brokers in the leader's metadata, which may be old."""
        self.core = InSyncReplicas(1, self.log, self.seen_brokers, lag_time_max_ms=LAG_MS)
        self.ends = dict.fromkeys(REPLICAS[1:], 0)
        """The true log end of each follower."""
        self.past: dict[int, tuple[int, int]] = {}
        """The broker epoch and the log end of each follower before its last restart."""
        self.requests: list[IsrProposal] = []
        self.responses: list[tuple[IsrProposal, AlteredPartition]] = []
        self.learn(0)

    def run(self, commands: LeaderCommands) -> None:
        for command in commands:
            match command:
                case ProposeIsr(proposal=proposal):
                    assert self.core.pending == proposal, "a proposal is pending"
                    self.requests.append(proposal)
                case AdvanceHighWatermark(offset=offset):
                    assert self.log.high_watermark < offset.message_offset <= self.log.end
                    assert len(self.core.isr) >= min(self.log.min_insync_replicas, len(REPLICAS)), "under the minimum"
                    self.log.high_watermark = offset.message_offset

    # --- the leader's log and its followers ---

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        self.log.end += count
        self.run(self.core.appended(self.now_ms))

    @rule(count=st.integers(1, 3))
    def replicate(self, count: int) -> None:
        """Append, and let every in-sync follower fetch up to the end."""
        self.append(count)
        for follower in sorted(self.controller.isr - {1}):
            for _ in range(2):
                self.fetch(follower, self.log.end, False)

    @rule(follower=FOLLOWERS, count=st.integers(0, 4), is_from_the_past=st.booleans())
    def fetch(self, follower: int, count: int, is_from_the_past: bool) -> None:
        """Let a follower append some records, and fetch from its end or, delayed, from an earlier one."""
        self.ends[follower] = min(self.log.end, self.ends[follower] + count)
        offset = max(0, self.ends[follower] - is_from_the_past)
        fetch = FollowerFetch(
            replica_id=follower,
            offset=LogOffsetMetadata(offset),
            log_start_offset=0,
            leader_end_offset=self.log.end,
            now_ms=self.now_ms,
            broker_epoch=-1 if follower == WITHOUT_EPOCH else self.controller.brokers.epochs[follower],
        )
        self.run(self.core.fetched(fetch))

    @rule(follower=FOLLOWERS)
    def fetch_of_the_past(self, follower: int) -> None:
        """Deliver a fetch that the follower sent before it restarted."""
        if follower in self.past:
            broker_epoch, offset = self.past[follower]
            broker_epoch = -1 if follower == WITHOUT_EPOCH else broker_epoch
            self.run(
                self.core.fetched(
                    FollowerFetch(
                        replica_id=follower,
                        offset=LogOffsetMetadata(offset),
                        log_start_offset=0,
                        leader_end_offset=self.log.end,
                        now_ms=self.now_ms,
                        broker_epoch=broker_epoch,
                    )
                )
            )

    @rule(min_isr=st.sampled_from([1, 2, 4]))
    def configure(self, min_isr: int) -> None:
        self.log.min_insync_replicas = min_isr

    @rule(ms=st.sampled_from([1, LAG_MS // 2, LAG_MS + 1]))
    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.run(self.core.check_lag(self.now_ms))

    # --- the controller ---

    @precondition(lambda self: self.requests)
    @rule(at=st.integers(0, 5), is_doubled=st.booleans())
    def request_arrives(self, at: int, is_doubled: bool) -> None:
        at %= len(self.requests)
        proposal = self.requests[at] if is_doubled else self.requests.pop(at)
        self.responses.append((proposal, self.controller.alter(proposal)))

    @precondition(lambda self: self.responses)
    @rule(at=st.integers(0, 5))
    def response_arrives(self, at: int) -> None:
        self.run(self.core.altered(*self.responses.pop(at % len(self.responses)), self.now_ms))

    @precondition(lambda self: self.requests)
    @rule(error=st.sampled_from([ErrorCode.NETWORK_EXCEPTION, ErrorCode.NOT_CONTROLLER]))
    def request_fails(self, error: ErrorCode) -> None:
        """Lose a request, or its response: the controller may have applied it or not."""
        proposal = self.requests.pop(0)
        self.run(self.core.altered(proposal, AlteredPartition(error_code=error), self.now_ms))

    @rule(delay=st.sampled_from([0, 0, 1]))
    def learn(self, delay: int) -> None:
        """Apply the controller's metadata, or that of the brokers alone."""
        brokers = self.controller.brokers
        self.seen_brokers.epochs = dict(brokers.epochs)
        self.seen_brokers.fenced, self.seen_brokers.shutting_down = set(brokers.fenced), set(brokers.shutting_down)
        if not delay:
            self.run(self.core.lead(self.controller.metadata(), self.now_ms))

    @rule(follower=FOLLOWERS)
    def fence(self, follower: int) -> None:
        self.controller.brokers.fenced.add(follower)
        if follower in self.controller.isr:
            self.controller.change(self.controller.isr - {follower})

    @rule(follower=FOLLOWERS, lost=st.integers(0, 3))
    def restart(self, follower: int, lost: int) -> None:
        """Restart a fenced follower uncleanly: it has a new broker epoch, and may have lost records."""
        if follower in self.controller.brokers.fenced:
            self.past[follower] = (self.controller.brokers.epochs[follower], self.ends[follower])
            self.controller.brokers.fenced.discard(follower)
            self.controller.brokers.epochs[follower] += 10
            if follower != WITHOUT_EPOCH:
                self.ends[follower] = max(0, self.ends[follower] - lost)

    @rule(follower=FOLLOWERS, lost=st.integers(0, 3))
    def crash(self, follower: int, lost: int) -> None:
        """Fence and restart a follower, and let the leader know."""
        self.fence(follower)
        self.restart(follower, lost)
        self.learn(0)

    @rule()
    def process_pending(self) -> None:
        """Let the controller process the pending proposal, and its response arrive."""
        if self.core.pending in self.requests:
            self.requests.remove(self.core.pending)
            self.run(self.core.altered(self.core.pending, self.controller.alter(self.core.pending), self.now_ms))

    @rule(follower=FOLLOWERS)
    def shut_down(self, follower: int) -> None:
        self.controller.brokers.shutting_down ^= {follower}
        if follower in self.controller.isr:
            self.controller.change(self.controller.isr - {follower})

    @rule(is_away=st.booleans())
    def elect_again(self, is_away: bool) -> None:
        """Elect this leader again. If another one led between, this one has resigned first."""
        self.controller.change(self.controller.isr, leader_epochs=2)
        if is_away:
            self.core.resign()
        self.learn(0)

    # --- the properties ---

    @invariant()
    def every_member_has_the_committed_records(self) -> None:
        for replica_id in self.controller.isr - {1}:
            assert self.ends[replica_id] >= self.log.high_watermark, f"replica {replica_id} lacks committed records"

    @invariant()
    def the_maximal_isr_has_the_committed_one(self) -> None:
        assert self.core.isr <= self.core.maximal_isr

    def teardown(self) -> None:
        """Let the network work, with every broker active: all replicas join, and everything is committed."""
        self.controller.brokers.fenced.clear()
        self.controller.brokers.shutting_down.clear()
        self.responses.clear()
        self.learn(0)
        for _ in range(8):
            self.now_ms += 1
            for follower in self.ends:
                self.fetch(follower, self.log.end, False)
            self.requests = [proposal for proposal in self.requests if proposal == self.core.pending]
            if self.core.pending is not None and not self.requests:
                self.requests.append(self.core.pending)
            while self.requests:
                self.request_arrives(0, False)
                self.response_arrives(0)
            self.learn(0)
        assert self.core.isr == self.controller.isr == frozenset(REPLICAS)
        assert self.log.high_watermark == self.log.end


TestLeaderLife = LeaderLife.TestCase
TestLeaderLife.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
