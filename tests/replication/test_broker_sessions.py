"""The controller's sessions of brokers: contact times, next states, controlled shutdown, placement, activation."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.replication.broker_sessions import (
    CONTROLLED_SHUTDOWN,
    FENCED,
    NO_ACTIVE_BROKER,
    NO_OFFSET,
    SHUTDOWN_NOW,
    UNFENCED,
    BrokerControlState,
    BrokerSessions,
    RegisteredBroker,
    SessionKey,
    StaleSession,
)
from tidelog.replication.heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

TIMEOUT_MS = 10
EPOCH = 100


def broker_of(broker_id: int, *, is_fenced: bool = False, epoch: int = EPOCH, offset: int = EPOCH) -> RegisteredBroker:
    incarnation = uuid.UUID(int=broker_id)
    return RegisteredBroker(
        id=broker_id, epoch=epoch, registration_offset=offset, incarnation_id=incarnation, is_fenced=is_fenced
    )


def request_of(broker_id: int, **fields: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(broker_id=broker_id, **{"broker_epoch": EPOCH, "metadata_offset": EPOCH} | fields)


def key(broker_id: int, epoch: int = EPOCH) -> SessionKey:
    return SessionKey(broker_id, epoch)


def known_epoch(_broker_id: int) -> int | None:
    return EPOCH


class Cluster:
    """Sessions with their registrations. A broker's heartbeat needs only its id and offset."""

    def __init__(self) -> None:
        self.sessions = BrokerSessions(session_timeout_ms=TIMEOUT_MS)

    def register(self, broker_id: int, *, is_fenced: bool = False, offset: int | None = None) -> None:
        self.sessions.register(broker_id, is_fenced=is_fenced)
        if offset is not None:
            request = request_of(broker_id, metadata_offset=offset, wants_fence=is_fenced)
            self.sessions.heartbeat(request, broker_of(broker_id), leads_partitions=False, now_ms=0)

    def next_state(self, broker_id: int, *, leads: bool = False, **fields: Any) -> BrokerControlState:
        """Return the next state. The heartbeat itself counts, so use each cluster once a broker."""
        decision = self.sessions.heartbeat(
            request_of(broker_id, **fields), broker_of(broker_id), leads_partitions=leads, now_ms=0
        )
        return decision.next_state


class TestSessions:
    def test_a_session_is_valid_until_the_timeout_is_exceeded(self) -> None:
        sessions = BrokerSessions(session_timeout_ms=TIMEOUT_MS)
        assert not sessions.is_valid(key(0), 0)
        sessions.record_contact(key(0), 0)
        sessions.record_contact(key(1), 5)
        assert sessions.is_valid(key(0), 0)
        assert sessions.is_valid(key(0), TIMEOUT_MS)
        assert not sessions.is_valid(key(0), TIMEOUT_MS + 1)
        assert sessions.is_valid(key(1), 0)  # an earlier time than the contact
        assert sessions.is_valid(key(1), TIMEOUT_MS + 1)
        assert not sessions.is_valid(key(3), 0)

    def test_another_epoch_is_another_session(self) -> None:
        sessions = BrokerSessions(session_timeout_ms=TIMEOUT_MS)
        sessions.record_contact(key(0, 100), 0)
        assert not sessions.is_valid(key(0, 101), 0)

    def test_a_registration_begins_no_session(self) -> None:
        sessions = BrokerSessions(session_timeout_ms=TIMEOUT_MS)
        sessions.register(0, is_fenced=True)
        assert not sessions.is_valid(key(0), 0)

    def test_one_stale_session_at_a_time_and_the_oldest_first(self) -> None:
        sessions = BrokerSessions(session_timeout_ms=TIMEOUT_MS)
        assert sessions.take_stale(10**9, known_epoch) is None
        for broker, at_ms in ((2, 6), (0, 0), (1, 5)):
            sessions.register(broker, is_fenced=False)
            sessions.record_contact(key(broker), at_ms)
        assert sessions.take_stale(TIMEOUT_MS, known_epoch) is None
        found = [sessions.take_stale(100, known_epoch) for _ in range(4)]
        assert found == [StaleSession(key(broker), True) for broker in (0, 1, 2)] + [None]

    def test_a_contact_moves_a_session_behind_the_others(self) -> None:
        sessions = BrokerSessions(session_timeout_ms=TIMEOUT_MS)
        for broker, at_ms in ((0, 0), (1, 1), (2, 2), (0, 3)):
            sessions.record_contact(key(broker), at_ms)
        found = [sessions.take_stale(100, known_epoch) for _ in range(3)]
        assert [stale.key.broker_id for stale in found if stale] == [1, 2, 0]

    @pytest.mark.parametrize(("epoch", "is_current"), [(EPOCH, True), (EPOCH + 1, False), (None, False)])
    def test_only_the_session_of_the_registered_epoch_fences(self, epoch: int | None, is_current: bool) -> None:
        sessions = BrokerSessions(session_timeout_ms=TIMEOUT_MS)
        sessions.register(0, is_fenced=False)
        sessions.record_contact(key(0), 0)
        stale = sessions.take_stale(TIMEOUT_MS + 1, lambda _broker: epoch)
        assert stale == StaleSession(key(0), is_current)
        assert sessions.lowest_active_offset == (NO_ACTIVE_BROKER if epoch is None else NO_OFFSET)

    @pytest.mark.parametrize(("timeout_ms", "interval_ms"), [(9000, 1125), (8, 1), (1, 1)])
    def test_the_interval_of_checks(self, timeout_ms: int, interval_ms: int) -> None:
        assert BrokerSessions(session_timeout_ms=timeout_ms).check_interval_ms == interval_ms

    def test_activation_gives_unfenced_brokers_a_full_session(self) -> None:
        brokers = [broker_of(0), broker_of(1, is_fenced=True)]
        sessions = BrokerSessions.activate(brokers, session_timeout_ms=TIMEOUT_MS, now_ms=1000)
        assert sessions.is_valid(key(0), 1000 + TIMEOUT_MS)
        assert not sessions.is_valid(key(1), 1000)
        assert sessions.state_of(0) is UNFENCED
        assert sessions.state_of(1) is FENCED
        assert sessions.take_stale(1000 + TIMEOUT_MS, known_epoch) is None


