"""Names that clients choose are no paths, end no line of the log, and are not stored at any length."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from server.data.data_home import DataHome, records
from server.harness import BrokerHome, WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.runtime.logging_setup import LineFormatter

PATHS = ["..", ".", "../outside", "/outside", "a/b", "a\\b", "a\0b", "..\n", "%2e%2e"]
FORGED = "me\r\n2026-03-01T10:44:42.123+00:00 ERROR tidelog.server: all is lost\x1b[2J"


def files_in(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if not file.is_relative_to(path / "data")}


@pytest.mark.parametrize("name", PATHS)
def test_a_topics_name_is_no_path(name: str, home: BrokerHome, client: WireClient, tmp_path: Path) -> None:
    before, logs = files_in(tmp_path), set((tmp_path / "data").iterdir())
    topic = {"name": name, "num_partitions": 1, "replication_factor": 1}
    made = client.call(ApiKey.CREATE_TOPICS, topics=[topic], timeout=10_000)
    assert made.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    asked = client.call(ApiKey.METADATA, topics=[{"name": name}], allow_auto_topic_creation=True)
    assert asked.topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    data = DataHome(home, client)
    assert data.produce(records(), name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert client.call(ApiKey.DELETE_TOPICS, topics=[{"name": name}], timeout=1000).responses[0].error_code != 0
    dirs = [{"path": str(tmp_path / "data"), "topics": [{"name": name, "partitions": [0]}]}]
    moved = client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=dirs)
    assert moved.results[0].partitions[0].error_code != ErrorCode.NONE
    assert (files_in(tmp_path), set((tmp_path / "data").iterdir())) == (before, logs)


def test_a_partition_moves_to_no_directory_but_the_brokers_own(
    home: BrokerHome, client: WireClient, tmp_path: Path
) -> None:
    DataHome(home, client).create("t")
    (tmp_path / "other").mkdir()
    for path in (tmp_path / "other", tmp_path / "data" / ".." / "other", Path("/etc")):
        dirs = [{"path": str(path), "topics": [{"name": "t", "partitions": [0]}]}]
        answer = client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=dirs)
        assert answer.results[0].partitions[0].error_code == ErrorCode.LOG_DIR_NOT_FOUND
    assert not list((tmp_path / "other").iterdir())


def test_a_clients_name_forges_no_line_of_the_log(home: BrokerHome, caplog: pytest.LogCaptureFixture) -> None:
    caplog.handler.setFormatter(LineFormatter())
    with caplog.at_level(logging.DEBUG), home.client(client_id=FORGED) as bad:
        DataHome(home, bad).send_produce(records(), FORGED, acks=0)
        assert bad.is_closed_by_broker()
    (line,) = [line for line in caplog.text.splitlines() if "all is lost" in line]
    assert " closed: Closing connection due to error during produce request" in line
    assert "\x1b" not in caplog.text


def test_a_clients_software_is_kept_up_to_a_length(home: BrokerHome, client: WireClient) -> None:
    name = "n" * 32_767
    answer = client.call(ApiKey.API_VERSIONS, 3, client_software_name=name, client_software_version=name)
    assert answer.error_code == ErrorCode.NONE
    (kept,) = home.call(lambda: [one.client.software for one in home.broker.listeners[0].connections])
    assert kept == ("n" * 255, "n" * 255)
