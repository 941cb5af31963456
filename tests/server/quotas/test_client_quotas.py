"""Clients that exceed their quota are throttled."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_maker import batch
from server.data.data_home import WITH_NAMES, DataHome
from server.harness import WireClient, running_broker
from server.network.listener_harness import ListenerHarness
from tidelog.config.broker_config import BrokerConfig
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.frames import Frame
from tidelog.server.metadata.image import QuotaEntity
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.network.connection import Reply
from tidelog.server.network.request_context import RequestContext
from tidelog.server.quotas.client_quotas import ClientQuotas
from tidelog.server.quotas.quota_metrics import MAX_REPORTED, quota_samples
from tidelog.server.security.principal import Principal
from tidelog.testing.manual_clock import ManualClock
from tidelog.testing.manual_timers import ManualTimers

OF_C: QuotaEntity = (("client-id", "c"),)
OF_ANY: QuotaEntity = (("client-id", None),)


THROTTLED = ErrorCode.THROTTLING_QUOTA_EXCEEDED


class QuotaHarness:
    """Quotas with a manual clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(1_000_000)
        self.quotas = ClientQuotas(BrokerConfig.load(), ManualTimers(self.clock))

    def context(self, client_id: str | None = "c", *, user: str = "ANONYMOUS") -> RequestContext:
        client = ClientConnection(
            host="127.0.0.1", port=1, listener="PLAINTEXT", connection_id="1", principal=Principal("User", user)
        )
        return RequestContext(ApiKey.PRODUCE, 13, 1, client_id, client, 0)


@pytest.fixture
def harness() -> QuotaHarness:
    return QuotaHarness()


def test_off_while_nobody_has_one(harness: QuotaHarness) -> None:
    before = harness.quotas.is_on
    assert not before
    assert harness.quotas.throttle(harness.context(), produced=10**9) == 0
    harness.quotas.change({OF_C: {"producer_byte_rate": 1.0}})
    meanwhile = harness.quotas.is_on
    assert meanwhile
    harness.quotas.change({})
    assert not harness.quotas.is_on


def test_more_than_the_quota(harness: QuotaHarness) -> None:
    harness.quotas.change({OF_C: {"producer_byte_rate": 100.0}})
    context = harness.context()
    assert harness.quotas.throttle(context, produced=1000) == 0
    assert harness.quotas.throttle(context, produced=500) == 5000
    assert context.client.throttle_ms == 5000
    harness.clock.sleep_ms(11_000)
    assert harness.quotas.throttle(harness.context(), produced=1) == 0


def test_produced_and_fetched_are_counted_apart(harness: QuotaHarness) -> None:
    harness.quotas.change({OF_C: {"producer_byte_rate": 100.0, "consumer_byte_rate": 10.0}})
    assert harness.quotas.throttle(harness.context(), produced=1000) == 0
    assert harness.quotas.throttle(harness.context(), fetched=200) == 10_000


@pytest.mark.parametrize("limit", [math.nan, math.inf, 1e308, 5e-324])
def test_whatever_number_a_quota_is_clients_are_answered(harness: QuotaHarness, limit: float) -> None:
    """The controller refuses NaN, but a directory may contain one from another writer."""
    keys = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
    harness.quotas.change({OF_C: dict.fromkeys(keys, limit)})
    longest_ms = 2**31 - 1 if limit < 1 else 0
    for _ in range(2):
        harness.quotas.count_time(harness.context(), 100)
        assert harness.quotas.throttle(harness.context(), produced=1000, fetched=1000) == longest_ms
        assert harness.quotas.max_fetch_bytes(harness.context()) == (0 if limit < 1 else None)
        assert harness.quotas.may_change(harness.context(), 1000, is_strict=False)


def test_clients_are_counted_apart_by_a_default(harness: QuotaHarness) -> None:
    harness.quotas.change({OF_ANY: {"producer_byte_rate": 100.0}})
    assert harness.quotas.throttle(harness.context("a"), produced=2000) == 10_000
    assert harness.quotas.throttle(harness.context("b"), produced=1000) == 0
    assert harness.quotas.throttle(harness.context(None), produced=1000) == 0