class TestRegistration:
    def test_another_incarnation_waits_until_the_session_expires(self) -> None:
        sessions = BrokerSessions(session_timeout_ms=TIMEOUT_MS)
        broker, other = broker_of(0), uuid.UUID(int=99)
        sessions.record_contact(broker.key, 0)
        with pytest.raises(ApiError) as refused:
            sessions.require_free(broker, other, TIMEOUT_MS)
        assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION
        sessions.require_free(broker, other, TIMEOUT_MS + 1)
        sessions.require_free(broker, broker.incarnation_id, 0)
        sessions.require_free(None, other, 0)

    def test_a_new_incarnation_begins_fenced_and_without_an_offset(self) -> None:
        cluster = Cluster()
        cluster.register(0, offset=200)
        cluster.register(1, offset=300)
        cluster.sessions.begin_controlled_shutdown(0, 250)
        cluster.sessions.replace(0, is_fenced=False)
        assert cluster.sessions.state_of(0) is UNFENCED
        assert cluster.sessions.controlled_shutdown_offset(0) is None
        assert cluster.sessions.lowest_active_offset == -1

    def test_an_unfenced_broker_keeps_its_offset(self) -> None:
        cluster = Cluster()
        cluster.register(0, is_fenced=True, offset=200)
        cluster.sessions.register(0, is_fenced=False)
        assert cluster.sessions.lowest_active_offset == 200

    def test_a_fenced_broker_leaves_controlled_shutdown(self) -> None:
        cluster = Cluster()
        cluster.register(0, offset=200)
        cluster.sessions.begin_controlled_shutdown(0, 250)
        cluster.sessions.register(0, is_fenced=True)
        assert cluster.sessions.state_of(0) is FENCED
        assert cluster.next_state(0, wants_shutdown=True) is SHUTDOWN_NOW


