"""Expensive requests are done in pieces, and the event loop serves other clients between two pieces."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from server.harness import BrokerHome, WireClient, running_broker
from tidelog.protocol import messages
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.headers import write_request_header
from tidelog.protocol.messages import write_response
from tidelog.protocol.schemas import Direction
from tidelog.runtime.executor import yielding_to_loop
from tidelog.server.authorization.resource import group
from tidelog.server.configs.resource_entries import topic_entries
from tidelog.server.dispatcher import LARGE_BYTES
from tidelog.server.handlers.configs import describe_configs
from tidelog.server.handlers.configs.alterations import guarded
from tidelog.server.handlers.configs.encoded_results import EncodedResults
from tidelog.server.handlers.groups import consumer_groups, group_administration, offset_fetch
from tidelog.server.handlers.topics import create_topics
from tidelog.server.replicas.partition import Partition

if TYPE_CHECKING:
    from tidelog.protocol.message_types.configs import DescribeConfigsResourceResult, DescribeConfigsResult

PIECE = 100
CLIENT_METRICS, GROUP = 16, 32
NAMES = [f"group-{number}" for number in range(15 * PIECE)]


class Turns:
    """Counts the iterations of an event loop, and the work that is done in each."""

    def __init__(self) -> None:
        self.number = 0
        self.done: Counter[int] = Counter()
        self._is_over = False

    def begin(self) -> None:
        if not self._is_over:
            self.number += 1
            asyncio.get_running_loop().call_soon(self.begin)

    def end(self) -> None:
        self._is_over = True

    def note(self) -> None:
        self.done[self.number] += 1

    @property
    def most(self) -> int:
        return max(self.done.values())


@contextmanager
def turns_of(home: BrokerHome) -> Iterator[Turns]:
    turns = Turns()
    home.call(turns.begin)
    try:
        yield turns
    finally:
        home.call(turns.end)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerHome]:
    path: Path = tmp_path_factory.mktemp("turns")
    few = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
    with running_broker(path, **few) as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def client(home: BrokerHome) -> Iterator[WireClient]:
    with home.client() as made:
        yield made


def test_so_many_items_have_a_turn() -> None:
    turns = Turns()

    async def work() -> None:
        turns.begin()
        async for _ in yielding_to_loop(range(10 * PIECE), PIECE):
            turns.note()
        turns.end()

    asyncio.run(work())
    assert turns.most == PIECE
    assert turns.done.total() == 10 * PIECE


@pytest.fixture
def appends(home: BrokerHome, monkeypatch: pytest.MonkeyPatch) -> Iterator[Turns]:
    """Count the appends to partitions."""
    append = Partition.append
    with turns_of(home) as turns:

        def noted(*args: Any, **named: Any) -> Any:
            turns.note()
            return append(*args, **named)

        monkeypatch.setattr(Partition, "append", noted)
        yield turns


@pytest.mark.parametrize(("topics", "is_large"), [(10, False), (5000, True)])
def test_a_large_request_is_read_and_its_answer_written_beside_the_loop(
    home: BrokerHome, client: WireClient, topics: int, is_large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, threading.Thread] = {}
    read, write = messages._read, messages._write

    def noted_read(api: ApiKey, direction: Direction, version: int, body: Any) -> Any:
        if direction is Direction.REQUEST:
            threads["read"] = threading.current_thread()
        return read(api, direction, version, body)

    def noted_write(api: ApiKey, direction: Direction, version: int, values: Any) -> bytes:
        if direction is Direction.RESPONSE:
            threads["written"] = threading.current_thread()
        return write(api, direction, version, values)

    monkeypatch.setattr(messages, "_read", noted_read)
    monkeypatch.setattr(messages, "_write", noted_write)
    names = [f"no-such-topic-{number}" for number in range(topics)]
    part = {"partition_index": 0, "timestamp": -1}
    answer = client.call(
        ApiKey.LIST_OFFSETS, 5, replica_id=-1, topics=[{"name": name, "partitions": [part]} for name in names]
    )
    assert [topic.name for topic in answer.topics] == names
    assert set(threads) == {"read", "written"}
    loop = home.call(threading.current_thread)
    assert {thread is not loop for thread in threads.values()} == {is_large}


def test_a_large_request_that_is_none_ends_its_connection(home: BrokerHome, caplog: pytest.LogCaptureFixture) -> None:
    header = write_request_header(ApiKey.METADATA, 8, 1, "me")
    body = b"\x7f" * LARGE_BYTES
    with home.client() as bad:
        bad.socket.sendall(length_prefix([header, body]) + header + body)
        assert bad.is_closed_by_broker()
    assert " closed: an array announces" in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("api", "handler", "fields"),
    [
        (ApiKey.DESCRIBE_GROUPS, group_administration, {"groups": NAMES}),
        (ApiKey.CONSUMER_GROUP_DESCRIBE, consumer_groups, {"group_ids": NAMES}),
        (ApiKey.OFFSET_FETCH, offset_fetch, {"groups": [{"group_id": name, "topics": None} for name in NAMES]}),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
def test_many_groups(
    home: BrokerHome,
    client: WireClient,
    api: ApiKey,
    handler: ModuleType,
    fields: Mapping[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with turns_of(home) as turns:

        def looked_at(name: str) -> Any:
            turns.note()
            return group(name)

        monkeypatch.setattr(handler, "group", looked_at)
        answer = client.call(api, **fields)
    assert [one.group_id for one in answer.groups] == NAMES
    assert turns.done.total() == len(NAMES)
    assert turns.most < len(NAMES)


def test_topics_that_have_settings_of_their_own(
    home: BrokerHome, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    with turns_of(home) as turns:

        def noted(*arguments: Any) -> Any:
            turns.note()
            return topic_entries(*arguments)

        monkeypatch.setattr(create_topics, "topic_entries", noted)
        asked = {"num_partitions": 1, "replication_factor": 1}
        topics = [
            {"name": f"own-{number}", **asked, "configs": [{"name": "retention.ms", "value": str(number)}]}
            for number in range(2 * PIECE)
        ]
        answer = client.call(ApiKey.CREATE_TOPICS, topics=topics, timeout=1000, validate_only=True)
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.NONE}
    assert turns.done.total() == 2 * PIECE
    assert turns.most <= PIECE


@pytest.mark.parametrize("kind", [CLIENT_METRICS, GROUP])
def test_settings_of_many_resources_are_described_once(
    home: BrokerHome, client: WireClient, kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[dict[str, str]] = []

    def noted(entries: Any) -> Any:
        def called(texts: dict[str, str], *rest: Any) -> Any:
            described.append(texts)
            return entries(texts, *rest)

        return called

    with turns_of(home) as turns:

        def looked_at(identity: Any) -> Any:
            turns.note()
            return guarded(identity)

        for name in ("client_metrics_entries", "group_entries"):
            monkeypatch.setattr(describe_configs, name, noted(getattr(describe_configs, name)))
        monkeypatch.setattr(describe_configs, "guarded", looked_at)
        resources = [{"resource_type": kind, "resource_name": str(number)} for number in range(5 * PIECE)]
        answer = client.call(ApiKey.DESCRIBE_CONFIGS, resources=resources, include_documentation=True)
    assert [one.resource_name for one in answer.results] == [one["resource_name"] for one in resources]
    assert len({one.configs for one in answer.results}) == 1
    assert len(described) == 1
    assert turns.most <= PIECE


@pytest.mark.parametrize("version", range(1, 5))
def test_results_that_are_encoded_one_by_one_are_the_response(version: int) -> None:
    settings: list[DescribeConfigsResourceResult] = [
        {"name": "a", "value": "1", "synonyms": [{"name": "b", "value": None, "source": 5}]},
        {"name": "ä" * 200},
    ]
    heads: list[DescribeConfigsResult] = [{"resource_type": 2, "resource_name": "t" * number} for number in range(200)]
    many: list[DescribeConfigsResult] = [{**head, "configs": settings} for head in heads]
    results = EncodedResults(version)
    refused: DescribeConfigsResult = {"error_code": 3, "error_message": "no", "resource_type": 2, "resource_name": "u"}
    encoded = results.encoded_settings(settings)
    for head in heads:
        results.add(head, encoded)
    results.add(refused)
    whole = write_response(ApiKey.DESCRIBE_CONFIGS, version, {"throttle_time": 7, "results": [*many, refused]})
    assert b"".join(results.response(7).parts) == whole  # type: ignore[arg-type] # no part is a file's


def test_a_request_describes_only_so_many(client: WireClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert describe_configs.MOST_RESOURCES > 10_000, "those who look after clusters ask for all topics at once"
    monkeypatch.setattr(describe_configs, "MOST_RESOURCES", PIECE)
    resources = [{"resource_type": GROUP, "resource_name": str(number)} for number in range(PIECE + 1)]
    answer = client.call(ApiKey.DESCRIBE_CONFIGS, resources=resources)
    assert len(answer.results) == PIECE + 1
    assert {one.error_code for one in answer.results} == {ErrorCode.POLICY_VIOLATION}
    answer = client.call(ApiKey.DESCRIBE_CONFIGS, resources=resources[1:])
    assert {one.error_code for one in answer.results} == {ErrorCode.NONE}


def markers(count: int, partitions: list[int]) -> list[dict[str, Any]]:
    return [
        {
            "producer_id": 1000 + number,
            "producer_epoch": 0,
            "transaction_result": True,
            "topics": [{"name": "t", "partition_indexes": partitions}],
            "coordinator_epoch": 0,
        }
        for number in range(count)
    ]


def test_markers_of_many_transactions(client: WireClient, appends: Turns) -> None:
    answer = client.call(ApiKey.WRITE_TXN_MARKERS, markers=markers(5 * PIECE, [0]))
    assert len(answer.markers) == 5 * PIECE
    assert appends.done.total() == 5 * PIECE
    assert appends.most <= PIECE


def test_a_partition_that_is_named_often_gets_one_marker(client: WireClient, appends: Turns) -> None:
    answer = client.call(ApiKey.WRITE_TXN_MARKERS, markers=markers(1, [0] * PIECE))
    assert [one.partition_index for one in answer.markers[0].topics[0].partitions] == [0]
    assert appends.done.total() == 1
