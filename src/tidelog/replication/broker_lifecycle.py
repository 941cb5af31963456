"""A broker's life in a cluster, towards the active controller: it registers, sends heartbeats, and asks to stop.

===========================  =================================================  ===========================
state                        event                                              next state
===========================  =================================================  ===========================
NOT_RUNNING                  ``start``                                          STARTING
STARTING                     a heartbeat's response: it is caught up            RECOVERY
RECOVERY                     a heartbeat's response: it is no longer fenced     RUNNING
RUNNING                      ``begin_controlled_shutdown``                      PENDING_CONTROLLED_SHUTDOWN
PENDING_CONTROLLED_SHUTDOWN  a heartbeat's response: it should shut down        SHUTTING_DOWN
STARTING, RECOVERY           ``begin_controlled_shutdown``                      SHUTTING_DOWN
any                          ``begin_shutdown``, no registration until timeout  SHUTTING_DOWN
===========================  =================================================  ===========================

A running broker that is fenced stays RUNNING: its next heartbeats ask again for its unfencing.

One request is in flight at a time. The next one follows after:

=====================================================  ==============================================
response                                               delay
=====================================================  ==============================================
a registration                                         none: the first heartbeat is sent immediately
a heartbeat in STARTING                                10 ms
the first heartbeat in PENDING_CONTROLLED_SHUTDOWN     50 ms
any other heartbeat                                    ``heartbeat_interval_ms``
an error, or none within ``heartbeat_interval_ms``     ``heartbeat_interval_ms``
=====================================================  ==============================================

An event that the controller must learn of is sent immediately, or right after the response of the request in flight.
Brokers before Kafka 4.0 backed off exponentially after errors, and waited for half the session timeout.

Failed log directories stay in every later heartbeat. The broker stops if the controller does not acknowledge one within
``log_dir_failure_timeout_ms``. There are two differences from Kafka 4.4. There a response also acknowledges directories
that failed after the request was sent, and the timeout of a failed directory replaces that of an earlier one.

The owner calls ``tick`` at ``next_tick_ms``, carries out the commands, and reports each request's end by its number.
After a shutdown all events are no-ops. Thread rule: one owner. Times are in ms, and come from the owner. Source:
Kafka's ``BrokerLifecycleManager``, ``BrokerRegistrationTracker``, ``BrokerServer``; KIP-631, KIP-858, KIP-1066.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.model.kafka_uuid import uuid_to_text
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.broker_state import BrokerState
from tidelog.replication.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.replication.registration_request import NO_BROKER_EPOCH, BrokerRegistrationRequest

_STARTING_INTERVAL_MS: Final = 10
_FIRST_SHUTDOWN_INTERVAL_MS: Final = 50
_DIRECTORIES_SINCE: Final = 17
"""The metadata.version 3.7-IV2: registrations have log directories."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleSettings:
    heartbeat_interval_ms: int = 2000
    """``broker.heartbeat.interval.ms``"""
    registration_timeout_ms: int = 60_000
    """``initial.broker.registration.timeout.ms``"""
    log_dir_failure_timeout_ms: int = 30_000
    """``log.dir.failure.timeout.ms``"""


class EnterState(NamedTuple):
    """The broker is in a new state. After RECOVERY it loads its logs, and calls ``set_ready_to_unfence``."""

    state: BrokerState


class SendRegistration(NamedTuple):
    number: int
    request: BrokerRegistrationRequest
    deadline_ms: int
    """The request counts as failed from then on. A later response is ignored."""


class SendHeartbeat(NamedTuple):
    number: int
    request: BrokerHeartbeatRequest
    deadline_ms: int


class StopBroker(NamedTuple):
    """The broker must not go on."""

    reason: str


LifecycleCommand = EnterState | SendRegistration | SendHeartbeat | StopBroker


@dataclass(frozen=True, slots=True)
class _InFlight:
    number: int
    deadline_ms: int
    offline_dirs: frozenset[uuid.UUID] = frozenset()
    """The failed directories in the request: a response acknowledges them."""