class TestHeartbeats:
    @pytest.mark.parametrize(
        ("is_fenced", "heartbeat", "leads", "next_state"),
        [
            (True, {"wants_shutdown": True}, False, SHUTDOWN_NOW),
            (True, {"wants_shutdown": True, "wants_fence": True}, True, SHUTDOWN_NOW),
            (True, {"metadata_offset": EPOCH}, False, UNFENCED),
            (True, {"metadata_offset": EPOCH - 1}, False, FENCED),
            (True, {"wants_fence": True}, False, FENCED),
            (False, {"wants_fence": True, "wants_shutdown": True}, True, SHUTDOWN_NOW),
            (False, {"wants_fence": True}, True, FENCED),
            (False, {"wants_shutdown": True}, True, CONTROLLED_SHUTDOWN),
            (False, {"wants_shutdown": True}, False, SHUTDOWN_NOW),
            (False, {}, True, UNFENCED),
            (False, {"metadata_offset": EPOCH - 1}, False, UNFENCED),
        ],
    )
    def test_the_next_state(
        self, is_fenced: bool, heartbeat: dict[str, Any], leads: bool, next_state: BrokerControlState
    ) -> None:
        cluster = Cluster()
        cluster.register(0, is_fenced=is_fenced)
        decision = cluster.sessions.heartbeat(
            request_of(0, **heartbeat), broker_of(0, is_fenced=is_fenced), leads_partitions=leads, now_ms=0
        )
        assert decision.state is (FENCED if is_fenced else UNFENCED)
        assert decision.next_state is next_state
        assert decision.changes == (decision.state is not next_state)
        assert decision.response == BrokerHeartbeatResponse(
            is_caught_up=heartbeat.get("metadata_offset", EPOCH) >= EPOCH,
            is_fenced=next_state in (FENCED, SHUTDOWN_NOW),
            should_shut_down=next_state is SHUTDOWN_NOW,
        )

    @pytest.mark.parametrize(
        ("leads", "lowest_active", "next_state"),
        [
            (True, 99, CONTROLLED_SHUTDOWN),
            (True, 98, CONTROLLED_SHUTDOWN),
            (False, 98, CONTROLLED_SHUTDOWN),
            (False, 99, SHUTDOWN_NOW),
            (False, 100, SHUTDOWN_NOW),
            (False, None, SHUTDOWN_NOW),
        ],
    )
    def test_a_controlled_shutdown_waits_for_leaderships_and_for_the_slowest_active_broker(
        self, leads: bool, lowest_active: int | None, next_state: BrokerControlState
    ) -> None:
        cluster = Cluster()
        cluster.register(5, offset=99)
        cluster.sessions.begin_controlled_shutdown(5, 99)
        cluster.register(2, offset=100)
        cluster.register(3, is_fenced=True, offset=0)
        if lowest_active is None:
            cluster.sessions.fence(2)
        else:
            cluster.register(1, offset=lowest_active)
        assert cluster.sessions.lowest_active_offset == (NO_ACTIVE_BROKER if lowest_active is None else lowest_active)
        assert cluster.next_state(5, leads=leads, wants_shutdown=True) is next_state

    def test_fencing_the_slowest_broker_lets_the_other_one_stop(self) -> None:
        cluster = Cluster()
        cluster.register(1, offset=98)
        cluster.register(2, offset=100)
        cluster.register(5, offset=99)
        cluster.sessions.begin_controlled_shutdown(5, 99)
        assert cluster.next_state(5, wants_shutdown=True) is CONTROLLED_SHUTDOWN
        cluster.sessions.fence(1)
        assert cluster.sessions.lowest_active_offset == 100
        assert cluster.next_state(5, wants_shutdown=True) is SHUTDOWN_NOW

    def test_only_the_first_shutdown_offset_counts(self) -> None:
        cluster = Cluster()
        cluster.register(0)
        assert cluster.sessions.controlled_shutdown_offset(0) is None
        cluster.sessions.begin_controlled_shutdown(0, 98)
        cluster.sessions.begin_controlled_shutdown(0, 99)
        assert cluster.sessions.controlled_shutdown_offset(0) == 98
        assert cluster.sessions.state_of(0) is CONTROLLED_SHUTDOWN

    def test_a_fenced_broker_cannot_enter_controlled_shutdown(self) -> None:
        cluster = Cluster()
        cluster.register(4, is_fenced=True)
        with pytest.raises(RuntimeError, match="broker 4 is fenced"):
            cluster.sessions.begin_controlled_shutdown(4, 0)

    def test_a_later_registration_of_the_same_incarnation_must_be_applied_first(self) -> None:
        cluster = Cluster()
        cluster.register(0, is_fenced=True)
        amended = broker_of(0, is_fenced=True, offset=EPOCH + 5)
        decision = cluster.sessions.heartbeat(request_of(0), amended, leads_partitions=False, now_ms=0)
        assert decision.next_state is FENCED
        assert not decision.response.is_caught_up

    @pytest.mark.parametrize("registered", [None, broker_of(0, epoch=EPOCH + 1)])
    def test_a_stale_epoch_changes_no_state_but_counts_as_contact(self, registered: RegisteredBroker | None) -> None:
        cluster = Cluster()
        cluster.register(0, offset=50)
        with pytest.raises(ApiError) as refused:
            cluster.sessions.heartbeat(request_of(0, wants_fence=True), registered, leads_partitions=False, now_ms=7)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
        assert cluster.sessions.state_of(0) is UNFENCED
        assert cluster.sessions.lowest_active_offset == 50
        assert cluster.sessions.is_valid(key(0), 7 + TIMEOUT_MS)

    def test_a_broker_must_be_registered(self) -> None:
        with pytest.raises(RuntimeError, match="broker 3 is not registered"):
            Cluster().next_state(3)


class TestOffsets:
    def test_active_brokers_by_their_offset(self) -> None:
        cluster = Cluster()
        for broker, offset in ((1, 800), (2, 400), (3, 100)):
            cluster.register(broker, offset=offset)
        lowest = []
        for broker in (3, 2, 1):
            lowest.append(cluster.sessions.lowest_active_offset)
            cluster.sessions.fence(broker)
        assert lowest == [100, 400, 800]
        assert cluster.sessions.lowest_active_offset == NO_ACTIVE_BROKER == 9_223_372_036_854_775_807
