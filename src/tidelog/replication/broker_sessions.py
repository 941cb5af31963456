"""The sessions of brokers at the active controller: which are alive, which may lead, and which may stop.

A heartbeat moves a broker to its next state. The first matching row counts:

===================  ===========================================================  ===================
state                heartbeat                                                    next state
===================  ===========================================================  ===================
FENCED               wants to shut down                                           SHUTDOWN_NOW
FENCED               wants no fence, and has applied its registration's record    UNFENCED
FENCED               any other                                                    FENCED
UNFENCED             wants a fence and to shut down                               SHUTDOWN_NOW
UNFENCED             wants a fence                                                FENCED
UNFENCED             wants to shut down, and leads partitions                     CONTROLLED_SHUTDOWN
UNFENCED             wants to shut down, and leads none                           SHUTDOWN_NOW
UNFENCED             any other                                                    UNFENCED
CONTROLLED_SHUTDOWN  the broker leads partitions                                  CONTROLLED_SHUTDOWN
CONTROLLED_SHUTDOWN  every active broker has applied the records of the shutdown  SHUTDOWN_NOW
CONTROLLED_SHUTDOWN  any other                                                    CONTROLLED_SHUTDOWN
===================  ===========================================================  ===================

The owner turns a decision into records, writes them, and then calls ``register``, ``fence`` or
``begin_controlled_shutdown``. Sessions are not in the metadata log. Therefore a new active controller gives every
unfenced broker a full session (``activate``).

A session belongs to a broker's id and epoch. It begins with the first heartbeat, not with the registration. It expires
once its last contact is older than the session timeout. Each check fences at most one broker, in the order of
last contacts. Kafka 4.4 takes any expired session instead, in the order of a hash map.

Thread rule: one owner. Times are in ms, and come from the owner. Source: Kafka's ``BrokerHeartbeatManager``,
``BrokerHeartbeatTracker``, ``ReplicationControlManager`` (``processBrokerHeartbeat``, ``maybeFenceOneStaleBroker``),
``ClusterControlManager`` (``activate``, ``registerBroker``); KIP-631.
"""

from __future__ import annotations

import enum
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Self

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

NO_OFFSET: Final = -1
NO_ACTIVE_BROKER: Final = 2**63 - 1
"""The lowest active offset if no broker is active: then no broker has to catch up."""


class BrokerControlState(enum.Enum):
    FENCED = enum.auto()
    UNFENCED = enum.auto()
    CONTROLLED_SHUTDOWN = enum.auto()
    SHUTDOWN_NOW = enum.auto()

    @property
    def is_fenced(self) -> bool:
        return self in (BrokerControlState.FENCED, BrokerControlState.SHUTDOWN_NOW)


FENCED, UNFENCED = BrokerControlState.FENCED, BrokerControlState.UNFENCED
CONTROLLED_SHUTDOWN, SHUTDOWN_NOW = BrokerControlState.CONTROLLED_SHUTDOWN, BrokerControlState.SHUTDOWN_NOW


class SessionKey(NamedTuple):
    """The owner of a session. A broker that registers as a new incarnation gets a new epoch, and a new session."""

    broker_id: int
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredBroker:
    """A broker as the metadata has it."""

    id: int
    epoch: int
    """The offset of the first registration record of this incarnation."""
    registration_offset: int
    """The offset of the last one. It is greater if the same incarnation has registered again."""
    incarnation_id: uuid.UUID
    is_fenced: bool

    @property
    def key(self) -> SessionKey:
        return SessionKey(self.id, self.epoch)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeartbeatDecision:
    """The effect of a heartbeat. Records are needed if the state changes."""

    state: BrokerControlState
    next_state: BrokerControlState
    response: BrokerHeartbeatResponse

    @property
    def changes(self) -> bool:
        return self.state is not self.next_state


class StaleSession(NamedTuple):
    """An expired session that was removed."""

    key: SessionKey
    is_current: bool
    """True if the broker has to be fenced. False if it is unknown or has another epoch now."""


