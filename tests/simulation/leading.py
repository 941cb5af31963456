"""The driver of a broker's leadership of one partition: follower fetches, produce requests, high watermark and ISR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from simulation.history import History, listed, name_of
from simulation.replica import Replica
from simulation.requests import AlterPartition, AlterPartitionResponse, Fetch, Fetched, ListedOffsets, ListOffsets
from tidelog.model import OffsetOutOfRangeError
from tidelog.protocol.errors import ErrorCode
from tidelog.server.metadata.broker_registration import BrokerRegistration
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


@dataclass(slots=True)
class _Remote:
    """The leader's knowledge of a follower."""

    end: int = -1
    caught_up_ms: int = -1
    last_fetch_ms: int = 0
    last_leader_end: int = 0
    broker_epoch: int = -1


@dataclass(slots=True, kw_only=True)
class Surroundings:
    """The parts of a broker that a leader uses."""

    node_id: int
    min_isr: int
    broker_epoch: Callable[[], int]
    registration: Callable[[int], BrokerRegistration | None]
    """The registration of a broker in the metadata that this one has applied."""
    send: Callable[[AlterPartition], None]
    acknowledge: Callable[[int, PendingAck, int], None]
    """Called with the partition, the request and its epoch once a record is acknowledged."""
    advanced: Callable[[int], None]
    """Called with the partition after its high watermark has advanced."""
    history: History


