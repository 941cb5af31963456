"""A broker's lifecycle: states, the times of its requests, failed directories, re-registration, shutdown."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

import pytest

from tidelog.protocol.errors import ErrorCode
from tidelog.replication.broker_lifecycle import (
    BrokerLifecycle,
    EnterState,
    LifecycleCommand,
    LifecycleSettings,
    SendHeartbeat,
    SendRegistration,
    StopBroker,
)
from tidelog.replication.broker_state import BrokerState
from tidelog.replication.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from tidelog.replication.registration_request import BrokerEndpoint, BrokerRegistrationRequest, VersionRange

INTERVAL_MS = 2000
EPOCH = 1000
DIRS = tuple(uuid.UUID(int=100 + number) for number in range(3))
REGISTRATION = BrokerRegistrationRequest(
    broker_id=1,
    cluster_id="cluster",
    incarnation_id=uuid.UUID(int=77),
    listeners=(BrokerEndpoint("PLAINTEXT", "localhost", 9092),),
    features={"metadata.version": VersionRange(7, 33)},
    log_dirs=DIRS,
    rack="a",
    previous_broker_epoch=5,
)
SETTINGS = LifecycleSettings(
    heartbeat_interval_ms=INTERVAL_MS, registration_timeout_ms=300_000, log_dir_failure_timeout_ms=30_000
)
CAUGHT_UP = BrokerHeartbeatResponse(is_caught_up=True)
UNFENCED = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=False)
FENCED = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True)
SHOULD_STOP = BrokerHeartbeatResponse(is_caught_up=True, is_fenced=True, should_shut_down=True)


class Broker:
    """A lifecycle with a clock. It notes the commands, and knows the request in flight."""

    def __init__(self, **settings: Any) -> None:
        self.core = BrokerLifecycle(REGISTRATION, SETTINGS if not settings else LifecycleSettings(**settings))
        self.now_ms = 0
        self.sent: list[SendRegistration | SendHeartbeat] = []
        self.states: list[BrokerState] = []
        self.stops: list[str] = []

    def take(self, commands: Iterable[LifecycleCommand]) -> None:
        for command in commands:
            match command:
                case EnterState(state):
                    self.states.append(state)
                case StopBroker(reason):
                    self.stops.append(reason)
                case _:
                    self.sent.append(command)

    def wait(self, ms: int) -> None:
        self.now_ms += ms
        self.take(self.core.tick(self.now_ms))

    def waits_ms(self) -> int:
        """Return the time until the next request, and let it pass."""
        before, start_ms = len(self.sent), self.now_ms
        while len(self.sent) == before:
            next_ms = self.core.next_tick_ms
            assert next_ms is not None
            self.wait(max(0, next_ms - self.now_ms))
        return self.now_ms - start_ms

    def state(self) -> BrokerState:
        return self.core.state

    def heartbeat(self) -> BrokerHeartbeatRequest:
        """The last request, a heartbeat."""
        last = self.sent[-1]
        assert isinstance(last, SendHeartbeat)
        return last.request

    def registers(self, error: ErrorCode = ErrorCode.NONE, epoch: int = EPOCH) -> None:
        self.take(self.core.registration_response(self.sent[-1].number, error, epoch, self.now_ms))

    def gets(self, response: BrokerHeartbeatResponse, error: ErrorCode = ErrorCode.NONE) -> None:
        self.take(self.core.heartbeat_response(self.sent[-1].number, error, response, self.now_ms))

    def loses(self) -> None:
        self.take(self.core.fail_request(self.sent[-1].number, self.now_ms))


def new_broker(state: BrokerState = BrokerState.NOT_RUNNING) -> Broker:
    """Return a broker that has just reached ``state``; its last request has ended, unless it is the registration."""
    broker = Broker()
    if state >= BrokerState.STARTING:
        broker.take(broker.core.start(0))
    if state >= BrokerState.RECOVERY:
        broker.registers()
        broker.gets(CAUGHT_UP)
    if state >= BrokerState.RUNNING:
        broker.take(broker.core.set_ready_to_unfence(broker.now_ms))
        broker.gets(UNFENCED)
    if state >= BrokerState.PENDING_CONTROLLED_SHUTDOWN:
        broker.take(broker.core.begin_controlled_shutdown(broker.now_ms))
    assert broker.state() is state
    return broker


class TestRegistration:
    def test_start_registers(self) -> None:
        broker = new_broker()
        assert broker.core.next_tick_ms is None
        broker.take(broker.core.start(0))
        assert broker.states == [BrokerState.STARTING]
        assert broker.sent == [SendRegistration(1, REGISTRATION, INTERVAL_MS)]
        assert broker.core.broker_epoch == -1

    def test_success_brings_the_epoch_and_the_first_heartbeat(self) -> None:
        broker = new_broker(BrokerState.STARTING)
        broker.core.metadata_offset = 42
        broker.registers(epoch=1000)
        assert broker.core.broker_epoch == 1000
        assert broker.heartbeat() == BrokerHeartbeatRequest(
            broker_id=1, broker_epoch=1000, metadata_offset=42, wants_fence=True
        )

    def test_errors_are_tried_again_until_the_timeout(self) -> None:
        broker = new_broker(BrokerState.STARTING)
        tries = 0
        while broker.state() is BrokerState.STARTING and tries < 1000:
            broker.registers(ErrorCode.DUPLICATE_BROKER_REGISTRATION, -1)
            broker.wait(INTERVAL_MS)
            tries += 1
        assert tries == SETTINGS.registration_timeout_ms // INTERVAL_MS
        assert broker.states == [BrokerState.STARTING, BrokerState.SHUTTING_DOWN]
        assert broker.stops == ["the broker could not register within initial.broker.registration.timeout.ms"]
        assert broker.core.broker_epoch == -1
        assert broker.core.next_tick_ms is None

    def test_the_timeout_ends_with_the_registration(self) -> None:
        broker = new_broker(BrokerState.STARTING)
        broker.registers()
        broker.wait(SETTINGS.registration_timeout_ms)
        assert broker.state() is BrokerState.STARTING

    def test_metadata_without_log_directories_leads_to_another_registration(self) -> None:
        broker = new_broker(BrokerState.RUNNING)
        broker.take(broker.core.see_registration([], 17, broker.now_ms))
        assert broker.sent[-1] == SendRegistration(broker.sent[-1].number, REGISTRATION, broker.now_ms + INTERVAL_MS)
        broker.registers(epoch=EPOCH)
        assert broker.core.broker_epoch == EPOCH
        assert not broker.heartbeat().wants_fence
        assert broker.state() is BrokerState.RUNNING

    @pytest.mark.parametrize(("log_dirs", "version"), [(None, 17), (DIRS, 17), ([], 16)])
    def test_other_metadata_leads_to_none(self, log_dirs: list[uuid.UUID] | None, version: int) -> None:
        broker = new_broker(BrokerState.RUNNING)
        assert broker.core.see_registration(log_dirs, version, broker.now_ms) == []


class TestStates:
    def test_it_catches_up_and_recovers_and_runs(self) -> None:
        broker = new_broker(BrokerState.STARTING)
        broker.registers()
        broker.gets(BrokerHeartbeatResponse(is_caught_up=False))
        assert broker.state() is BrokerState.STARTING
        broker.wait(10)
        broker.gets(CAUGHT_UP)
        assert broker.state() is BrokerState.RECOVERY
        broker.wait(10)
        assert broker.heartbeat().wants_fence
        broker.gets(FENCED)
        assert broker.state() is BrokerState.RECOVERY
        broker.take(broker.core.set_ready_to_unfence(broker.now_ms))
        assert not broker.heartbeat().wants_fence
        broker.gets(UNFENCED)
        assert broker.states == [BrokerState.STARTING, BrokerState.RECOVERY, BrokerState.RUNNING]

    def test_one_response_moves_it_by_one_state(self) -> None:
        broker = new_broker(BrokerState.STARTING)
        broker.registers()
        broker.gets(UNFENCED)
        assert broker.state() is BrokerState.RECOVERY

    def test_a_running_broker_that_is_fenced_asks_again(self) -> None:
        broker = new_broker(BrokerState.RUNNING)
        broker.wait(INTERVAL_MS)
        broker.gets(FENCED)
        assert broker.state() is BrokerState.RUNNING
        broker.wait(INTERVAL_MS)
        assert not broker.heartbeat().wants_fence

    def test_a_controlled_shutdown_waits_for_the_controller(self) -> None:
        broker = new_broker(BrokerState.RUNNING)
        broker.take(broker.core.begin_controlled_shutdown(broker.now_ms))
        assert broker.state() is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        assert broker.heartbeat().wants_shutdown
        broker.gets(UNFENCED)
        assert broker.state() is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        broker.waits_ms()
        broker.gets(SHOULD_STOP)
        assert broker.state() is BrokerState.SHUTTING_DOWN
        assert broker.core.broker_epoch == EPOCH
        assert broker.core.next_tick_ms is None
        assert broker.stops == []

    def test_only_a_broker_in_controlled_shutdown_stops_by_a_response(self) -> None:
        broker = new_broker(BrokerState.RUNNING)
        broker.wait(INTERVAL_MS)
        broker.gets(SHOULD_STOP)
        assert broker.state() is BrokerState.RUNNING

    def test_a_second_controlled_shutdown_is_a_no_op(self) -> None:
        broker = new_broker(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        assert broker.core.begin_controlled_shutdown(broker.now_ms) == []

    @pytest.mark.parametrize("state", [BrokerState.NOT_RUNNING, BrokerState.STARTING, BrokerState.RECOVERY])
    def test_a_broker_that_does_not_run_shuts_down_immediately(self, state: BrokerState) -> None:
        broker = new_broker(state)
        commands = broker.core.begin_controlled_shutdown(broker.now_ms)
        assert commands == [EnterState(BrokerState.SHUTTING_DOWN)]

    @pytest.mark.parametrize(
        "state",
        [
            BrokerState.NOT_RUNNING,
            BrokerState.STARTING,
            BrokerState.RECOVERY,
            BrokerState.RUNNING,
            BrokerState.PENDING_CONTROLLED_SHUTDOWN,
        ],
    )
    def test_events_after_a_shutdown_are_no_ops(self, state: BrokerState) -> None:
        broker = new_broker(state)
        core, now_ms, number = broker.core, broker.now_ms, len(broker.sent)
        assert core.begin_shutdown() == [EnterState(BrokerState.SHUTTING_DOWN)]
        assert core.next_tick_ms is None
        after = [
            core.begin_shutdown(),
            core.begin_controlled_shutdown(now_ms),
            core.set_ready_to_unfence(now_ms),
            core.fail_directory(DIRS[0], now_ms),
            core.cordon_directories(DIRS, now_ms),
            core.see_registration([], 33, now_ms),
            core.registration_response(number, ErrorCode.NONE, 7, now_ms),
            core.heartbeat_response(number, ErrorCode.NONE, UNFENCED, now_ms),
            core.fail_request(number, now_ms),
            core.tick(now_ms + 10**9),
        ]
        assert after == [[]] * len(after)
        assert core.state is BrokerState.SHUTTING_DOWN
        assert core.next_tick_ms is None


class TestTimes:
    @pytest.mark.parametrize(
        ("state", "response", "delay_ms"),
        [
            (BrokerState.STARTING, BrokerHeartbeatResponse(is_caught_up=False), 10),
            (BrokerState.STARTING, CAUGHT_UP, 10),
            (BrokerState.RECOVERY, FENCED, INTERVAL_MS),
            (BrokerState.RECOVERY, UNFENCED, INTERVAL_MS),
            (BrokerState.RUNNING, UNFENCED, INTERVAL_MS),
            (BrokerState.PENDING_CONTROLLED_SHUTDOWN, UNFENCED, 50),
        ],
    )
    def test_the_next_heartbeat(self, state: BrokerState, response: BrokerHeartbeatResponse, delay_ms: int) -> None:
        broker = new_broker(state)
        if state is BrokerState.STARTING:
            broker.registers()
        elif state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            broker.waits_ms()
        broker.gets(response)
        assert broker.waits_ms() == delay_ms
        assert isinstance(broker.sent[-1], SendHeartbeat)

    def test_only_the_first_wait_of_a_controlled_shutdown_is_short(self) -> None:
        broker = new_broker(BrokerState.PENDING_CONTROLLED_SHUTDOWN)
        delays_ms = []
        for _ in range(3):
            broker.gets(UNFENCED)
            delays_ms.append(broker.waits_ms())
        assert delays_ms == [50, INTERVAL_MS, INTERVAL_MS]

    @pytest.mark.parametrize("fails", ["error", "lost", "late"])
    @pytest.mark.parametrize("state", [BrokerState.STARTING, BrokerState.RUNNING])
    def test_a_failure_waits_for_an_interval(self, state: BrokerState, fails: str) -> None:
        broker = new_broker(state)
        if state is BrokerState.RUNNING:
            broker.waits_ms()
        kind = type(broker.sent[-1])
        if fails == "error" and state is BrokerState.STARTING:
            broker.registers(ErrorCode.INVALID_REGISTRATION)
        elif fails == "error":
            broker.gets(UNFENCED, ErrorCode.STALE_BROKER_EPOCH)
        elif fails == "lost":
            broker.loses()
        else:
            broker.wait(INTERVAL_MS)  # its deadline
        assert broker.waits_ms() == INTERVAL_MS
        assert type(broker.sent[-1]) is kind
        assert broker.state() is state

    @pytest.mark.parametrize("has_next", [False, True])
    def test_a_response_after_the_deadline_is_ignored(self, has_next: bool) -> None:
        """The next request may be in flight already."""

        def miss(broker: Broker) -> int:
            late = broker.sent[-1].number
            broker.wait(INTERVAL_MS)
            if has_next:
                broker.waits_ms()
            return late

        broker = new_broker(BrokerState.STARTING)
        late = miss(broker)
        assert broker.core.registration_response(late, ErrorCode.NONE, 9, broker.now_ms) == []
        assert broker.core.broker_epoch == -1
        if not has_next:
            broker.waits_ms()
        broker.registers()
        late = miss(broker)
        assert broker.core.heartbeat_response(late, ErrorCode.NONE, CAUGHT_UP, broker.now_ms) == []
        assert broker.core.fail_request(late, broker.now_ms) == []
        assert broker.state() is BrokerState.STARTING

    def test_one_request_is_in_flight_and_news_follow_its_response(self) -> None:
        broker = new_broker(BrokerState.RUNNING)
        broker.waits_ms()
        sent = len(broker.sent)
        broker.take(broker.core.fail_directory(DIRS[0], broker.now_ms))
        broker.take(broker.core.begin_controlled_shutdown(broker.now_ms))
        assert len(broker.sent) == sent
        broker.gets(UNFENCED)
        assert len(broker.sent) == sent + 1
        assert broker.heartbeat().offline_dirs == {DIRS[0]}
        assert broker.heartbeat().wants_shutdown
        broker.gets(UNFENCED)
        assert len(broker.sent) == sent + 1

    def test_after_a_failure_news_wait_too(self) -> None:
        broker = new_broker(BrokerState.RUNNING)
        broker.waits_ms()
        broker.take(broker.core.begin_controlled_shutdown(broker.now_ms))
        broker.loses()
        assert broker.waits_ms() == INTERVAL_MS


class TestDirectories:
    def test_registrations_name_all_of_them(self) -> None:
        broker = new_broker(BrokerState.STARTING)
        registration = broker.sent[-1]
        assert isinstance(registration, SendRegistration)
        assert registration.request.log_dirs == DIRS

    def test_failed_ones_are_in_every_later_heartbeat(self) -> None:
        broker = new_broker(BrokerState.RUNNING)
        reported = []
        for directory in DIRS:
            broker.take(broker.core.fail_directory(directory, broker.now_ms))
            reported.append(broker.heartbeat().offline_dirs)
            broker.gets(UNFENCED)
        broker.wait(INTERVAL_MS)
        reported.append(broker.heartbeat().offline_dirs)
        assert reported == [set(DIRS[:1]), set(DIRS[:2]), set(DIRS), set(DIRS)]

    def test_one_that_fails_before_the_registration_waits_for_it(self) -> None:
        broker = new_broker(BrokerState.STARTING)
        assert broker.core.fail_directory(DIRS[1], broker.now_ms) == []
        broker.registers()
        assert broker.heartbeat().offline_dirs == {DIRS[1]}

    def test_the_broker_stops_if_the_controller_does_not_learn_of_it(self) -> None:
        broker = new_broker(BrokerState.RUNNING)
        broker.take(broker.core.fail_directory(DIRS[0], broker.now_ms))
        broker.wait(SETTINGS.log_dir_failure_timeout_ms - 1)
        assert broker.stops == []
        broker.wait(1)
        assert len(broker.stops) == 1
        assert "log.dir.failure.timeout.ms" in broker.stops[0]
        assert broker.state() is BrokerState.RUNNING
        broker.wait(SETTINGS.log_dir_failure_timeout_ms)
        assert len(broker.stops) == 1

    def test_a_response_acknowledges_the_directories_of_its_request(self) -> None:
        broker = new_broker(BrokerState.RUNNING)
        broker.take(broker.core.fail_directory(DIRS[0], broker.now_ms))
        broker.take(broker.core.fail_directory(DIRS[1], broker.now_ms))  # its request is in flight without this one
        broker.gets(UNFENCED)
        broker.wait(SETTINGS.log_dir_failure_timeout_ms)
        assert len(broker.stops) == 1

    def test_each_has_its_own_deadline(self) -> None:
        broker = new_broker(BrokerState.RUNNING)
        broker.take(broker.core.fail_directory(DIRS[0], broker.now_ms))
        broker.wait(SETTINGS.log_dir_failure_timeout_ms // 2)
        broker.take(broker.core.fail_directory(DIRS[1], broker.now_ms))
        broker.wait(SETTINGS.log_dir_failure_timeout_ms // 2)
        assert len(broker.stops) == 1

    def test_cordoned_ones_are_reported_once_it_has_caught_up(self) -> None:
        broker = new_broker(BrokerState.STARTING)
        broker.take(broker.core.cordon_directories(DIRS[:1], broker.now_ms))
        broker.registers()
        assert broker.heartbeat().cordoned_dirs is None
        broker.gets(CAUGHT_UP)
        broker.waits_ms()
        assert broker.heartbeat().cordoned_dirs == frozenset(DIRS[:1])
        broker.gets(FENCED)
        broker.take(broker.core.cordon_directories((), broker.now_ms))
        assert broker.heartbeat().cordoned_dirs == frozenset()
        broker.gets(FENCED)
        assert broker.core.cordon_directories(None, broker.now_ms) == []
        broker.waits_ms()
        assert broker.heartbeat().cordoned_dirs is None


def test_states_have_the_numbers_of_kafkas_gauge() -> None:
    numbers = {state.name: int(state) for state in BrokerState}
    assert numbers == {
        "NOT_RUNNING": 0,
        "STARTING": 1,
        "RECOVERY": 2,
        "RUNNING": 3,
        "PENDING_CONTROLLED_SHUTDOWN": 6,
        "SHUTTING_DOWN": 7,
    }