def test_all_clients_of_a_user_share_its_quota(harness: QuotaHarness) -> None:
    harness.quotas.change({(("user", "ANONYMOUS"),): {"producer_byte_rate": 100.0}})
    assert harness.quotas.throttle(harness.context("a"), produced=1000) == 0
    assert harness.quotas.throttle(harness.context("b"), produced=1000) == 10_000


def test_time_is_counted_for_the_next_answer_and_costs_a_window_at_most(harness: QuotaHarness) -> None:
    harness.quotas.change({OF_C: {"request_percentage": 1.0}})
    harness.quotas.count_time(harness.context(), 100)
    assert harness.quotas.throttle(harness.context()) == 0
    harness.quotas.count_time(harness.context(), 10)
    assert harness.quotas.throttle(harness.context()) == 1000
    assert harness.quotas.throttle(harness.context("d")) == 0


def test_changes_are_refused_when_something_is_owed(harness: QuotaHarness) -> None:
    harness.quotas.change({OF_C: {"controller_mutation_rate": 2.0}})
    assert harness.quotas.limits_changes(harness.context())
    assert not harness.quotas.limits_changes(harness.context("d"))
    assert harness.quotas.may_change(harness.context(), 24, is_strict=True)  # the burst of 11 s is 22, so 2 are owed
    context = harness.context()
    assert not harness.quotas.may_change(context, 1, is_strict=True)
    assert context.client.throttle_ms == 1000
    harness.clock.sleep_ms(1000)
    assert harness.quotas.may_change(harness.context(), 1, is_strict=True)


def test_old_clients_are_held_back_instead(harness: QuotaHarness) -> None:
    harness.quotas.change({OF_C: {"controller_mutation_rate": 2.0}})
    context = harness.context()
    assert harness.quotas.may_change(context, 24, is_strict=False)
    assert harness.quotas.may_change(context, 2, is_strict=False)
    assert context.client.throttle_ms == 2000


def test_the_silent_are_forgotten(harness: QuotaHarness) -> None:
    harness.quotas.change({OF_ANY: {"producer_byte_rate": 100.0}})
    for number in range(1000):
        harness.quotas.throttle(harness.context(str(number)), produced=1)
    harness.clock.sleep_ms(60_000)
    harness.quotas.throttle(harness.context("new"), produced=1)
    assert len(harness.quotas.usages) == 1


def test_new_names_are_no_reason_to_look_at_all_others_each_time(harness: QuotaHarness) -> None:
    harness.quotas.change({OF_ANY: {"producer_byte_rate": 100.0}})
    harness.clock.sleep_ms(60_000)
    for number in range(1100):
        harness.quotas.throttle(harness.context(str(number)), produced=1)
    harness.clock.sleep_ms(10_999)
    harness.quotas.throttle(harness.context("last"), produced=1)
    assert len(harness.quotas.usages) == 1101, "it was looked a moment ago"
    harness.clock.sleep_ms(2)
    harness.quotas.throttle(harness.context("new"), produced=1)
    assert len(harness.quotas.usages) == 2


def test_who_owes_partitions_is_not_forgotten(harness: QuotaHarness) -> None:
    harness.quotas.change({OF_ANY: {"controller_mutation_rate": 1.0, "producer_byte_rate": 100.0}})
    assert harness.quotas.may_change(harness.context("owing"), 1000, is_strict=True)
    for number in range(1000):
        assert harness.quotas.may_change(harness.context(str(number)), 1, is_strict=True)
    harness.clock.sleep_ms(100_000)
    assert harness.quotas.may_change(harness.context("new"), 1, is_strict=True)
    assert len(harness.quotas.usages) == 2
    assert not harness.quotas.may_change(harness.context("owing"), 1, is_strict=True)


@pytest.mark.parametrize("name", ["CN=broker, O=Acme*", "ann+bob@x", "Zoë", "a/b\x00~"])
def test_users_of_any_name(harness: QuotaHarness, name: str) -> None:
    """Records contain the name with all its characters. Metrics contain Kafka's sanitized form."""
    harness.quotas.change(
        {(("user", name),): {"producer_byte_rate": 100.0}, (("user", None),): {"request_percentage": 1}}
    )
    context = harness.context(user=name)
    assert harness.quotas.throttle(context, produced=2000) == 10_000
    assert harness.quotas.throttle(harness.context(user="other"), produced=2000) == 0
    told = {str(sample.name) for sample in quota_samples(harness.quotas, harness.clock.monotonic_ms())}
    assert f"kafka.server:type=Produce,name=byte-rate,user={SANITIZED[name]}" in told


