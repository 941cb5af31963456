"""Connections that a listener accepts, delays or closes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from dataclasses import replace

import pytest

from server.network.listener_harness import echo, listening, reply
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import ConfigError
from tidelog.protocol.frames import length_prefix
from tidelog.server.network.connection import Reply
from tidelog.server.network.endpoint import ListenerEndpoint
from tidelog.server.network.limits import NetworkLimits, parse_overrides

IDLE_MS = 10_000


def test_beyond_the_most_connections_a_client_waits_for_another_to_leave() -> None:
    with listening(echo, max_connections=2) as harness, harness.client() as first, harness.client() as second:
        assert second.exchange(b"2") == b"2"
        with harness.client() as third:
            third.send_frames(b"3")
            assert first.exchange(b"1") == b"1"
            assert harness.call(lambda: harness.listener.accepted) == 2
            second.close()
            assert third.receive_frame() == b"3"


def test_a_greater_number_lets_in_who_waits() -> None:
    with listening(echo, max_connections=1) as harness, harness.client() as first, harness.client() as second:
        second.send_frames(b"2")
        assert first.exchange(b"1") == b"1"
        harness.call(lambda: harness.counts.change(replace(harness.limits, max_connections=2)))
        assert second.receive_frame() == b"2"


def test_an_address_has_only_so_many_connections() -> None:
    with listening(echo, max_connections_per_ip=1) as harness, harness.client() as first:
        assert first.exchange(b"1") == b"1"
        with harness.client() as second:
            assert second.is_closed_by_broker()
        assert harness.call(lambda: (harness.listener.accepted, harness.listener.rejected)) == (2, 1)
        first.close()
        harness.wait_for(lambda: not harness.listener.connections)
        with harness.client() as third:
            assert third.exchange(b"3") == b"3"


@pytest.mark.parametrize(("general", "override"), [(0, 1), (1, 0)])
def test_an_exception_for_an_address_goes_before_the_general_number(general: int, override: int) -> None:
    overrides = {"127.0.0.1": override}
    with (
        listening(echo, max_connections_per_ip=general, max_connections_per_ip_overrides=overrides) as harness,
        harness.client() as client,
    ):
        if override:
            assert client.exchange(b"?") == b"?"
        else:
            assert client.is_closed_by_broker()


def test_exceptions_are_pairs_of_hosts_and_numbers() -> None:
    assert parse_overrides("") == {}
    assert parse_overrides("127.0.0.1:5, [::1]:6") == {"127.0.0.1": 5, "::1": 6}
    for text in ("127.0.0.1", "127.0.0.1:x", "127.0.0.1:-1", ":5", "a host:5", "127.0.0.1:1_0"):
        with pytest.raises(ConfigError, match=r"is not host:count"):
            parse_overrides(text)


def test_hosts_are_looked_up_when_they_are_to_count() -> None:
    named = replace(NetworkLimits.of(BrokerConfig()), max_connections_per_ip_overrides={"localhost": 7})
    assert named.with_resolved_hosts().max_connections_per_ip_overrides["127.0.0.1"] == 7
    nowhere = replace(named, max_connections_per_ip_overrides={"nowhere.invalid": 7})
    with pytest.raises(ConfigError, match=r"'nowhere.invalid' has no address: "):
        nowhere.with_resolved_hosts()


def test_a_connection_that_is_idle_too_long_is_closed_and_one_that_waits_for_its_answer_is_not() -> None:
    waiting: list[asyncio.Future[Reply]] = []

    def answer(frame: bytes) -> Reply | Awaitable[Reply]:
        if frame == b"now":
            return reply(frame)
        waiting.append(harness.loop.create_future())
        return waiting[-1]

    with (
        listening(answer, connections_max_idle_ms=IDLE_MS) as harness,
        harness.client() as idle,
        harness.client() as working,
        harness.client() as active,
    ):
        assert idle.exchange(b"now") == b"now"
        working.send_frames(b"later")
        harness.wait_for_requests(2)
        for _ in range(4):
            assert active.exchange(b"now") == b"now"
            harness.call(lambda: harness.clock.sleep_ms(IDLE_MS // 2))
        assert idle.is_closed_by_broker()
        assert len(harness.listener.connections) == 2
        harness.call(lambda: waiting[0].set_result(reply(b"done")))
        assert working.receive_frame() == b"done"
        harness.call(lambda: harness.clock.sleep_ms(2 * IDLE_MS))
        assert active.is_closed_by_broker()
        assert working.is_closed_by_broker()


def test_a_request_that_comes_byte_by_byte_does_not_keep_its_connection() -> None:
    with (
        listening(echo, connections_max_idle_ms=IDLE_MS) as harness,
        harness.client() as slow,
        harness.client() as active,
    ):
        slow.socket.sendall(length_prefix([b"x" * 100]))
        harness.wait_for(lambda: harness.listener.request_bytes > 0)
        for _ in range(4):
            slow.socket.sendall(b"x")
            assert active.exchange(b"now") == b"now"
            harness.call(lambda: harness.clock.sleep_ms(IDLE_MS // 3))
        assert slow.is_closed_by_broker()
        assert active.exchange(b"now") == b"now"


def test_where_requests_hold_too_much_memory_no_new_one_is_read() -> None:
    waiting: list[asyncio.Future[Reply]] = []

    def answer(frame: bytes) -> Reply | Awaitable[Reply]:
        if len(frame) < 100:
            return reply(frame)
        waiting.append(harness.loop.create_future())
        return waiting[-1]

    with (
        listening(answer, queued_max_request_bytes=1000) as harness,
        harness.client() as large,
        harness.client() as first,
        harness.client() as second,
    ):
        large.send_frames(b"x" * 1000)
        harness.wait_for_requests(1)
        first.send_frames(b"first")
        second.send_frames(b"second")
        harness.wait_for(lambda: len(harness.listener._waiting_for_memory) == 2)
        harness.call(lambda: waiting[0].set_result(reply(b"done")))
        assert first.receive_frame() == b"first"
        assert second.receive_frame() == b"second"
        assert large.receive_frame() == b"done"
        assert harness.call(lambda: harness.listener.request_bytes) == 0


def test_a_name_is_listened_to_at_all_its_addresses() -> None:
    with listening(echo, host="localhost") as harness:
        for info in socket.getaddrinfo("localhost", harness.listener.port, type=socket.SOCK_STREAM):
            socket.create_connection((str(info[4][0]), harness.listener.port), timeout=60).close()


def test_no_host_is_every_address() -> None:
    with listening(echo, host="") as harness, harness.client() as client:
        assert client.exchange(b"?") == b"?"
        assert harness.call(lambda: [one.client.host for one in harness.listener.connections]) == ["127.0.0.1"]


@pytest.mark.parametrize("host", ["127.0.0.1", "192.0.2.1"])
def test_an_address_that_cannot_be_had_is_told(host: str) -> None:
    with listening(echo) as harness:
        taken = harness.listener.port
        harness.listener.endpoint = ListenerEndpoint(name="PLAINTEXT", host=host, port=taken)
        with pytest.raises(ConfigError, match=f"cannot bind PLAINTEXT://{host}:{taken}"):
            harness.call(harness.listener.open)


def test_a_name_without_an_address_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with listening(echo) as harness:
        monkeypatch.setattr(socket, "getaddrinfo", unknown)
        harness.listener.endpoint = ListenerEndpoint(name="PLAINTEXT", host="nowhere", port=0)
        with pytest.raises(ConfigError, match="cannot bind PLAINTEXT://nowhere:0: Name or service not known"):
            harness.call(harness.listener.open)
