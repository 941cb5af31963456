"""The controller of the simulation: tidelog's rules for registrations and elections, over a metadata log in memory.

Its decisions are those of ``server/metadata/controller``, and ``BrokerSessions`` decides about heartbeats. The metadata
log is durable and has one voter, so it survives a restart of the controller, which forgets the sessions. Each change is
one entry that brokers read in sequence, at any later time.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

from simulation.history import TOPIC, History, listed, name_of
from simulation.plan import Shape
from simulation.registering import directory_of
from simulation.requests import AlterPartition, AlterPartitionResponse, Registered
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication import AlteredPartition, IsrMember, IsrProposal
from tidelog.replication.broker_sessions import BrokerControlState, BrokerSessions, RegisteredBroker, SessionKey
from tidelog.replication.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.replication.registration_request import BrokerRegistrationRequest
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.controller import brokers, leaders, reassignments
from tidelog.server.metadata.controller.decision import ControllerSettings
from tidelog.server.metadata.features import ELIGIBLE_LEADERS
from tidelog.server.metadata.image import METADATA_VERSION, ConfigResource, MetadataChange, MetadataImage, Topic
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.partition_state import NO_LEADER, PartitionState
from tidelog.server.metadata.requests import ElectionType, PartitionAlteration, Reassignment

SESSION_TIMEOUT_MS = 9_000
TOPIC_ID = uuid.UUID(int=77)
_METADATA_VERSION = 33
_APPLIED = (ErrorCode.NONE, ErrorCode.NEW_LEADER_ELECTED)
"""The errors of an AlterPartition response after which the change is written."""


class MetadataEntry(NamedTuple):
    """A change of the metadata, as a broker applies it."""

    end_offset: int
    partitions: dict[int, PartitionState]
    brokers: dict[int, BrokerRegistration]


class Controller:
    def __init__(self, shape: Shape, history: History) -> None:
        """Create the metadata of a new cluster: a topic without partitions, and no broker."""
        self._history = history
        self._settings = _settings()
        self.log: list[MetadataEntry] = []
        self.end_offset = 0
        self.image = MetadataImage(
            features={METADATA_VERSION: _METADATA_VERSION, ELIGIBLE_LEADERS: int(shape.eligible_leaders)}
        )
        topic = Topic(name=TOPIC, id=TOPIC_ID)
        self.image.topics[TOPIC] = self.image.topics_by_id[TOPIC_ID] = topic
        self.image.configs[ConfigResource(ResourceType.TOPIC, TOPIC)] = {
            "min.insync.replicas": str(shape.min_isr),
            "unclean.leader.election.enable": str(shape.unclean_elections).lower(),
        }
        self.partitions = topic.partitions
        self.on_change: Callable[[int, PartitionState, PartitionState], None] = lambda *_: None
        """Called with the partition and its states before and after each change."""
        self.touched: set[int] = set()
        """The partitions whose state or logs have changed since the last check of the invariants."""
        self._sessions = BrokerSessions(session_timeout_ms=SESSION_TIMEOUT_MS)
        self.contacts_ms: dict[SessionKey, int] = {}
        """The last heartbeat of each broker in each epoch since the controller's start, for the invariants."""
        self.on_unfence: Callable[[int], None] = lambda _broker_id: None
        self.on_expiry: Callable[[int, int], None] = lambda _broker_id, _now_ms: None
        """Called with the broker and the time before a broker is fenced because its session has expired."""
        self.on_sessions_checked: Callable[[int], None] = lambda _now_ms: None
        """Called with the time after the sessions were checked."""

    def create_partitions(self, shape: Shape) -> None:
        """Create the topic's partitions on the registered brokers."""
        ids = sorted(self.image.brokers)
        for number in range(shape.partitions):
            replicas = tuple(ids[(number + place) % len(ids)] for place in range(shape.replication_factor))
            directories = tuple(map(directory_of, replicas))
            self.partitions[number] = PartitionState(
                replicas=replicas, isr=replicas, leader=replicas[0], directories=directories
            )
        self.end_offset += 1
        self.log.append(MetadataEntry(self.end_offset, dict(self.partitions), {}))

    def restart(self, now_ms: int) -> None:
        """Forget the sessions: every unfenced broker gets a full one."""
        self._history.note("the controller restarts")
        registered = [one for broker_id in self.image.brokers if (one := self._registered(broker_id)) is not None]
        self._sessions = BrokerSessions.activate(registered, session_timeout_ms=SESSION_TIMEOUT_MS, now_ms=now_ms)
        self.contacts_ms = {one.key: now_ms for one in registered if not one.is_fenced}

    # --- requests ---

    def handle(self, body: object, now_ms: int) -> object:
        """Return the response to a request."""
        if isinstance(body, BrokerRegistrationRequest):
            return self._register(body, now_ms)
        if isinstance(body, BrokerHeartbeatRequest):
            return self._heartbeat(body, now_ms)
        assert isinstance(body, AlterPartition), body
        return self._alter_partitions(body)

    def _register(self, body: BrokerRegistrationRequest, now_ms: int) -> Registered:
        try:
            self._sessions.require_free(self._registered(body.broker_id), body.incarnation_id, now_ms)
        except ApiError as error:
            return Registered(ErrorCode(error.code), -1)
        new = brokers.NewRegistration(
            broker_id=body.broker_id,
            incarnation_id=body.incarnation_id,
            endpoints=(),
            directories=body.log_dirs,
            rack=None,
            previous_epoch=None if body.previous_broker_epoch < 0 else body.previous_broker_epoch,
        )
        known = self.image.brokers.get(body.broker_id)
        decision = brokers.register_broker(self.image, self._settings, new, self.end_offset)
        self._write(decision.records)
        if known is not None and known.epoch == decision.result:
            self._sessions.register(body.broker_id, is_fenced=known.is_fenced)
        else:
            self._history.note("broker {} registers with broker epoch {}", body.broker_id, decision.result)
            self._sessions.replace(body.broker_id, is_fenced=True)
        return Registered(ErrorCode.NONE, decision.result)

    def _heartbeat(self, body: BrokerHeartbeatRequest, now_ms: int) -> BrokerHeartbeatResponse | ErrorCode:
        leads = any(state.leader == body.broker_id for state in self.partitions.values())
        self.contacts_ms[SessionKey(body.broker_id, body.broker_epoch)] = now_ms
        try:
            decision = self._sessions.heartbeat(
                body, self._registered(body.broker_id), leads_partitions=leads, now_ms=now_ms
            )
        except ApiError as error:
            return ErrorCode(error.code)
        if decision.changes:
            self._change_state(body.broker_id, decision.next_state)
        return decision.response

    def _change_state(self, broker_id: int, state: BrokerControlState) -> None:
        if state is BrokerControlState.UNFENCED:
            self._history.note("the controller unfences broker {}", broker_id)
            self._write(brokers.unfence_broker(self.image, self._settings, broker_id).records)
            self.on_unfence(broker_id)
        elif state is BrokerControlState.CONTROLLED_SHUTDOWN:
            self._history.note("broker {} enters controlled shutdown", broker_id)
            self._write(brokers.begin_shutdown(self.image, self._settings, broker_id).records)
            self._sessions.begin_controlled_shutdown(broker_id, self.end_offset - 1)
        elif not self.image.brokers[broker_id].is_fenced:
            self._fence(broker_id, "it stops")

    def _alter_partitions(self, body: AlterPartition) -> AlterPartitionResponse:
        sender = self.image.brokers.get(body.broker_id)
        if sender is None or sender.epoch != body.broker_epoch:
            return AlterPartitionResponse(ErrorCode.STALE_BROKER_EPOCH, {})
        parts = {
            partition: self._alter_partition(body.broker_id, partition, proposal)
            for partition, proposal in body.proposals.items()
        }
        return AlterPartitionResponse(ErrorCode.NONE, parts)

    def _alter_partition(self, broker_id: int, partition: int, proposal: IsrProposal) -> AlteredPartition:
        alteration = PartitionAlteration(
            topic_id=TOPIC_ID,
            partition=partition,
            isr=[member.broker_id for member in proposal.isr],
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
        )
        decision = leaders.alter_partitions(self.image, self._settings, broker_id, [alteration])
        error = decision.result[0].outcome.error
        if error in _APPLIED and not all(map(self.is_current_member, proposal.isr)):
            return AlteredPartition(error_code=ErrorCode.INELIGIBLE_REPLICA)
        self._write(decision.records)
        if error is not ErrorCode.NONE:
            return AlteredPartition(error_code=error)
        state = self.partitions[partition]
        return AlteredPartition(leader_epoch=state.leader_epoch, partition_epoch=state.partition_epoch, isr=state.isr)

    def is_current_member(self, member: IsrMember) -> bool:
        """Return True if the broker epoch of a proposed in-sync replica is the registered one (KIP-903)."""
        return member.broker_epoch in (-1, self.image.brokers[member.broker_id].epoch)

    # --- its own events ---

    def tick(self, now_ms: int) -> None:
        """Fence the brokers whose sessions have expired."""
        while True:
            stale = self._sessions.take_stale(
                now_ms, lambda broker_id: found.epoch if (found := self.image.brokers.get(broker_id)) else None
            )
            if stale is None:
                self.on_sessions_checked(now_ms)
                return
            if stale.is_current and not self.image.brokers[stale.key.broker_id].is_fenced:
                self.on_expiry(stale.key.broker_id, now_ms)
                self._sessions.fence(stale.key.broker_id)
                self._fence(stale.key.broker_id, "its session expired")

    def elect_preferred(self, partition: int) -> None:
        decision = leaders.elect_leaders(
            self.image, self._settings, ElectionType.PREFERRED, [TopicPartition(TOPIC, partition)]
        )
        self._write(decision.records)

    def reassign(self, partition: int, replicas: Sequence[int]) -> None:
        """Begin a reassignment, or cancel the one under way."""
        state = self.partitions[partition]
        wanted = None if state.is_reassigning else tuple(replicas)
        decision = reassignments.alter_reassignments(
            self.image, self._settings, [Reassignment(TOPIC, partition, wanted)], may_change_factor=False
        )
        if decision.records:
            self._history.note(
                "the controller {} of {}",
                "cancels the reassignment" if wanted is None else f"begins a reassignment to brokers {listed(wanted)}",
                name_of(partition),
            )
        self._write(decision.records)

    # --- inside ---

    def _fence(self, broker_id: int, reason: str) -> None:
        self._history.note("the controller fences broker {}: {}", broker_id, reason)
        self._write(brokers.fence_broker(self.image, self._settings, broker_id).records)

    def _registered(self, broker_id: int) -> RegisteredBroker | None:
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            return None
        return RegisteredBroker(
            id=broker.id,
            epoch=broker.epoch,
            registration_offset=broker.epoch,
            incarnation_id=broker.incarnation_id,
            is_fenced=broker.is_fenced,
        )

    def _write(self, records: Sequence[MetadataRecord]) -> None:
        """Append a change to the metadata log and apply it."""
        if not records:
            return
        change = MetadataChange()
        for record in records:
            self.image.apply(record, change)
        self.end_offset += len(records)
        changed = {number: self.partitions[number] for _, number in change.partitions}
        brokers_changed = {broker_id: self.image.brokers[broker_id] for broker_id in change.brokers}
        for broker_id, registration in brokers_changed.items():
            self._sessions.register(broker_id, is_fenced=registration.is_fenced)
        self.log.append(MetadataEntry(self.end_offset, changed, brokers_changed))
        self.touch_all()
        for (_, number), delta in change.partitions.items():
            assert delta.before is not None
            self._tell(number, delta.before, self.partitions[number])
            self.on_change(number, delta.before, self.partitions[number])

    def touch_all(self) -> None:
        self.touched.update(self.partitions)

    def _tell(self, number: int, before: PartitionState, after: PartitionState) -> None:
        if after.leader_epoch != before.leader_epoch:
            if after.leader == NO_LEADER:
                self._history.note("{} has no leader in epoch {}", name_of(number), after.leader_epoch)
            elif after.leader != before.leader:
                self._history.note(
                    "the controller elects broker {} as leader of {} in epoch {}{}",
                    after.leader,
                    name_of(number),
                    after.leader_epoch,
                    "" if after.leader in (*before.isr, *before.elr) else ", uncleanly",
                )
        if after.isr != before.isr:
            self._history.note(
                "the in-sync replicas of {} are {} in partition epoch {}",
                name_of(number),
                listed(after.isr),
                after.partition_epoch,
            )


@lru_cache(maxsize=1)
def _settings() -> ControllerSettings:
    return ControllerSettings(node_id=0, config=BrokerConfig())