@dataclass
class LeadingDriver:
    REVERTS: ClassVar[frozenset[ErrorCode]] = frozenset(
        {ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA}
    )
    """Errors of AlterPartition after which the proposed in-sync replicas no longer count."""
    replica: Replica
    state: PartitionState
    outside: Surroundings
    epoch_start: int = 0
    remotes: dict[int, _Remote] = field(default_factory=dict)
    pending_isr: tuple[int, ...] | None = None
    waiting: list[PendingAck] = field(default_factory=list)

    # --- metadata ---

    def begin(self, now_ms: int) -> None:
        """Begin to lead in the state's epoch."""
        replica = self.replica
        self.epoch_start = replica.end
        replica.begin_epoch(self.state.leader_epoch)
        self.outside.history.note(
            "broker {} becomes leader of {} in epoch {} at offset {}, with high watermark {}",
            self.outside.node_id,
            name_of(replica.partition),
            self.state.leader_epoch,
            replica.end,
            replica.high_watermark,
        )
        for broker_id in self.state.replicas:
            in_sync = broker_id in self.state.isr
            self.remotes[broker_id] = _Remote(
                caught_up_ms=now_ms if in_sync else -1, last_fetch_ms=now_ms if in_sync else 0
            )
        self.advance(now_ms)

    def update(self, state: PartitionState, now_ms: int) -> None:
        """Take over a newer partition epoch of the same leadership."""
        self.state = state
        self.pending_isr = None
        for broker_id in state.replicas:
            self.remotes.setdefault(broker_id, _Remote())
        self.advance(now_ms)

    # --- requests ---

    def produce(self, batch: int, records: int, now_ms: int, *, acks_all: bool) -> ErrorCode:
        if acks_all and len(self.state.isr) < self.min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS
        first = self.replica.append_as_leader(batch, records, self.state.leader_epoch)
        ack = PendingAck(first, first + records, batch)
        if acks_all:
            self.waiting.append(ack)
        self.advance(now_ms)
        return ErrorCode.NONE

    def fetch(self, request: Fetch, now_ms: int) -> Fetched:
        replica, error = self.replica, self.epoch_error(request.leader_epoch)
        if error is not None:
            return Fetched(error)
        remote = self.remotes.get(request.broker_id)
        if remote is None or request.broker_id not in self.state.replicas:
            return Fetched(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if request.broker_epoch < remote.broker_epoch:
            return Fetched(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        try:
            if request.last_fetched_epoch >= 0:
                diverging = replica.log.epochs.diverging(request.last_fetched_epoch, request.offset)
                if diverging is not None:
                    return Fetched(ErrorCode.NONE, replica.high_watermark, replica.start, b"", diverging)
            data = replica.read(request.offset, FETCH_BYTES)
        except OffsetOutOfRangeError:
            return Fetched(ErrorCode.OFFSET_OUT_OF_RANGE)
        response = Fetched(ErrorCode.NONE, replica.high_watermark, replica.start, data)
        end = replica.end
        if request.offset >= end:
            remote.caught_up_ms = max(remote.caught_up_ms, now_ms)
        elif request.offset >= remote.last_leader_end:
            remote.caught_up_ms = max(remote.caught_up_ms, remote.last_fetch_ms)
        remote.end = request.offset
        remote.last_leader_end, remote.last_fetch_ms = end, now_ms
        remote.broker_epoch = request.broker_epoch
        self._maybe_expand(request.broker_id, remote)
        self.advance(now_ms)
        return response

    def list_offsets(self, request: ListOffsets) -> ListedOffsets:
        error = self.epoch_error(request.leader_epoch)
        if error is not None:
            return ListedOffsets(error)
        offset = self.replica.start if request.is_earliest else self.replica.end
        return ListedOffsets(ErrorCode.NONE, offset, self.state.leader_epoch)

    # --- in-sync replicas ---

    def tick(self, now_ms: int) -> None:
        """Remove followers from the ISR that were not caught up for too long."""
        if self.pending_isr is not None:
            return
        lagging = [
            broker_id
            for broker_id in self.state.isr
            if broker_id != self.outside.node_id
            and self.remotes[broker_id].end != self.replica.end
            and now_ms - self.remotes[broker_id].caught_up_ms > LAG_TIME_MS
        ]
        if lagging:
            self._propose(tuple(one for one in self.state.isr if one not in lagging))

    def altered(self, response: AlterPartitionResponse | None, now_ms: int) -> None:
        proposed = self.pending_isr
        if proposed is None:
            return
        if response is None or response.error is ErrorCode.STALE_BROKER_EPOCH:
            self._propose(proposed)
        elif response.error in self.REVERTS:
            self.pending_isr = None
        elif response.state is not None:
            state = response.state
            if state.leader_epoch == self.state.leader_epoch and state.partition_epoch > self.state.partition_epoch:
                self.update(state, now_ms)

    @property
    def min_isr(self) -> int:
        return min(self.outside.min_isr, len(self.state.replicas))

    @property
    def maximal_isr(self) -> set[int]:
        return {*self.state.isr, *(self.pending_isr or ())}

    def _maybe_expand(self, broker_id: int, remote: _Remote) -> None:
        if broker_id in self.state.isr or self.pending_isr is not None:
            return
        registration = self.outside.registration(broker_id)
        if registration is None or not registration.is_active or not self.has_current_epoch(remote, registration):
            return
        if self.is_caught_up(remote):
            self._propose((*self.state.isr, broker_id))

    def has_current_epoch(self, remote: _Remote, registration: BrokerRegistration) -> bool:
        return remote.broker_epoch == registration.epoch

    def is_caught_up(self, remote: _Remote) -> bool:
        return remote.end >= max(self.replica.high_watermark, self.epoch_start)

    def _propose(self, isr: tuple[int, ...]) -> None:
        self.pending_isr = isr
        history = self.outside.history
        history.note(
            "broker {} asks for the in-sync replicas {} of {}",
            self.outside.node_id,
            listed(isr),
            name_of(self.replica.partition),
        )
        epochs = {one: self.remotes[one].broker_epoch for one in isr if one != self.outside.node_id}
        epochs[self.outside.node_id] = self.outside.broker_epoch()
        self.outside.send(
            AlterPartition(
                broker_id=self.outside.node_id,
                broker_epoch=self.outside.broker_epoch(),
                partition=self.replica.partition,
                leader_epoch=self.state.leader_epoch,
                partition_epoch=self.state.partition_epoch,
                isr=tuple((one, epochs[one]) for one in isr),
                is_recovering=False,
            )
        )

    def advance(self, now_ms: int) -> None:
        """Advance the high watermark, and acknowledge the records that it passes."""
        if self.is_under_min_isr:
            return
        end = self.replicated_end(now_ms)
        if end > self.replica.high_watermark:
            self.replica.advance_high_watermark(end)
            self.outside.advanced(self.replica.partition)
        watermark = self.replica.high_watermark
        while self.waiting and self.waiting[0].end <= watermark:
            ack = self.waiting.pop(0)
            self.outside.acknowledge(self.replica.partition, ack, self.state.leader_epoch)

    @property
    def is_under_min_isr(self) -> bool:
        return len(self.state.isr) < self.min_isr

    def replicated_end(self, now_ms: int) -> int:
        """Return the lowest log end of the in-sync replicas, and of the replicas that are about to join them."""
        end, in_sync = self.replica.end, self.maximal_isr
        for broker_id, remote in self.remotes.items():
            if broker_id == self.outside.node_id or broker_id not in self.state.replicas:
                continue
            caught_up = now_ms - remote.caught_up_ms <= LAG_TIME_MS and remote.caught_up_ms >= 0
            registration = self.outside.registration(broker_id)
            is_eligible = registration is not None and registration.is_active
            if broker_id in in_sync or (caught_up and is_eligible):
                end = min(end, max(remote.end, 0))
        return end

    def epoch_error(self, leader_epoch: int) -> ErrorCode | None:
        if leader_epoch == self.state.leader_epoch:
            return None
        older = leader_epoch < self.state.leader_epoch
        return ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
