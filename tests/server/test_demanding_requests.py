"""Well-formed requests that ask for too much cost the broker little."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server.harness import BrokerHome, WireClient, running_broker
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode, MalformedMessageError
from tidelog.protocol.fetch import read_fetch_request
from tidelog.protocol.frames import length_prefix
from tidelog.protocol.headers import write_request_header
from tidelog.protocol.messages import read_request, write_request
from tidelog.protocol.produce import read_produce_request
from tidelog.protocol.request_size import MOST_ITEMS, MOST_PLAIN_BYTES
from tidelog.server.handlers.data import log_dirs

BROKER = 4
MANY = MOST_ITEMS + 1
TIMES = 500
"""The number of repetitions of the same item."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerHome]:
    path: Path = tmp_path_factory.mktemp("demanding")
    few = {"offsets_topic_num_partitions": "1", "transaction_state_log_num_partitions": "1"}
    with running_broker(path, **few) as running:
        yield running


@pytest.fixture
def client(home: BrokerHome) -> Iterator[WireClient]:
    with home.client() as made:
        yield made


TOO_MANY: dict[ApiKey, tuple[int, bytes]] = {
    ApiKey.METADATA: (1, struct.pack(">i", MANY) + b"\0\0" * MANY),
    ApiKey.DESCRIBE_LOG_DIRS: (1, struct.pack(">ihci", 1, 1, b"t", MANY) + bytes(4 * MANY)),
    ApiKey.PRODUCE: (3, struct.pack(">hhiihci", -1, 1, 1000, 1, 1, b"t", MANY) + bytes(8 * MANY)),
    ApiKey.FETCH: (4, struct.pack(">iiiibihci", -1, 0, 1, 1000, 0, 1, 1, b"t", MANY) + bytes(16 * MANY)),
}


@pytest.mark.parametrize("api", TOO_MANY)
def test_more_items_than_a_request_may_have_end_its_connection(
    home: BrokerHome, api: ApiKey, caplog: pytest.LogCaptureFixture
) -> None:
    version, body = TOO_MANY[api]
    header = write_request_header(api, version, 1, "me")
    with home.client() as bad:
        bad.socket.sendall(length_prefix([header, body]) + header + body)
        assert bad.is_closed_by_broker()
    assert f"a message has more than {MOST_ITEMS} items, the limit" in caplog.text


def test_as_many_as_it_may_have_are_answered(client: WireClient) -> None:
    topics = [{"name": "same"}] * MOST_ITEMS
    answer = client.call(ApiKey.METADATA, 1, topics=topics)
    assert len(answer.topics) == 1


@pytest.mark.parametrize("read", [read_produce_request, read_fetch_request])
def test_announced_items_are_refused_before_one_is_read(read: Any) -> None:
    """This holds for an array within an array too."""
    version, body = TOO_MANY[ApiKey.PRODUCE if read is read_produce_request else ApiKey.FETCH]
    with pytest.raises(MalformedMessageError, match="items"):
        read(version, memoryview(body[: -8 * MANY if read is read_produce_request else -16 * MANY]))


def test_a_request_without_records_has_a_size_of_its_own() -> None:
    body = write_request(ApiKey.METADATA, 1, {"topics": []})
    with pytest.raises(MalformedMessageError, match="without records"):
        read_request(ApiKey.METADATA, 1, body + bytes(MOST_PLAIN_BYTES))


# --- repeated items get one result ---


def size_of(client: WireClient, api: ApiKey, **values: Any) -> int:
    client.send(api, VERSIONS[api].latest, **values)
    return len(client.receive_frame())


def fields(api: ApiKey, times: int) -> dict[str, Any]:
    """Return the fields of a request that repeats the same item."""
    match api:
        case ApiKey.DESCRIBE_CONFIGS:
            return {"resources": [{"resource_type": BROKER, "resource_name": "1"}] * times, "include_synonyms": True}
        case ApiKey.DESCRIBE_GROUPS:
            return {"groups": ["g"] * times}
        case ApiKey.CONSUMER_GROUP_DESCRIBE:
            return {"group_ids": ["g"] * times}
        case ApiKey.DESCRIBE_TRANSACTIONS:
            return {"transactional_ids": ["t"] * times}
        case ApiKey.OFFSET_FETCH:
            return {"groups": [{"group_id": "g", "topics": None}] * times}
        case ApiKey.DESCRIBE_PRODUCERS:
            return {"topics": [{"name": "t", "partition_indexes": [0] * times}]}
        case ApiKey.DESCRIBE_LOG_DIRS:
            return {"topics": [{"topic": "t", "partitions": [0] * times}]}
        case _:
            return {"topics": [{"name": "t"}] * times}


