"""Settings that are changed over the wire take effect in the running broker."""

from __future__ import annotations

import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from server.harness import BrokerHome, WireClient, running_broker
from tidelog.config.broker_config import BrokerConfig
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.dynamic_settings import with_allowed

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
KEY = "log.retention.bytes"


def alter(
    client: WireClient,
    kind: int,
    name: str,
    key: str,
    value: str | None,
    code: ErrorCode = ErrorCode.NONE,
    *,
    validate_only: bool = False,
) -> None:
    change = {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
    resource = {"resource_type": kind, "resource_name": name, "configs": [change]}
    answer = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=[resource], validate_only=validate_only)
    assert [response.error_code for response in answer.responses] == [code], answer


def create(client: WireClient, name: str, **configs: str) -> None:
    settings = [{"name": key.replace("_", "."), "value": value} for key, value in configs.items()]
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1, "configs": settings}
    assert client.call(ApiKey.CREATE_TOPICS, topics=[topic], timeout=60_000).topics[0].error_code == ErrorCode.NONE


def in_use(home: BrokerHome, key: str = KEY) -> Any:
    return home.call(lambda: home.broker.config[key])


def of_topic(home: BrokerHome, topic: str) -> Any:
    return home.call(lambda: home.broker.logs.config_of(topic).retention_bytes)


def test_this_broker_goes_before_all_brokers(home: BrokerHome, client: WireClient) -> None:
    alter(client, BROKER, "", KEY, "100")
    assert in_use(home) == 100
    alter(client, BROKER, "1", KEY, "200")
    assert (in_use(home), of_topic(home, "any")) == (200, 200)
    alter(client, BROKER, "", KEY, "300")
    assert in_use(home) == 200
    alter(client, BROKER, "1", KEY, None)
    assert (in_use(home), of_topic(home, "any")) == (300, 300)
    alter(client, BROKER, "", KEY, None)
    assert in_use(home) == -1


def test_exceptions_for_addresses_have_to_be_pairs(home: BrokerHome, client: WireClient) -> None:
    key = "max.connections.per.ip.overrides"
    alter(client, BROKER, "", key, "127.0.0.1", ErrorCode.INVALID_REQUEST)
    assert in_use(home, key) == ""
    alter(client, BROKER, "", key, "127.0.0.1:5")
    assert home.call(lambda: home.broker.connection_counts.limit_of("127.0.0.1")) == 5


def test_hosts_are_looked_up_beside_the_loop_and_only_when_their_limits_are_to_count(
    home: BrokerHome, client: WireClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A client without permission to alter settings can have them validated too."""
    asked: list[tuple[str, bool]] = []
    loop_thread = home.call(threading.current_thread)

    def look_up(host: str, port: str | int | None, *more: Any) -> list[Any]:
        asked.append((host, threading.current_thread() is loop_thread))
        if host == "nowhere.example":
            raise socket.gaierror(-2, "Name or service not known")
        return real(host if host != "somewhere.example" else "127.0.0.9", port, *more)

    real = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    key = "max.connections.per.ip.overrides"
    alter(client, BROKER, "", key, "somewhere.example:5", validate_only=True)
    assert asked == []
    alter(client, BROKER, "", key, "somewhere.example:5")
    home.wait_for(lambda: home.broker.connection_counts.limit_of("127.0.0.9") == 5)
    alter(client, BROKER, "", key, "nowhere.example:6")
    home.wait_for(lambda: "The new connection limits are invalid, so the old ones stay" in caplog.text)
    assert home.call(lambda: home.broker.connection_counts.limit_of("127.0.0.9")) == 5
    assert {on_loop for _, on_loop in asked} == {False}


def test_a_topic_keeps_its_own(home: BrokerHome, client: WireClient) -> None:
    create(client, "own", retention_bytes="5")
    create(client, "plain")
    alter(client, BROKER, "1", KEY, "200")
    assert (of_topic(home, "own"), of_topic(home, "plain")) == (5, 200)
    alter(client, TOPIC, "own", "retention.bytes", None)
    alter(client, TOPIC, "plain", "retention.bytes", "7")
    assert (of_topic(home, "own"), of_topic(home, "plain")) == (200, 7)


def test_a_log_that_is_open_has_the_new_setting(home: BrokerHome, client: WireClient) -> None:
    create(client, "t")

    def of_log() -> int:
        return home.call(lambda: home.broker.replicas.partition(TopicPartition("t", 0)).log.config.retention_bytes)

    for kind, name, key, value in [
        (BROKER, "", KEY, "100"),
        (BROKER, "1", KEY, "200"),
        (TOPIC, "t", "retention.bytes", "7"),
    ]:
        alter(client, kind, name, key, value)
        assert of_log() == int(value)


def test_changes_outlive_the_broker(home: BrokerHome, client: WireClient) -> None:
    alter(client, BROKER, "", KEY, "100")
    alter(client, BROKER, "1", "log.roll.ms", "77777")
    home.restart()
    assert (in_use(home), in_use(home, "log.roll.ms"), of_topic(home, "any")) == (100, 77777, 100)


def test_a_pool_doubled_twice_is_as_large_after_a_restart(home: BrokerHome, client: WireClient) -> None:
    for threads in ("16", "32"):
        alter(client, BROKER, "1", "num.io.threads", threads)
    home.restart()
    assert in_use(home, "num.io.threads") == 32


def test_the_cleaner_is_told(home: BrokerHome, client: WireClient) -> None:
    alter(client, BROKER, "1", "log.cleaner.threads", "2")
    cleaner = home.call(lambda: home.broker.logs.cleaner)
    assert cleaner is not None
    assert cleaner.settings.threads == 2


def test_the_scheduler_gets_more_threads(home: BrokerHome, client: WireClient) -> None:
    """The broker starts with 10 threads, so 20 tasks can only meet after the change."""
    alter(client, BROKER, "1", "background.threads", "20")
    meeting = threading.Barrier(21, timeout=60)
    for number in range(20):
        home.broker.scheduler.schedule(f"meeting-{number}", lambda: _wait(meeting))
    _wait(meeting)


def _wait(meeting: threading.Barrier) -> None:
    meeting.wait()


def test_fewer_connections(tmp_path: Path) -> None:
    with running_broker(tmp_path) as home, home.client() as client:
        alter(client, BROKER, "1", "max.connections.per.ip", "1")
        with home.client() as another:
            assert another.is_closed_by_broker()
        alter(client, BROKER, "1", "max.connections.per.ip", None)
        with home.client() as another:
            another.call(ApiKey.METADATA, topics=None)


def test_what_is_not_allowed_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    start = BrokerConfig.load()
    texts = {KEY: "5", "log.roll.ms": "x", "log.dirs": "/y"}
    config = with_allowed(start, texts, {"log.cleaner.threads": "2", "background.threads": "0"})
    assert (config[KEY], config["log.cleaner.threads"]) == (5, 2)
    assert config.log_dirs == start.log_dirs
    assert len(caplog.messages) == 3
    contradicting = with_allowed(
        start, {"log.cleaner.min.compaction.lag.ms": "9"}, {"log.cleaner.max.compaction.lag.ms": "8"}
    )
    assert contradicting == start
