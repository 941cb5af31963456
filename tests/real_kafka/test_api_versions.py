"""Our broker's ApiVersions response compared with Kafka 4.4.0's: equal APIs and versions, except those named here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from real_kafka.broker import Broker
from server.harness import WireClient, running_broker
from tidelog.protocol.api_key import VERSIONS, ApiKey

pytestmark = pytest.mark.kafka

SOFTWARE = {"client_software_name": "tests", "client_software_version": "1.0"}
SERVER_PAGE = Path(__file__).parents[2] / "docs" / "server.md"

NOT_IN_KIO = {ApiKey.API_VERSIONS: 4, ApiKey.TXN_OFFSET_COMMIT: 5, ApiKey.DELETE_GROUPS: 2}
"""The newest version that kio has a schema for, if Kafka 4.4 has a newer one."""

NOT_SERVED = {
    *range(38, 42),  # delegation tokens
    *(80, 81, 94),  # voters that join or leave the quorum
    *range(76, 80),  # share groups
    *range(83, 88),  # the state of share groups
    *(88, 89, 93),  # streams groups
    *range(90, 93),  # offsets of share groups
}
"""APIs by their keys. docs/not-done.md has a row for each."""


@pytest.fixture(scope="module")
def kafkas_versions(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[int, int]]:
    home = tmp_path_factory.mktemp("versions")
    with Broker(home / "kafka", work=home / "work") as broker:
        broker.format()
        broker.start()
        with WireClient(int(broker.bootstrap.rpartition(":")[2])) as client:
            return versions_of(client)


def versions_of(client: WireClient) -> dict[int, tuple[int, int]]:
    response = client.call(ApiKey.API_VERSIONS, 4, **SOFTWARE)
    return {row.api_key: (row.min_version, row.max_version) for row in response.api_keys}


def test_versions_are_those_of_kafka(kafkas_versions: dict[int, tuple[int, int]], tmp_path: Path) -> None:
    with running_broker(tmp_path) as home, home.client() as client:
        ours = versions_of(client)
    assert kafkas_versions.keys() - ours.keys() == NOT_SERVED
    assert newest_where_another(ours, kafkas_versions) == NOT_IN_KIO


def test_the_table_of_versions_is_that_of_kafka(kafkas_versions: dict[int, tuple[int, int]]) -> None:
    """The versions agree also for APIs that are not served, because clients and records name them."""
    ours = {int(key): (rows.oldest, rows.latest) for key, rows in VERSIONS.items() if key in kafkas_versions}
    ours[ApiKey.PRODUCE] = (0, ours[ApiKey.PRODUCE][1])
    streams = dict.fromkeys((ApiKey.STREAMS_GROUP_HEARTBEAT, ApiKey.STREAMS_GROUP_DESCRIBE), 0)
    assert newest_where_another(ours, kafkas_versions) == NOT_IN_KIO | streams


def newest_where_another(ours: dict[int, tuple[int, int]], kafkas: dict[int, tuple[int, int]]) -> dict[int, int]:
    """Return our newest version of each API whose newest version is not Kafka's. The oldest is always Kafka's."""
    assert {key: oldest for key, (oldest, _) in ours.items()} == {key: kafkas[key][0] for key in ours}
    return {key: newest for key, (_, newest) in ours.items() if newest != kafkas[key][1]}


def test_the_page_names_what_kio_lacks(kafkas_versions: dict[int, tuple[int, int]]) -> None:
    rows = re.findall(r"^\| (\w+) \| (\d+) \| (\d+) \|", SERVER_PAGE.read_text(), re.MULTILINE)
    assert {title: (int(theirs), int(here)) for title, theirs, here in rows} == {
        key.title: (kafkas_versions[key][1], newest) for key, newest in NOT_IN_KIO.items()
    }