class BrokerLifecycle:
    """The lifecycle of one incarnation of a broker. ``registration`` is its request to the controller."""

    def __init__(self, registration: BrokerRegistrationRequest, settings: LifecycleSettings) -> None:
        self._registration = registration
        self._settings = settings
        self.state = BrokerState.NOT_RUNNING
        self.broker_epoch = NO_BROKER_EPOCH
        """The epoch from the controller, or -1. A clean shutdown writes it into its marker file."""
        self.metadata_offset = -1
        """The highest offset of the metadata log that was applied. The owner sets it."""
        self._is_registered = False
        self._is_ready = False
        self._has_caught_up = False
        self._has_asked_to_stop = False
        self._offline_dirs: set[uuid.UUID] = set()
        self._unacknowledged_ms: dict[uuid.UUID, int] = {}
        """The deadline of each failed directory that the controller has not acknowledged."""
        self._cordoned_dirs: frozenset[uuid.UUID] | None = None
        self._in_flight: _InFlight | None = None
        self._requests = 0
        self._next_request_ms: int | None = None
        self._is_next_immediate = False
        self._registration_deadline_ms: int | None = None

    @property
    def next_tick_ms(self) -> int | None:
        """The time of the next ``tick``, or None if nothing is due."""
        due = list(self._unacknowledged_ms.values())
        due += [at for at in (self._next_request_ms, self._registration_deadline_ms) if at is not None]
        if self._in_flight is not None:
            due.append(self._in_flight.deadline_ms)
        return min(due, default=None)

    # --- events of the broker ---

    def start(self, now_ms: int) -> list[LifecycleCommand]:
        """Begin to register."""
        assert self.state is BrokerState.NOT_RUNNING, self.state
        self._registration_deadline_ms = now_ms + self._settings.registration_timeout_ms
        return [self._enter(BrokerState.STARTING), self._send(now_ms)]

    def set_ready_to_unfence(self, now_ms: int) -> list[LifecycleCommand]:
        """Ask for unfencing from now on: the logs are loaded, and the first metadata is applied."""
        self._is_ready = True
        return self._request_now(now_ms)

    def begin_controlled_shutdown(self, now_ms: int) -> list[LifecycleCommand]:
        """Ask the controller to move this broker's leaderships. A broker that is not running shuts down immediately."""
        if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            return []
        if self.state is not BrokerState.RUNNING:
            return self.begin_shutdown()
        return [self._enter(BrokerState.PENDING_CONTROLLED_SHUTDOWN), *self._request_now(now_ms)]

    def begin_shutdown(self) -> list[LifecycleCommand]:
        """End this incarnation: no request follows."""
        if self._is_shutting_down:
            return []
        self._in_flight = self._next_request_ms = self._registration_deadline_ms = None
        self._unacknowledged_ms.clear()
        return [self._enter(BrokerState.SHUTTING_DOWN)]

    def fail_directory(self, directory_id: uuid.UUID, now_ms: int) -> list[LifecycleCommand]:
        """Report a failed log directory in all further heartbeats."""
        if self._is_shutting_down:
            return []
        self._offline_dirs.add(directory_id)
        self._unacknowledged_ms[directory_id] = now_ms + self._settings.log_dir_failure_timeout_ms
        return self._request_now(now_ms) if self._is_registered else []

    def cordon_directories(self, directory_ids: Collection[uuid.UUID] | None, now_ms: int) -> list[LifecycleCommand]:
        """Report the log directories that get no new partitions. None: the metadata.version does not have them."""
        self._cordoned_dirs = None if directory_ids is None else frozenset(directory_ids)
        return self._request_now(now_ms) if self._is_registered and directory_ids is not None else []

    def see_registration(
        self, log_dirs: Collection[uuid.UUID] | None, metadata_version: int, now_ms: int
    ) -> list[LifecycleCommand]:
        """Register again if the metadata has this broker without log directories, but could have them.

        Call this after changes of the metadata.version, and of this broker's registration. ``log_dirs`` is None if the
        metadata does not have the broker.
        """
        if log_dirs is None or log_dirs or metadata_version < _DIRECTORIES_SINCE:
            return []
        self._is_registered = False
        return self._request_now(now_ms)

    def tick(self, now_ms: int) -> list[LifecycleCommand]:
        """Apply the deadlines that have passed, and send the next request if it is due."""
        if self._is_shutting_down:
            return []
        commands = self._overdue_directories(now_ms)
        deadline_ms = self._registration_deadline_ms
        if deadline_ms is not None and now_ms >= deadline_ms:
            stop = StopBroker("the broker could not register within initial.broker.registration.timeout.ms")
            return [*commands, *self.begin_shutdown(), stop]
        if self._in_flight is not None and now_ms >= self._in_flight.deadline_ms:
            commands += self.fail_request(self._in_flight.number, now_ms)
        if self._next_request_ms is not None and now_ms >= self._next_request_ms:
            self._next_request_ms = None
            if self._in_flight is None:
                commands.append(self._send(now_ms))
            else:
                self._is_next_immediate = True
        return commands

    # --- events of requests ---

    def fail_request(self, number: int, now_ms: int) -> list[LifecycleCommand]:
        """Note a request without a response: a timeout, a lost connection, or failed authentication."""
        if self._end(number) is not None:
            self._is_next_immediate = False
            self._request_after(now_ms, delay_ms=self._settings.heartbeat_interval_ms)
        return []

    def registration_response(
        self, number: int, error: ErrorCode, broker_epoch: int, now_ms: int
    ) -> list[LifecycleCommand]:
        if error is not ErrorCode.NONE:
            return self.fail_request(number, now_ms)
        if self._end(number) is None:
            return []
        self.broker_epoch = broker_epoch
        self._is_registered = True
        self._registration_deadline_ms = None
        return self._request_now(now_ms)

    def heartbeat_response(
        self, number: int, error: ErrorCode, response: BrokerHeartbeatResponse, now_ms: int
    ) -> list[LifecycleCommand]:
        if error is not ErrorCode.NONE:
            return self.fail_request(number, now_ms)
        request = self._end(number)
        if request is None:
            return []
        for directory_id in request.offline_dirs:
            self._unacknowledged_ms.pop(directory_id, None)
        commands: list[LifecycleCommand] = []
        delay_ms = self._settings.heartbeat_interval_ms
        if self.state is BrokerState.STARTING:
            delay_ms = _STARTING_INTERVAL_MS
            if response.is_caught_up:
                self._has_caught_up = True
                commands.append(self._enter(BrokerState.RECOVERY))
        elif self.state is BrokerState.RECOVERY and not response.is_fenced:
            commands.append(self._enter(BrokerState.RUNNING))
        elif self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            if response.should_shut_down:
                return self.begin_shutdown()
            if not self._has_asked_to_stop:
                delay_ms = _FIRST_SHUTDOWN_INTERVAL_MS
            self._has_asked_to_stop = True
        self._request_after(now_ms, delay_ms=delay_ms)
        return [*commands, *self.tick(now_ms)]

    # --- parts ---

    @property
    def _is_shutting_down(self) -> bool:
        return self.state is BrokerState.SHUTTING_DOWN

    def _enter(self, state: BrokerState) -> EnterState:
        self.state = state
        return EnterState(state)

    def _request_now(self, now_ms: int) -> list[LifecycleCommand]:
        if self._is_shutting_down:
            return []
        self._request_after(now_ms, delay_ms=0)
        return self.tick(now_ms)

    def _request_after(self, now_ms: int, *, delay_ms: int) -> None:
        self._next_request_ms = now_ms + (0 if self._is_next_immediate else delay_ms)
        self._is_next_immediate = False

    def _send(self, now_ms: int) -> LifecycleCommand:
        self._requests += 1
        deadline_ms = now_ms + self._settings.heartbeat_interval_ms
        if not self._is_registered:
            self._in_flight = _InFlight(self._requests, deadline_ms)
            return SendRegistration(self._requests, self._registration, deadline_ms)
        request = BrokerHeartbeatRequest(
            broker_id=self._registration.broker_id,
            broker_epoch=self.broker_epoch,
            metadata_offset=self.metadata_offset,
            wants_fence=not self._is_ready,
            wants_shutdown=self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN,
            offline_dirs=frozenset(self._offline_dirs),
            cordoned_dirs=self._cordoned_dirs if self._has_caught_up else None,
        )
        self._in_flight = _InFlight(self._requests, deadline_ms, request.offline_dirs)
        return SendHeartbeat(self._requests, request, deadline_ms)

    def _end(self, number: int) -> _InFlight | None:
        """Return the request in flight and end it. Return None for a late response: the request had failed."""
        request = self._in_flight
        if request is None or request.number != number:
            return None
        self._in_flight = None
        return request

    def _overdue_directories(self, now_ms: int) -> list[LifecycleCommand]:
        overdue = [directory for directory, deadline_ms in self._unacknowledged_ms.items() if now_ms >= deadline_ms]
        for directory in overdue:
            del self._unacknowledged_ms[directory]
        why = "the controller did not learn within log.dir.failure.timeout.ms of the failed log directory"
        return [StopBroker(f"{why} {uuid_to_text(directory)}") for directory in overdue]