SANITIZED = {
    "CN=broker, O=Acme*": "CN%3Dbroker%2C%20O%3DAcme%2A",
    "ann+bob@x": "ann%2Bbob%40x",
    "Zoë": "Zo%C3%AB",
    "a/b\x00~": "a%2Fb%00%7E",
}
"""The result of ``Sanitizer.sanitize`` in Kafka 4.1 for each name."""


def test_what_clients_had_and_waited_is_reported(harness: QuotaHarness) -> None:
    harness.quotas.change(
        {OF_C: {"producer_byte_rate": 100.0, "consumer_byte_rate": 100.0, "controller_mutation_rate": 1.0}}
    )
    harness.quotas.throttle(harness.context(), produced=2000)
    harness.quotas.throttle(harness.context(), fetched=500)
    harness.quotas.may_change(harness.context(), 13, is_strict=True)
    samples = quota_samples(harness.quotas, harness.clock.monotonic_ms())
    told = {f"{sample.name.type} {sample.name.name}": sample.values["Value"] for sample in samples}
    assert told["Produce byte-rate"] == 200
    assert told["Produce throttle-time"] == 10_000
    assert told["Fetch byte-rate"] == 50
    assert math.isnan(told["Fetch throttle-time"])
    assert told["ControllerMutation tokens"] == -2


def test_clients_that_call_themselves_many_names_do_not_fill_the_report(harness: QuotaHarness) -> None:
    harness.quotas.change({OF_ANY: {"producer_byte_rate": 100.0}})
    for number in range(MAX_REPORTED + 10):
        harness.quotas.throttle(harness.context(str(number)), produced=1)
    assert len(list(quota_samples(harness.quotas, 0))) == 2 * MAX_REPORTED


def test_no_more_is_fetched_at_once_than_the_windows_allow(harness: QuotaHarness) -> None:
    assert harness.quotas.max_fetch_bytes(harness.context()) is None
    harness.quotas.change({OF_C: {"consumer_byte_rate": 100.0}})
    assert harness.quotas.max_fetch_bytes(harness.context()) == 1000
    assert harness.quotas.max_fetch_bytes(harness.context("d")) is None


# --- on the wire ---


class HoldingBack(ListenerHarness):
    """Each response to ``hold`` throttles its connection for half a second."""

    def begin(self, frame: Frame, client: ClientConnection) -> Reply:
        if bytes(frame) == b"hold":
            client.throttle_ms = 500
        reply = super().begin(frame, client)
        assert reply is None or isinstance(reply, list)
        return reply


@pytest.fixture
def holding_back() -> Iterator[HoldingBack]:
    harness = HoldingBack(lambda frame: [len(frame).to_bytes(4, "big"), frame])
    try:
        yield harness
    finally:
        harness.close()


def test_the_next_request_waits(holding_back: HoldingBack) -> None:
    with holding_back.client() as client, holding_back.client() as other:
        client.send_frames(b"hold")
        client.send_frames(b"next")
        assert client.receive_frame() == b"hold"
        other.send_frames(b"other")
        assert other.receive_frame() == b"other"
        assert b"next" not in holding_back.begun
        holding_back.call(lambda: holding_back.clock.sleep_ms(499))
        assert b"next" not in holding_back.begun
        holding_back.call(lambda: holding_back.clock.sleep_ms(1))
        assert client.receive_frame() == b"next"


def test_a_connection_that_is_held_back_may_be_closed(holding_back: HoldingBack) -> None:
    with holding_back.client() as client:
        client.send_frames(b"hold")
        client.receive_frame()
        holding_back.call(holding_back.listener.close)
        holding_back.call(lambda: holding_back.clock.sleep_ms(1000))
        assert client.is_closed_by_broker()


def set_quota(client: WireClient, key: str, value: float | None) -> None:
    entity = [{"entity_type": "client-id", "entity_name": "test"}]
    operation = {"key": key, "value": value or 0.0, "remove": value is None}
    entry = {"entity": entity, "ops": [operation]}
    answer = client.call(ApiKey.ALTER_CLIENT_QUOTAS, entries=[entry], validate_only=False)
    assert answer.entries[0].error_code == 0, answer