@pytest.mark.parametrize(
    "api",
    [
        ApiKey.DESCRIBE_CONFIGS,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.OFFSET_FETCH,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.METADATA,
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    ],
    ids=lambda api: api.name,
)
def test_one_name_many_times_is_answered_once(client: WireClient, api: ApiKey) -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1}
    made = client.call(ApiKey.CREATE_TOPICS, topics=[topic], timeout=60_000).topics[0].error_code
    assert made in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
    once = size_of(client, api, **fields(api, 1))
    assert size_of(client, api, **fields(api, TIMES)) == once


def test_topics_that_cannot_be_made_on_demand_are_one_line(
    home: BrokerHome, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.call(ApiKey.METADATA, 1, topics=[{"name": f"wanted-{number}"} for number in range(11_000)])
    home.wait_for(lambda: "Cannot create 11000 topics for clients" in caplog.text)
    assert "Traceback" not in caplog.text


# --- long names ---

LONG = "n" * 30_000
OF_EACH = 1200
"""The maximum size in bytes of a response's part about one partition or resource."""


@pytest.mark.parametrize(
    ("api", "asked"),
    [
        (
            ApiKey.ELECT_LEADERS,
            {"timeout": 1000, "topic_partitions": [{"topic": LONG, "partitions": list(range(TIMES))}]},
        ),
        (
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            {
                "timeout": 1000,
                "topics": [
                    {
                        "name": LONG,
                        "partitions": [{"partition_index": number, "replicas": None} for number in range(TIMES)],
                    }
                ],
            },
        ),
        (
            ApiKey.DESCRIBE_CONFIGS,
            {"resources": [{"resource_type": 99, "resource_name": name} for name in (LONG, *map(str, range(TIMES)))]},
        ),
    ],
    ids=lambda value: value.name if isinstance(value, ApiKey) else "",
)
def test_a_long_name_is_not_in_every_message(client: WireClient, api: ApiKey, asked: dict[str, Any]) -> None:
    asked_bytes = len(write_request(api, VERSIONS[api].latest, asked))
    assert size_of(client, api, **asked) < asked_bytes + OF_EACH * TIMES


def test_the_message_says_how_long_the_name_is(client: WireClient) -> None:
    answer = client.call(ApiKey.ELECT_LEADERS, timeout=1000, topic_partitions=[{"topic": LONG, "partitions": [0]}])
    (partition,) = answer.replica_election_results[0].partition_result
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partition.error_message == f"No such topic as {LONG[:300]}... (30000 characters)"


def test_a_directory_that_is_none_is_looked_at_once(
    client: WireClient, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def path_of(text: str) -> Path:
        made.append(text)
        return Path(text)

    monkeypatch.setattr(log_dirs, "Path", path_of)
    topics = [{"name": "t", "partitions": list(range(TIMES))}]
    answer = client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=[{"path": f"/{LONG}", "topics": topics}])
    (topic,) = answer.results
    assert [one.error_code for one in topic.partitions] == [ErrorCode.LOG_DIR_NOT_FOUND] * TIMES
    assert made == [f"/{LONG}"]
    (line,) = [record.getMessage() for record in caplog.records if "cannot be moved" in record.getMessage()]
    assert f"{TIMES} in this request" in line
    assert len(line) < OF_EACH


def test_of_several_directories_for_a_partition_the_last_counts(client: WireClient, tmp_path: Path) -> None:
    topics = [{"name": "nowhere", "partitions": [0, 0]}]
    dirs = [{"path": str(tmp_path / name), "topics": topics} for name in ("one", "two")]
    (topic,) = client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, dirs=dirs).results
    assert [one.partition_index for one in topic.partitions] == [0]
