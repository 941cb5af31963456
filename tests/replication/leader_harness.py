"""A leader's log as three numbers, brokers as dicts, and a driver that executes a leader's commands on them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.model import LogOffsetMetadata
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.in_sync_replicas import AdvanceHighWatermark, InSyncReplicas, LeaderCommands, ProposeIsr
from tidelog.replication.isr_proposal import AlteredPartition, IsrProposal, LedPartition
from tidelog.replication.replica_state import FollowerFetch

LEADER, LAG_MS = 1, 100


@dataclass(kw_only=True)
class NumberLog:
    end: int = 0
    high_watermark: int = 0
    min_insync_replicas: int = 1

    @property
    def log_end(self) -> LogOffsetMetadata:
        return LogOffsetMetadata(self.end)


@dataclass(kw_only=True)
class BrokerTable:
    epochs: dict[int, int] = field(default_factory=lambda: {1: 101, 2: 102, 3: 103, 4: 104})
    fenced: set[int] = field(default_factory=set)
    shutting_down: set[int] = field(default_factory=set)

    def active_epoch(self, broker_id: int) -> int | None:
        return None if broker_id in self.fenced else self.epochs.get(broker_id)

    def is_shutting_down(self, broker_id: int) -> bool:
        return broker_id in self.shutting_down


class LeaderHarness:
    """Broker 1 leads, with replicas 1, 2 and 3, in leader epoch 5 and partition epoch 7."""

    def __init__(
        self,
        isr: tuple[int, ...] = (1, 2, 3),
        *,
        end: int = 0,
        high_watermark: int = 0,
        min_isr: int = 1,
        now_ms: int = 0,
    ) -> None:
        self.log = NumberLog(end=end, high_watermark=high_watermark, min_insync_replicas=min_isr)
        self.brokers = BrokerTable()
        self.core = InSyncReplicas(LEADER, self.log, self.brokers, lag_time_max_ms=LAG_MS)
        self.proposals: list[IsrProposal] = []
        self.watermarks: list[int] = []
        self.lead(isr=isr, now_ms=now_ms)

    def run(self, commands: LeaderCommands) -> LeaderCommands:
        for command in commands:
            match command:
                case ProposeIsr(proposal=proposal):
                    self.proposals.append(proposal)
                case AdvanceHighWatermark(offset=offset):
                    assert self.log.high_watermark < offset.message_offset <= self.log.end
                    self.log.high_watermark = offset.message_offset
                    self.watermarks.append(offset.message_offset)
        return commands

    def lead(
        self,
        *,
        leader_epoch: int = 5,
        partition_epoch: int = 7,
        replicas: tuple[int, ...] = (1, 2, 3),
        isr: tuple[int, ...] = (1, 2, 3),
        now_ms: int = 0,
    ) -> LeaderCommands:
        partition = LedPartition(leader_epoch=leader_epoch, partition_epoch=partition_epoch, replicas=replicas, isr=isr)
        return self.run(self.core.lead(partition, now_ms))

    def append(self, count: int = 1, *, now_ms: int = 0) -> LeaderCommands:
        self.log.end += count
        return self.run(self.core.appended(now_ms))

    def fetch(
        self, replica_id: int, offset: int, *, now_ms: int = 0, broker_epoch: int | None = None
    ) -> LeaderCommands:
        """Let a follower fetch in its broker's epoch."""
        fetch = FollowerFetch(
            replica_id=replica_id,
            offset=LogOffsetMetadata(offset),
            log_start_offset=0,
            leader_end_offset=self.log.end,
            now_ms=now_ms,
            broker_epoch=self.brokers.epochs.get(replica_id, -1) if broker_epoch is None else broker_epoch,
        )
        return self.run(self.core.fetched(fetch))

    def check_lag(self, now_ms: int) -> LeaderCommands:
        return self.run(self.core.check_lag(now_ms))

    def accept(self, proposal: IsrProposal | None = None, *, now_ms: int = 0) -> LeaderCommands:
        """Let the controller commit the last proposal."""
        proposal = proposal or self.proposals[-1]
        response = AlteredPartition(
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch + 1,
            isr=tuple(sorted(proposal.broker_ids)),
        )
        return self.run(self.core.altered(proposal, response, now_ms))

    def refuse(self, error: ErrorCode, *, now_ms: int = 0) -> LeaderCommands:
        response = AlteredPartition(error_code=error)
        return self.run(self.core.altered(self.proposals[-1], response, now_ms))