def test_produce_and_fetch_say_for_how_long(tmp_path: Path) -> None:
    with running_broker(tmp_path) as running, running.client(client_id="admin") as admin:
        with running.client() as client:
            data = DataHome(running, client)
            data.create("t")
            set_quota(admin, "producer_byte_rate", 1.0)
            sent = data.send_produce(batch(0, [b"a", b"b"]))
            assert client.receive(ApiKey.PRODUCE, WITH_NAMES, sent).throttle_time > 1000
        set_quota(admin, "producer_byte_rate", None)
        set_quota(admin, "consumer_byte_rate", 1.0)
        with running.client() as client:
            data = DataHome(running, client)
            sent = data.send_produce(batch(0, [b"a", b"b"]))
            assert client.receive(ApiKey.PRODUCE, WITH_NAMES, sent).throttle_time == 0
            answer = data.fetch_many({("t", 0): 0})
            assert answer.throttle_time > 1000
            assert answer.responses[0].partitions[0].records


def test_a_fetch_gets_no_more_than_the_windows_allow(tmp_path: Path) -> None:
    with running_broker(tmp_path, log_retention_ms="-1") as running, running.client(client_id="admin") as admin:
        set_quota(admin, "consumer_byte_rate", 1000.0)
        with running.client() as client:
            data = DataHome(running, client)
            data.create("t")
            for offset in range(4):
                data.produce(batch(offset, [b"x" * 6000]))
            answer = data.fetch_many({("t", 0): 0})
            assert len(answer.responses[0].partitions[0].records) < 10_000
            assert answer.throttle_time == 0


def test_the_time_of_requests_is_said_with_any_answer(tmp_path: Path) -> None:
    """A response without a field for the throttle time is sent too."""
    with running_broker(tmp_path) as running, running.client(client_id="admin") as admin:
        set_quota(admin, "request_percentage", 0.001)
        context = QuotaHarness().context("test")
        running.call(lambda: running.broker.quotas.count_time(context, 1000))
        with running.client() as client:
            assert client.call(ApiKey.METADATA, topics=[]).throttle_time == 1000
        with running.client() as client:
            assert client.call(ApiKey.METADATA, 0, topics=[]).throttle_time == 0
        with running.client() as client:
            assert client.call(ApiKey.DESCRIBE_QUORUM, topics=[]).error_code == 0


def test_a_request_of_less_than_a_millisecond_costs_its_time(tmp_path: Path) -> None:
    with running_broker(tmp_path) as running, running.client(client_id="admin") as admin:
        for _ in range(10):
            admin.call(ApiKey.METADATA, topics=[])  # the first ones import and compile
        set_quota(admin, "request_percentage", 0.0001)
        with running.client() as client:
            assert client.call(ApiKey.METADATA, topics=[]).throttle_time == 0
            assert client.call(ApiKey.METADATA, topics=[]).throttle_time == 1000


def test_topics_that_are_too_many(tmp_path: Path) -> None:
    """A request may exceed the quota once. A client over its quota can create and delete nothing."""
    quota = ("controller_mutation_rate", 0.01)
    with running_broker(tmp_path) as running, running.client(client_id="admin") as admin:
        set_quota(admin, *quota)
        with running.client() as client:
            topics = [{"name": f"t{number}", "num_partitions": 12, "replication_factor": 1} for number in range(2)]
            answer = client.call(ApiKey.CREATE_TOPICS, topics=topics)
        assert {topic.name: topic.error_code for topic in answer.topics} == {"t0": 0, "t1": THROTTLED}
        assert answer.throttle_time > 0
        with running.client() as client:
            answer = client.call(ApiKey.CREATE_PARTITIONS, topics=[{"name": "t0", "count": 13, "assignments": None}])
        assert answer.results[0].error_code == THROTTLED
        with running.client() as client:
            answer = client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t0"}, {"name": "none.such"}])
        assert {topic.name: topic.error_code for topic in answer.responses} == {"t0": THROTTLED, "none.such": 3}
        set_quota(admin, quota[0], None)
        with running.client() as client:
            answer = client.call(ApiKey.DELETE_TOPICS, topics=[{"name": "t0"}])
        assert answer.responses[0].error_code == 0