@dataclass(slots=True)
class _Broker:
    is_fenced: bool
    metadata_offset: int = NO_OFFSET
    shutdown_offset: int = NO_OFFSET
    """The offset that every active broker must reach before this one may stop."""

    @property
    def is_shutting_down(self) -> bool:
        return self.shutdown_offset != NO_OFFSET

    @property
    def is_active(self) -> bool:
        return not self.is_fenced and not self.is_shutting_down

    @property
    def state(self) -> BrokerControlState:
        if self.is_shutting_down:
            return CONTROLLED_SHUTDOWN
        return FENCED if self.is_fenced else UNFENCED


class BrokerSessions:
    """The sessions of all brokers at one active controller."""

    def __init__(self, *, session_timeout_ms: int) -> None:
        self._timeout_ms = session_timeout_ms
        self._brokers: dict[int, _Broker] = {}
        self._contacts_ms: dict[SessionKey, int] = {}

    @classmethod
    def activate(cls, brokers: Iterable[RegisteredBroker], *, session_timeout_ms: int, now_ms: int) -> Self:
        """Return the sessions of a controller that becomes active at ``now_ms``."""
        sessions = cls(session_timeout_ms=session_timeout_ms)
        for broker in brokers:
            sessions.register(broker.id, is_fenced=broker.is_fenced)
            if not broker.is_fenced:
                sessions._contacts_ms[broker.key] = now_ms
        return sessions

    @property
    def check_interval_ms(self) -> int:
        """The time between two calls of ``take_stale``."""
        return max(1, self._timeout_ms // 8)

    # --- registrations ---

    def require_free(self, broker: RegisteredBroker | None, incarnation_id: uuid.UUID, now_ms: int) -> None:
        """Raise ApiError(DUPLICATE_BROKER_REGISTRATION) if another incarnation of the broker has a valid session."""
        if broker is None or broker.incarnation_id == incarnation_id or not self.is_valid(broker.key, now_ms):
            return
        raise ApiError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION,
            "Another broker is registered with that broker id. If the broker was recently restarted this should"
            " self-resolve once the heartbeat manager expires the broker's session.",
        )

    def register(self, broker_id: int, *, is_fenced: bool) -> None:
        """Take over the fencing of a registration or of a change to it. A fenced broker leaves controlled shutdown."""
        broker = self._brokers.get(broker_id)
        offset = NO_OFFSET
        if broker is None:
            self._brokers[broker_id] = _Broker(is_fenced)
        elif broker.is_fenced != is_fenced:
            offset = broker.metadata_offset
        self._touch(broker_id, is_fenced=is_fenced, metadata_offset=offset)

    def replace(self, broker_id: int, *, is_fenced: bool) -> None:
        """Register a new incarnation: it has reported no offset yet."""
        self.remove(broker_id)
        self.register(broker_id, is_fenced=is_fenced)

    def remove(self, broker_id: int) -> None:
        """Forget the broker. Its session stays until it expires."""
        self._brokers.pop(broker_id, None)

    # --- heartbeats ---

    def record_contact(self, key: SessionKey, now_ms: int) -> None:
        """Extend a session. Kafka does this for every heartbeat, before it looks at the epoch."""
        self._contacts_ms[key] = now_ms

    def note_offset(self, broker_id: int, metadata_offset: int) -> None:
        """Note the applied offset of a broker in the controller's own process, which sends no heartbeats."""
        if broker_id in self._brokers:
            self._brokers[broker_id].metadata_offset = metadata_offset

    def heartbeat(
        self, request: BrokerHeartbeatRequest, broker: RegisteredBroker | None, *, leads_partitions: bool, now_ms: int
    ) -> HeartbeatDecision:
        """Return the next state by the table above. Raise ApiError(STALE_BROKER_EPOCH) for an unknown broker or epoch.

        ``broker`` is the registration with the request's broker id.
        """
        key = SessionKey(request.broker_id, request.broker_epoch)
        self.record_contact(key, now_ms)
        if broker is None or broker.key != key:
            known = "it is not registered" if broker is None else f"its epoch is {broker.epoch}"
            raise ApiError(
                ErrorCode.STALE_BROKER_EPOCH,
                f"Heartbeat of broker {request.broker_id} with epoch {request.broker_epoch}, but {known}",
            )
        state = self.state_of(broker.id)
        next_state = self._next_state(request, broker.registration_offset, leads_partitions)
        self._touch(broker.id, is_fenced=next_state.is_fenced, metadata_offset=request.metadata_offset)
        response = BrokerHeartbeatResponse(
            is_caught_up=request.metadata_offset >= broker.registration_offset,
            is_fenced=next_state.is_fenced,
            should_shut_down=next_state is SHUTDOWN_NOW,
        )
        return HeartbeatDecision(state=state, next_state=next_state, response=response)

    def begin_controlled_shutdown(self, broker_id: int, records_end_offset: int) -> None:
        """Note the last offset of the records that moved the broker's leaderships. Only the first offset counts."""
        broker = self._require(broker_id)
        if broker.is_fenced:
            raise RuntimeError(f"broker {broker_id} is fenced: it cannot enter controlled shutdown")
        if not broker.is_shutting_down:
            broker.shutdown_offset = records_end_offset

    def _next_state(
        self, request: BrokerHeartbeatRequest, registration_offset: int, leads_partitions: bool
    ) -> BrokerControlState:
        broker = self._require(request.broker_id)
        if broker.is_shutting_down:
            may_stop = not leads_partitions and broker.shutdown_offset <= self.lowest_active_offset
            return SHUTDOWN_NOW if may_stop else CONTROLLED_SHUTDOWN
        if broker.is_fenced:
            if request.wants_shutdown:
                return SHUTDOWN_NOW
            has_caught_up = request.metadata_offset >= registration_offset
            return UNFENCED if not request.wants_fence and has_caught_up else FENCED
        if request.wants_fence:
            return SHUTDOWN_NOW if request.wants_shutdown else FENCED
        if request.wants_shutdown:
            return CONTROLLED_SHUTDOWN if leads_partitions else SHUTDOWN_NOW
        return UNFENCED

    def _touch(self, broker_id: int, *, is_fenced: bool, metadata_offset: int) -> None:
        broker = self._require(broker_id)
        broker.is_fenced = is_fenced
        broker.metadata_offset = metadata_offset
        if is_fenced:
            broker.shutdown_offset = NO_OFFSET

    # --- expiry ---

    def is_valid(self, key: SessionKey, now_ms: int) -> bool:
        """Return True if the session has begun and has not expired."""
        contact_ms = self._contacts_ms.get(key)
        return contact_ms is not None and not self._is_expired(contact_ms, now_ms)

    def take_stale(self, now_ms: int, registered_epoch: Callable[[int], int | None]) -> StaleSession | None:
        """Remove the session with the oldest contact if it has expired.

        ``registered_epoch`` returns the epoch of a broker in the metadata, or None if it is not registered. If the
        session is current, write the records that fence the broker, and call ``fence``.
        """
        if not self._contacts_ms:
            return None
        key = min(self._contacts_ms, key=lambda one: (self._contacts_ms[one], one))
        if not self._is_expired(self._contacts_ms[key], now_ms):
            return None
        del self._contacts_ms[key]
        epoch = registered_epoch(key.broker_id)
        if epoch is None:
            self.remove(key.broker_id)
        return StaleSession(key, epoch == key.epoch)

    def fence(self, broker_id: int) -> None:
        """Note that the broker is being fenced. It is no longer active."""
        if broker_id in self._brokers:
            self._brokers[broker_id].is_fenced = True

    def _is_expired(self, contact_ms: int, now_ms: int) -> bool:
        return contact_ms + self._timeout_ms < now_ms

    # --- reports ---

    def state_of(self, broker_id: int) -> BrokerControlState:
        return self._require(broker_id).state

    def controlled_shutdown_offset(self, broker_id: int) -> int | None:
        broker = self._brokers.get(broker_id)
        return broker.shutdown_offset if broker is not None and broker.is_shutting_down else None

    @property
    def lowest_active_offset(self) -> int:
        """The lowest offset that an active broker has applied."""
        offsets = (broker.metadata_offset for broker in self._brokers.values() if broker.is_active)
        return min(offsets, default=NO_ACTIVE_BROKER)

    def _require(self, broker_id: int) -> _Broker:
        broker = self._brokers.get(broker_id)
        if broker is None:
            raise RuntimeError(f"broker {broker_id} is not registered")
        return broker
