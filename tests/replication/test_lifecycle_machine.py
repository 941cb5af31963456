"""Brokers and their controller's sessions at random: requests get lost, late or refused, brokers and the controller
restart.

The cores are the real ones. The world around them is a list of registrations, and records are offsets that are written
immediately. A model of each rule is an invariant over the commands and responses of the cores.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from state_machines import run_machine
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.broker_lifecycle import (
    BrokerLifecycle,
    EnterState,
    LifecycleCommand,
    LifecycleSettings,
    SendHeartbeat,
    SendRegistration,
    StopBroker,
)
from tidelog.replication.broker_sessions import (
    CONTROLLED_SHUTDOWN,
    NO_ACTIVE_BROKER,
    SHUTDOWN_NOW,
    UNFENCED,
    BrokerSessions,
    RegisteredBroker,
    SessionKey,
)
from tidelog.replication.broker_state import BrokerState
from tidelog.replication.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.replication.registration_request import BrokerRegistrationRequest

BROKERS = (1, 2, 3)
SESSION_MS = 9000
SETTINGS = LifecycleSettings(heartbeat_interval_ms=2000, registration_timeout_ms=60_000)
NEXT_STATES = {
    BrokerState.NOT_RUNNING: {BrokerState.STARTING},
    BrokerState.STARTING: {BrokerState.RECOVERY, BrokerState.SHUTTING_DOWN},
    BrokerState.RECOVERY: {BrokerState.RUNNING, BrokerState.SHUTTING_DOWN},
    BrokerState.RUNNING: {BrokerState.PENDING_CONTROLLED_SHUTDOWN, BrokerState.SHUTTING_DOWN},
    BrokerState.PENDING_CONTROLLED_SHUTDOWN: {BrokerState.SHUTTING_DOWN},
    BrokerState.SHUTTING_DOWN: set[BrokerState](),
}
brokers = st.sampled_from(BROKERS)


@dataclass
class Node:
    """A broker's process."""

    core: BrokerLifecycle
    incarnation: uuid.UUID
    requests: list[SendRegistration | SendHeartbeat] = field(default_factory=list)
    """Requests that the network holds. Those after a loss may still arrive."""
    heartbeat: BrokerHeartbeatRequest | None = None
    """The last heartbeat. The network may double it."""
    states: list[BrokerState] = field(default_factory=lambda: [BrokerState.NOT_RUNNING])
    stop_reasons: list[str] = field(default_factory=list)
    failed_dirs: set[uuid.UUID] = field(default_factory=set)


class LifecycleMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now_ms = 0
        self.offset = 0
        """The end of the metadata log: a record a number."""
        self.registered: dict[int, RegisteredBroker] = {}
        self.sessions = BrokerSessions(session_timeout_ms=SESSION_MS)
        self.contacts_ms: dict[SessionKey, int] = {}
        self.leaders: set[int] = set()
        self.shutdown_ends: dict[int, int] = {}
        """The model of controlled shutdowns: broker -> the end offset of its records."""
        self.reported: dict[int, int] = {}
        """The model of active offsets: broker -> its last offset."""
        self.incarnations = 0
        self.nodes: dict[int, Node] = {}
        self.late: list[BrokerHeartbeatRequest] = []
        """Heartbeats of processes that have ended."""
        for broker in BROKERS:
            self.start(broker)
            self.go_on(broker)
            self.elect(broker)

    # --- brokers ---

    def start(self, broker: int) -> None:
        self.incarnations += 1
        incarnation = uuid.UUID(int=self.incarnations)
        request = BrokerRegistrationRequest(
            broker_id=broker,
            cluster_id="c",
            incarnation_id=incarnation,
            listeners=(),
            features={},
            log_dirs=(uuid.UUID(int=1000 + broker),),
        )
        node = self.nodes[broker] = Node(BrokerLifecycle(request, SETTINGS), incarnation)
        self.take(node, node.core.start(self.now_ms))

    def take(self, node: Node, commands: Iterable[LifecycleCommand]) -> None:
        for command in commands:
            match command:
                case EnterState(state):
                    assert state in NEXT_STATES[node.states[-1]], (node.states, state)
                    node.states.append(state)
                    if state is BrokerState.RECOVERY:
                        self.take(node, node.core.set_ready_to_unfence(self.now_ms))
                case StopBroker(reason):
                    node.stop_reasons.append(reason)
                case SendHeartbeat(_, request, _):
                    assert request.wants_shutdown == (node.states[-1] is BrokerState.PENDING_CONTROLLED_SHUTDOWN)
                    assert request.offline_dirs == node.failed_dirs
                    assert request.broker_epoch == node.core.broker_epoch > 0
                    node.requests.append(command)
                    node.heartbeat = request
                case SendRegistration():
                    node.requests.append(command)

    @rule(broker=brokers)
    def repeat(self, broker: int) -> None:
        heartbeat = self.nodes[broker].heartbeat
        if heartbeat is not None:
            self.heartbeat(heartbeat)

    @rule(broker=brokers)
    def restart(self, broker: int) -> None:
        heartbeat = self.nodes[broker].heartbeat
        if heartbeat is not None:
            self.late.append(heartbeat)
        self.start(broker)

    @rule()
    def deliver_late(self) -> None:
        if self.late:
            self.heartbeat(self.late.pop(0))

    @rule(broker=brokers)
    def stop(self, broker: int) -> None:
        node = self.nodes[broker]
        self.take(node, node.core.begin_controlled_shutdown(self.now_ms))

    @rule(broker=brokers, directory=st.integers(0, 2))
    def fail_directory(self, broker: int, directory: int) -> None:
        node = self.nodes[broker]
        if node.core.state is not BrokerState.SHUTTING_DOWN:
            node.failed_dirs.add(uuid.UUID(int=directory))
            self.take(node, node.core.fail_directory(uuid.UUID(int=directory), self.now_ms))

    @rule(broker=brokers)
    def apply_metadata(self, broker: int) -> None:
        self.nodes[broker].core.metadata_offset = self.offset

    @rule(broker=brokers)
    def see_old_registration(self, broker: int) -> None:
        node = self.nodes[broker]
        if node.core.broker_epoch > 0:
            self.take(node, node.core.see_registration((), 33, self.now_ms))

    # --- the network and time ---

    @rule(broker=brokers, loses_response=st.booleans())
    def deliver(self, broker: int, loses_response: bool) -> None:
        """Deliver the oldest request. Its response may get lost."""
        node = self.nodes[broker]
        if not node.requests:
            return
        command = node.requests.pop(0)
        match command:
            case SendRegistration(number, request, _):
                error, epoch = self.register(request)
                if not loses_response:
                    self.take(node, node.core.registration_response(number, error, epoch, self.now_ms))
            case SendHeartbeat(number, heartbeat, _):
                error, response = self.heartbeat(heartbeat)
                if not loses_response:
                    self.take(node, node.core.heartbeat_response(number, error, response, self.now_ms))

    @rule(broker=brokers)
    def go_on(self, broker: int) -> None:
        """Let the broker come further, without faults."""
        for _ in range(4):
            self.apply_metadata(broker)
            self.deliver(broker, loses_response=False)
            self.wait(10)

    @rule(broker=brokers)
    def lose(self, broker: int) -> None:
        node = self.nodes[broker]
        if node.requests:
            self.take(node, node.core.fail_request(node.requests.pop().number, self.now_ms))

    @rule(ms=st.sampled_from([1, 10, 50, 500, 2000, 5000, SESSION_MS, SESSION_MS + 1]))
    def wait(self, ms: int) -> None:
        """Let time pass, and tick each core at its time."""
        end_ms = self.now_ms + ms
        while True:
            due = [at for node in self.nodes.values() if (at := node.core.next_tick_ms) is not None and at <= end_ms]
            self.now_ms = max(self.now_ms, min(due, default=end_ms))
            if not due:
                return
            for node in self.nodes.values():
                self.take(node, node.core.tick(self.now_ms))

    # --- the controller ---

    def register(self, request: BrokerRegistrationRequest) -> tuple[ErrorCode, int]:
        known = self.registered.get(request.broker_id)
        try:
            self.sessions.require_free(known, request.incarnation_id, self.now_ms)
        except ApiError as error:
            assert known is not None
            assert known.incarnation_id != request.incarnation_id
            assert self.contacts_ms[known.key] + SESSION_MS >= self.now_ms
            return error.code, -1
        self.offset += 1
        is_same = known is not None and known.incarnation_id == request.incarnation_id
        broker = RegisteredBroker(
            id=request.broker_id,
            epoch=known.epoch if is_same and known else self.offset,
            registration_offset=self.offset,
            incarnation_id=request.incarnation_id,
            is_fenced=known.is_fenced if is_same and known else True,
        )
        if is_same:
            self.sessions.register(broker.id, is_fenced=broker.is_fenced)
        else:
            self.sessions.replace(broker.id, is_fenced=True)
        if broker.is_fenced:
            self.leave(broker.id)
        self.reported[broker.id] = -1
        self.registered[broker.id] = broker
        return ErrorCode.NONE, broker.epoch

    def heartbeat(self, request: BrokerHeartbeatRequest) -> tuple[ErrorCode, BrokerHeartbeatResponse]:
        key = SessionKey(request.broker_id, request.broker_epoch)
        self.contacts_ms[key] = self.now_ms
        broker = self.registered.get(request.broker_id)
        lowest, leads = self.lowest_offset(), request.broker_id in self.leaders
        try:
            decision = self.sessions.heartbeat(request, broker, leads_partitions=leads, now_ms=self.now_ms)
        except ApiError as error:
            assert broker is None or broker.epoch != request.broker_epoch
            return error.code, BrokerHeartbeatResponse()
        assert broker is not None
        if decision.next_state is SHUTDOWN_NOW and decision.state is CONTROLLED_SHUTDOWN:
            assert not leads
            assert self.shutdown_ends[broker.id] <= lowest
        if decision.next_state is UNFENCED and broker.is_fenced:
            assert request.metadata_offset >= broker.registration_offset
        self.reported[broker.id] = request.metadata_offset
        if decision.changes:
            self.offset += 1
            self.set_fenced(broker, decision.next_state.is_fenced)
            self.reported[broker.id] = -1  # as in Kafka: the record is replayed after the heartbeat
        if decision.next_state is CONTROLLED_SHUTDOWN:
            self.leaders.discard(broker.id)
            self.shutdown_ends.setdefault(broker.id, self.offset)
            self.sessions.begin_controlled_shutdown(broker.id, self.offset)
        return ErrorCode.NONE, decision.response

    def set_fenced(self, broker: RegisteredBroker, is_fenced: bool) -> None:
        self.registered[broker.id] = RegisteredBroker(
            id=broker.id,
            epoch=broker.epoch,
            registration_offset=broker.registration_offset,
            incarnation_id=broker.incarnation_id,
            is_fenced=is_fenced,
        )
        self.sessions.register(broker.id, is_fenced=is_fenced)
        if is_fenced:
            self.leave(broker.id)

    def leave(self, broker: int) -> None:
        """Note in the model that the broker is fenced."""
        self.leaders.discard(broker)
        self.shutdown_ends.pop(broker, None)

    @rule(broker=brokers)
    def elect(self, broker: int) -> None:
        known = self.registered.get(broker)
        if known is not None and not known.is_fenced and broker not in self.shutdown_ends:
            self.leaders.add(broker)

    @rule()
    def check_sessions(self) -> None:
        before = len(self.contacts_ms)
        stale = self.sessions.take_stale(
            self.now_ms, lambda broker: self.registered[broker].epoch if broker in self.registered else None
        )
        expired = {key: at for key, at in self.contacts_ms.items() if at + SESSION_MS < self.now_ms}
        if stale is None:
            assert not expired
            return
        assert self.contacts_ms.pop(stale.key) == min(expired.values())
        assert len(self.contacts_ms) == before - 1
        broker = self.registered[stale.key.broker_id]
        assert stale.is_current == (broker.epoch == stale.key.epoch)
        if stale.is_current:
            self.offset += 1
            self.sessions.fence(broker.id)
            self.set_fenced(broker, is_fenced=True)

    @rule()
    def fail_over(self) -> None:
        """Another controller becomes active. It forgets controlled shutdowns, and everybody's offset."""
        self.sessions = BrokerSessions.activate(
            self.registered.values(), session_timeout_ms=SESSION_MS, now_ms=self.now_ms
        )
        self.contacts_ms = {broker.key: self.now_ms for broker in self.registered.values() if not broker.is_fenced}
        self.reported = dict.fromkeys(self.registered, -1)
        self.shutdown_ends.clear()

    def lowest_offset(self) -> int:
        """Return the lowest offset of the model."""
        active = [
            self.reported.get(broker.id, -1)
            for broker in self.registered.values()
            if not broker.is_fenced and broker.id not in self.shutdown_ends
        ]
        return min(active, default=NO_ACTIVE_BROKER)

    # --- invariants ---

    @invariant()
    def sessions_are_those_of_the_model(self) -> None:
        for broker in self.registered.values():
            at_ms = self.contacts_ms.get(broker.key)
            assert self.sessions.is_valid(broker.key, self.now_ms) == (
                at_ms is not None and at_ms + SESSION_MS >= self.now_ms
            )
            assert self.sessions.controlled_shutdown_offset(broker.id) == self.shutdown_ends.get(broker.id)
        assert self.sessions.lowest_active_offset == self.lowest_offset()

    @invariant()
    def a_broker_is_never_stuck(self) -> None:
        for node in self.nodes.values():
            if node.core.state is not BrokerState.SHUTTING_DOWN:
                assert node.core.next_tick_ms is not None

    @invariant()
    def states_are_those_that_were_reported(self) -> None:
        for node in self.nodes.values():
            assert node.states[-1] is node.core.state

    def teardown(self) -> None:
        """Require that a network without faults leads every live broker to RUNNING or to its end."""
        self.leaders.clear()
        for _ in range(60):
            for broker in BROKERS:
                self.apply_metadata(broker)
                while self.nodes[broker].requests:
                    self.deliver(broker, loses_response=False)
            self.check_sessions()
            self.wait(500)
        for node in self.nodes.values():
            assert node.states[-1] in (BrokerState.RUNNING, BrokerState.SHUTTING_DOWN), node.states


def test_brokers_and_their_sessions_at_random() -> None:
    run_machine(LifecycleMachine, steps=50, examples=150)
