"""Limits on the rate of new connections: per broker, per listener and per address."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from server.harness import running_broker
from server.network.listener_harness import ListenerHarness, echo, listening
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.protocol.api_key import ApiKey
from tidelog.server.network.connection_rates import ConnectionRates, RateLimits
from tidelog.server.network.limits import ConnectionCounts, NetworkLimits
from tidelog.server.quotas.address_quotas import address_quotas

WINDOW_MS = 1000
LISTENER, OTHER, ADDRESS = "PLAINTEXT", "OTHER", "127.0.0.1"


def until_one_waits(come: Callable[[], int]) -> tuple[int, int]:
    """Return the number of connections without a wait, and the next one's wait in ms."""
    for number in range(1000):
        if wait_ms := come():
            return number, wait_ms
    pytest.fail("nobody waits")


@pytest.mark.parametrize(("limit", "burst", "wait_ms"), [(1, 10, 1000), (10, 100, 100), (50, 500, 20)])
def test_who_comes_after_a_burst_waits_as_long_as_the_rate_says_and_a_window_at_most(
    limit: int, burst: int, wait_ms: int
) -> None:
    rates = ConnectionRates(RateLimits(of_broker=limit))
    assert until_one_waits(lambda: rates.count(LISTENER, 0)) == (burst, wait_ms)
    assert rates.count(LISTENER, 20_000) == 0


def test_none_at_all() -> None:
    rates = ConnectionRates(RateLimits(of_listeners={LISTENER: 0}))
    assert rates.count(LISTENER, 0) == WINDOW_MS
    assert rates.count(OTHER, 0) == 0


def test_listeners_share_the_brokers_limit_but_for_the_one_between_brokers() -> None:
    rates = ConnectionRates(RateLimits(of_broker=1))
    assert until_one_waits(lambda: rates.count(LISTENER, 0)) == (10, WINDOW_MS)
    assert rates.count(OTHER, 0) == WINDOW_MS
    assert rates.count("BETWEEN", 0, is_protected=True) == 0


def test_an_address_that_came_too_fast_counts_for_nothing() -> None:
    rates = ConnectionRates(RateLimits(of_broker=2))
    rates.change_quotas({ADDRESS: 1.0})
    for _ in range(100):
        waits = rates.count(LISTENER, 0), rates.count_address(LISTENER, ADDRESS, 0)
        assert waits in {(0, 0), (0, WINDOW_MS)}
    assert rates.count_address(LISTENER, "127.0.0.2", 0) == 0


def test_addresses_without_one_of_their_own_have_the_general_quota_each() -> None:
    rates = ConnectionRates(RateLimits())
    rates.change_quotas({None: 1.0, ADDRESS: 2.0})
    for address, burst in (("::1", 10), ("127.0.0.2", 10), (ADDRESS, 20)):
        assert until_one_waits(partial(rates.count_address, LISTENER, address, 0))[0] == burst
    rates.change_quotas({})
    assert rates.count_address(LISTENER, "::1", 0) == 0


def test_addresses_that_came_long_ago_are_forgotten() -> None:
    rates = ConnectionRates(RateLimits())
    rates.change_quotas({None: 1.0})
    for number in range(1000):
        rates.count_address(LISTENER, str(number), 0)
    rates.count_address(LISTENER, "new", 60_000)
    assert len(rates._of_addresses) == 1


def test_quotas_of_addresses_are_found_among_others() -> None:
    limits = {"connection_creation_rate": 5.0}
    quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = {
        (("ip", None),): limits,
        (("ip", "0:0:0:0:0:0:0:1"),): limits,
        (("ip", "::ffff:10.0.0.1"),): limits,
        (("user", "ip"),): {"request_percentage": 1.0},
    }
    assert address_quotas(quotas) == {None: 5.0, "::1": 5.0, "10.0.0.1": 5.0}
    assert address_quotas({(("ip", "localhost"),): limits})["127.0.0.1"] == 5.0


def test_a_name_without_an_address_is_said(caplog: pytest.LogCaptureFixture) -> None:
    assert address_quotas({(("ip", "no\nhost"),): {"connection_creation_rate": 5.0}}) == {}
    assert r"'no\nhost' has no effect" in caplog.text


# --- settings ---


def test_limits_of_listeners_are_read() -> None:
    texts = {
        "max.connection.creation.rate": "7",
        "listener.name.plaintext.max.connection.creation.rate": "5",
        "listener.name.plaintext.max.connections": "6",
        "quota.window.num": "3",
        "quota.window.size.seconds": "2",
    }
    limits = NetworkLimits.of(BrokerConfig.load(overrides=texts))
    assert limits.rates == RateLimits(of_broker=7, of_listeners={LISTENER: 5}, windows=3, window_ms=2000)
    assert limits.max_connections_of_listeners == {LISTENER: 6}
    with pytest.raises(ConfigError, match="Invalid value many for configuration"):
        BrokerConfig.load(overrides={"listener.name.plaintext.max.connections": "many"})


