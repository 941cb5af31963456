"""The brokers of other processes at this controller: their requests, and the sessions that their heartbeats keep.

==================  ================================================================================================
request             effect
==================  ================================================================================================
registration        the broker is registered and fenced; its epoch is an offset of the metadata log
heartbeat           its session is extended; the broker is unfenced, fenced, or shuts down in a controlled way
alter partitions    a leader's in-sync replicas change
assign directories  replicas get log directories
producer ids        the broker gets a block
==================  ================================================================================================

``BrokerSessions`` decides about sessions. It follows the committed records, so that a decision and its records cannot
contradict each other. A session is not in the metadata log: a controller that starts gives each unfenced broker a full
one. The broker in this process sends no heartbeats. Its session is extended before each decision.

Each request has a turn of the metadata store. Contact counts from the arrival of a heartbeat, before its turn. Thread
rule: the event loop only. Source: Kafka's ``QuorumController``, ``ClusterControlManager``, ``BrokerHeartbeatManager``.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.broker_sessions import (
    BrokerControlState,
    BrokerSessions,
    HeartbeatDecision,
    RegisteredBroker,
    SessionKey,
)
from tidelog.replication.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.replication.registration_request import BrokerEndpoint, BrokerRegistrationRequest, VersionRange
from tidelog.runtime import Clock
from tidelog.runtime.repeated_errors import RepeatedErrors
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.controller import brokers, leaders
from tidelog.server.metadata.controller.decision import ControllerSettings, Decision
from tidelog.server.metadata.features import supports_directories
from tidelog.server.metadata.image import MetadataChange, MetadataImage
from tidelog.server.metadata.kraft.metadata_store import MetadataStore
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import AlteredPartition, PartitionAlteration

T = TypeVar("T")
_log = logging.getLogger(__name__)

_REGISTRATION = "RegisterBrokerRecord"
_UNREGISTRATION = "UnregisterBrokerRecord"


class Change(Protocol):
    """Run a rule of the controller in its turn; see ``ClusterMetadata``."""

    def __call__(self, decide: Callable[[MetadataImage], Decision[T]], /) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBrokersSetup:
    store: MetadataStore
    """The store, once it leads."""
    change: Change
    settings: ControllerSettings
    clock: Clock
    session_timeout_ms: int


class RemoteBrokers:
    """The requests of other brokers, at an active controller. Each raises NOT_CONTROLLER once the store is closed."""

    def __init__(self, setup: RemoteBrokersSetup) -> None:
        """Give every unfenced broker a full session, and follow the store's changes."""
        self._setup = setup
        self._store = setup.store
        self._change = setup.change
        self._settings = setup.settings
        self._registration_offsets: dict[int, int] = {}
        """The offset of each broker's last registration record. Those before the start count as the broker's epoch."""
        registered = [self._registered(broker) for broker in self._store.committed.brokers.values()]
        self._epochs = {broker.id: broker.epoch for broker in registered}
        self._sessions = BrokerSessions.activate(
            registered, session_timeout_ms=setup.session_timeout_ms, now_ms=setup.clock.monotonic_ms()
        )
        self._refusals = RepeatedErrors(_log, "The registration of broker %s is refused: %s")
        self._store.on_commit.append(self._follow)

    # --- registrations ---

    async def register(self, request: BrokerRegistrationRequest) -> int:
        """Register a broker, or amend its registration, and return its epoch."""
        try:
            return await self._change(lambda image: self._register(image, request))
        except ApiError as error:
            self._refusals.note(str(request.broker_id), error)
            raise

    async def register_controller(
        self,
        controller_id: int,
        incarnation_id: uuid.UUID,
        endpoints: Sequence[BrokerEndpoint],
        features: Mapping[str, VersionRange],
    ) -> None:
        """Record the endpoints and features of another controller."""
        await self._change(
            lambda image: brokers.register_controller(image, controller_id, incarnation_id, endpoints, features)
        )

    def _register(self, image: MetadataImage, request: BrokerRegistrationRequest) -> Decision[int]:
        if request.cluster_id != image.cluster_id:
            raise ApiError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"Expected cluster ID {image.cluster_id}, but got cluster ID {request.cluster_id}",
            )
        now_ms = self._touch_own(image)
        known = image.brokers.get(request.broker_id)
        self._sessions.require_free(None if known is None else self._registered(known), request.incarnation_id, now_ms)
        new = brokers.NewRegistration(
            broker_id=request.broker_id,
            incarnation_id=request.incarnation_id,
            endpoints=request.listeners,
            directories=request.log_dirs,
            rack=request.rack,
            previous_epoch=None if request.previous_broker_epoch < 0 else request.previous_broker_epoch,
            features=request.features,
        )
        decision = brokers.register_broker(
            image,
            self._settings,
            new,
            self._store.log.end_offset,
            kraft_version=self._store.replay.voters.kraft_version,
        )
        is_amended = known is not None and known.epoch == decision.result
        what = "Amending the registration of" if is_amended else "Registering a new incarnation of"
        _log.info("%s broker %d: incarnation %s, epoch %d", what, new.broker_id, new.incarnation_id, decision.result)
        return decision

    # --- sessions ---

    async def heartbeat(self, request: BrokerHeartbeatRequest) -> BrokerHeartbeatResponse:
        """Extend a session and change the broker's state. Raise ApiError(STALE_BROKER_EPOCH)."""
        self._sessions.record_contact(
            SessionKey(request.broker_id, request.broker_epoch), self._setup.clock.monotonic_ms()
        )
        if request.offline_dirs:
            await self._change(lambda image: self._take_offline(image, request))
        return await self._change(lambda image: self._heartbeat(image, request))

    async def fence_stale(self) -> bool:
        """Fence the broker with the oldest expired session. Return False if there is none."""
        return await self._change(self._fence_stale)

    @property
    def check_interval_ms(self) -> int:
        """The time between two checks for expired sessions."""
        return self._sessions.check_interval_ms

    def _take_offline(self, image: MetadataImage, request: BrokerHeartbeatRequest) -> Decision[None]:
        """Report failed log directories. They count before the rest of the heartbeat, which may elect leaders."""
        brokers.require_epoch(image, request.broker_id, request.broker_epoch)
        if not supports_directories(image):
            return Decision((), None)
        offline = sorted(request.offline_dirs)
        return brokers.take_directories_offline(image, self._settings, request.broker_id, offline)

    def _heartbeat(self, image: MetadataImage, request: BrokerHeartbeatRequest) -> Decision[BrokerHeartbeatResponse]:
        now_ms = self._touch_own(image)
        broker = image.brokers.get(request.broker_id)
        is_leaving = request.wants_shutdown or (broker is not None and broker.in_controlled_shutdown)
        decision = self._sessions.heartbeat(
            request,
            None if broker is None else self._registered(broker),
            leads_partitions=is_leaving and _leads_partitions(image, request.broker_id),
            now_ms=now_ms,
        )
        return Decision(self._records(image, request, decision), decision.response)

    def _records(
        self, image: MetadataImage, request: BrokerHeartbeatRequest, decision: HeartbeatDecision
    ) -> Sequence[MetadataRecord]:
        broker_id, cordoned = request.broker_id, request.cordoned_dirs
        cordons = [] if cordoned is None else brokers.cordon_directories(image, broker_id, cordoned).records
        if not decision.changes:
            return cordons
        match decision.next_state:
            case BrokerControlState.UNFENCED:
                _log.info("Broker %d has caught up and is unfenced", broker_id)
                changes = brokers.unfence_broker(image, self._settings, broker_id).records
            case BrokerControlState.CONTROLLED_SHUTDOWN:
                _log.info("Broker %d is in controlled shutdown", broker_id)
                changes = brokers.begin_shutdown(image, self._settings, broker_id).records
            case _ if image.brokers[broker_id].is_fenced:
                changes = ()
            case _:
                _log.info("Broker %d is fenced, as it asked", broker_id)
                changes = brokers.fence_broker(image, self._settings, broker_id).records
        return [*changes, *cordons]

    def _fence_stale(self, image: MetadataImage) -> Decision[bool]:
        now_ms = self._touch_own(image)
        stale = self._sessions.take_stale(
            now_ms, lambda broker_id: None if (known := image.brokers.get(broker_id)) is None else known.epoch
        )
        if stale is None:
            return Decision((), False)
        broker_id = stale.key.broker_id
        if not stale.is_current or image.brokers[broker_id].is_fenced:
            return Decision((), True)
        _log.warning("Fencing broker %d because its session has timed out", broker_id)
        self._sessions.fence(broker_id)
        return Decision(brokers.fence_broker(image, self._settings, broker_id).records, True)

    def _touch_own(self, image: MetadataImage) -> int:
        """Extend the session of the broker in this process, and return the time."""
        now_ms = self._setup.clock.monotonic_ms()
        own = image.brokers.get(self._settings.node_id)
        if own is not None and not own.is_fenced:
            self._sessions.record_contact(SessionKey(own.id, own.epoch), now_ms)
            self._sessions.note_offset(own.id, self._store.published.end_offset - 1)
        return now_ms

    # --- partitions and producers ---

    async def alter_partitions(
        self, broker_id: int, broker_epoch: int, alterations: Sequence[PartitionAlteration]
    ) -> list[AlteredPartition]:
        """Change the in-sync replicas of partitions that the broker leads."""

        def decide(image: MetadataImage) -> Decision[list[AlteredPartition]]:
            brokers.require_epoch(image, broker_id, broker_epoch)
            return leaders.alter_partitions(image, self._settings, broker_id, alterations)

        return await self._change(decide)

    async def assign_directories(
        self, broker_id: int, broker_epoch: int, directories: Mapping[tuple[uuid.UUID, int], uuid.UUID]
    ) -> dict[tuple[uuid.UUID, int], ErrorCode]:
        """Record the log directories of a broker's replicas, by topic id and partition number."""

        def decide(image: MetadataImage) -> Decision[dict[tuple[uuid.UUID, int], ErrorCode]]:
            brokers.require_epoch(image, broker_id, broker_epoch)
            return leaders.assign_directories(image, self._settings, broker_id, directories)

        return await self._change(decide)

    async def allocate_producer_ids(self, broker_id: int, broker_epoch: int) -> range:
        """Return a block of producer ids that no other broker gets."""

        def decide(image: MetadataImage) -> Decision[range]:
            brokers.require_epoch(image, broker_id, broker_epoch)
            return brokers.allocate_producer_ids(image, broker_id, broker_epoch)

        return await self._change(decide)

    # --- following the log ---

    def _follow(self, records: Sequence[MetadataRecord], change: MetadataChange) -> None:
        """Apply committed records to the sessions."""
        first = change.end_offset - len(records)
        for offset, record in enumerate(records, first):
            if record.name == _REGISTRATION:
                self._follow_registration(record.fields, offset)
            elif record.name == _UNREGISTRATION:
                self._sessions.remove(record.fields["brokerId"])
                self._epochs.pop(record.fields["brokerId"], None)
        for broker_id in change.brokers:
            broker = self._store.committed.brokers.get(broker_id)
            if broker is not None:
                self._sessions.register(broker_id, is_fenced=broker.is_fenced)
                if broker.in_controlled_shutdown and not broker.is_fenced:
                    self._sessions.begin_controlled_shutdown(broker_id, change.end_offset - 1)

    def _follow_registration(self, fields: Mapping[str, Any], offset: int) -> None:
        broker_id, epoch = fields["brokerId"], fields["brokerEpoch"]
        self._registration_offsets[broker_id] = offset
        if self._epochs.get(broker_id) != epoch:
            self._sessions.replace(broker_id, is_fenced=fields["fenced"])
        self._epochs[broker_id] = epoch

    def _registered(self, broker: BrokerRegistration) -> RegisteredBroker:
        return RegisteredBroker(
            id=broker.id,
            epoch=broker.epoch,
            registration_offset=self._registration_offsets.get(broker.id, broker.epoch),
            incarnation_id=broker.incarnation_id,
            is_fenced=broker.is_fenced,
        )


def _leads_partitions(image: MetadataImage, broker_id: int) -> bool:
    return any(state.leader == broker_id for _, _, state in image.partitions())