def test_the_listener_between_brokers_is_full_by_its_own_limit_only() -> None:
    limits = replace(NetworkLimits.of(BrokerConfig()), max_connections=1, max_connections_of_listeners={LISTENER: 2})
    counts = ConnectionCounts(limits)
    counts.add_listener(LISTENER)
    assert not counts.is_full(LISTENER)
    assert counts.add(LISTENER, ADDRESS)
    assert counts.is_full(LISTENER)
    counts.add_listener(OTHER)
    assert (counts.is_full(LISTENER), counts.is_full(OTHER)) == (False, True)
    assert counts.add(LISTENER, ADDRESS)
    assert counts.is_full(LISTENER)


# --- connections ---


def tire(harness: ListenerHarness) -> None:
    """Use up the burst, so that the next connection exceeds the rate. None of these connections stays open."""
    for _ in range(10):
        with harness.client() as client:
            assert client.exchange(b"?") == b"?"
    harness.wait_for(lambda: not harness.listener.connections)


def test_one_too_many_waits_and_those_behind_it() -> None:
    with listening(echo, rates=RateLimits(of_broker=1)) as harness:
        tire(harness)
        with harness.client() as first, harness.client() as second:
            first.send_frames(b"1")
            second.send_frames(b"2")
            harness.wait_for(lambda: len(harness.listener._unserved) == 1)
            assert harness.call(lambda: harness.listener.accepted) == 10
            harness.call(lambda: harness.clock.sleep_ms(999))
            assert harness.begun.count(b"1") == 0
            harness.call(lambda: harness.clock.sleep_ms(1))
            assert first.receive_frame() == b"1"
            assert b"2" not in harness.begun
            harness.call(lambda: harness.clock.sleep_ms(20_000))
            assert second.receive_frame() == b"2"
        assert harness.listener.waits.longest_ms == 1000


def test_one_that_waited_waits_on_where_there_is_no_room() -> None:
    with listening(echo, rates=RateLimits(of_broker=1)) as harness:
        tire(harness)
        with harness.client() as waiting:
            waiting.send_frames(b"1")
            harness.wait_for(lambda: len(harness.listener._unserved) == 1)
            harness.call(lambda: harness.counts.change(replace(harness.limits, max_connections=0)))
            harness.call(lambda: harness.clock.sleep_ms(1000))
            assert harness.call(lambda: harness.listener.accepted) == 10
            harness.call(lambda: harness.counts.change(harness.limits))
            assert waiting.receive_frame() == b"1"


def test_an_address_is_kept_unserved_and_others_are_not() -> None:
    with listening(echo) as harness:
        harness.call(lambda: harness.counts.rates.change_quotas({ADDRESS: 1.0}))
        tire(harness)
        with harness.client() as client:
            client.send_frames(b"1")
            harness.wait_for(lambda: harness.listener.rejected == 1)
            harness.call(lambda: harness.counts.rates.change_quotas({}))
            with harness.client() as other:
                assert other.exchange(b"2") == b"2"
            harness.call(lambda: harness.clock.sleep_ms(1000))
            assert client.is_closed_by_broker()
        assert b"1" not in harness.begun
        assert harness.listener.address_waits.mean_ms == 1000
        assert harness.call(lambda: harness.counts.total) <= 1


def test_a_quota_that_is_no_number_keeps_nobody_out() -> None:
    with listening(echo) as harness:
        harness.call(lambda: harness.counts.rates.change_quotas({ADDRESS: math.nan}))
        for _ in range(3):
            with harness.client() as client:
                assert client.exchange(b"1") == b"1"


def test_a_listener_that_closes_leaves_nobody_waiting() -> None:
    with listening(echo, rates=RateLimits(of_broker=1)) as harness:
        tire(harness)
        with harness.client() as client:
            client.send_frames(b"1")
            harness.wait_for(lambda: len(harness.listener._unserved) == 1)
            harness.call(harness.listener.close)
            assert client.is_closed_by_broker()
            harness.call(lambda: harness.clock.sleep_ms(1000))
            assert harness.begun.count(b"1") == 0


def test_a_quota_of_an_address_that_is_set_at_run_time_counts(tmp_path: Path) -> None:
    with running_broker(tmp_path) as running, running.client() as admin:
        operation = {"key": "connection_creation_rate", "value": 1.0, "remove": False}
        entry = {"entity": [{"entity_type": "ip", "entity_name": ADDRESS}], "ops": [operation]}
        assert admin.call(ApiKey.ALTER_CLIENT_QUOTAS, entries=[entry], validate_only=False).entries[0].error_code == 0
        assert not running.broker.quotas.is_on, "it is none of a client's"
        clients = [running.client() for _ in range(30)]
        assert clients[-1].is_closed_by_broker()
        assert running.broker.listeners[0].rejected > 0
        for client in clients:
            client.close()
