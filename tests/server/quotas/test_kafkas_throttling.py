"""Our broker and Kafka's throttle the same clients for about as long, with the same quotas and the same load.

Usage is counted in windows of a second, so that times differ by some ms: the tests only compare their order of
magnitude. The number of windows is small, because bursts would otherwise take long to use up.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest

from real_kafka.broker import QUIET, SMALL, Broker
from server.data.data_home import WITH_NAMES, records
from server.harness import WireClient, running_broker
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

WINDOWS = 3
SETTINGS = {**SMALL, **QUIET, "quota.window.num": str(WINDOWS), "controller.quota.window.num": str(WINDOWS)}
RATE = 100_000
"""The rate in bytes a second. A burst may be twice as large."""
RECORD = 50_000

ENTITIES: dict[str, list[dict[str, str | None]]] = {
    "produce": [{"user": "ANONYMOUS", "client-id": "produce"}],
    "fetch": [{"user": None, "client-id": "fetch"}],
    "request": [{"client-id": "request"}],
    "mutation": [{"user": "ANONYMOUS", "client-id": None}],
}
"""The quota's entity by client id."""


class Throttled(NamedTuple):
    """Throttle times in ms of the responses to one load."""

    total: int
    longest: int


class Home(NamedTuple):
    port: int

    @contextmanager
    def client(self, client_id: str) -> Iterator[WireClient]:
        with WireClient(self.port, client_id=client_id) as client:
            yield client

    def set_quota(self, key: str, value: float, entity: dict[str, str | None]) -> None:
        parts = [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()]
        entry = {"entity": parts, "ops": [{"key": key, "value": value, "remove": False}]}
        with self.client("admin") as admin:
            answer = admin.call(ApiKey.ALTER_CLIENT_QUOTAS, entries=[entry], validate_only=False)
            assert answer.entries[0].error_code == 0, answer
            self.create(admin, f"after-{key}")  # the broker applies this topic after the quota

    def create(self, client: WireClient, *names: str, partitions: int = 1) -> Any:
        topics = [{"name": name, "num_partitions": partitions, "replication_factor": 1} for name in names]
        answer = client.call(ApiKey.CREATE_TOPICS, topics=topics, timeout=30_000)
        for topic in answer.topics:
            while topic.error_code == 0 and self._is_missing(client, topic.name):
                pass
        return answer

    def _is_missing(self, client: WireClient, name: str) -> bool:
        answer = client.call(ApiKey.METADATA, topics=[{"name": name}], allow_auto_topic_creation=False)
        (topic,) = answer.topics
        return bool(topic.error_code != 0 or topic.partitions[0].leader_id < 0)


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    path = tmp_path_factory.mktemp("kafka")
    with Broker(path / "data", work=path / "work", properties=SETTINGS) as broker:
        broker.format()
        broker.start()
        yield Home(int(broker.bootstrap.rpartition(":")[2]))


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    settings = {key.replace(".", "_"): text for key, text in SETTINGS.items()}
    with running_broker(tmp_path_factory.mktemp("ours"), **settings) as running:
        yield Home(running.port)


def told(times: list[int]) -> Throttled:
    return Throttled(sum(times), max(times))


def produced(home: Home, client_id: str = "produce", topic: str = "p") -> Throttled:
    """Produce ten records, one after the other."""
    with home.client("admin") as admin:
        home.create(admin, topic)
    batch = records(b"x" * RECORD)
    topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    with home.client(client_id) as client:
        answers = [
            client.call(ApiKey.PRODUCE, WITH_NAMES, acks=-1, timeout=30_000, topic_data=topics) for _ in range(10)
        ]
    assert {answer.responses[0].partition_responses[0].error_code for answer in answers} == {0}
    return told([answer.throttle_time for answer in answers])


def fetched(home: Home) -> Throttled:
    """Fetch until ten records have arrived. Kafka's throttled responses contain no records."""
    produced(home, "admin", "f")
    times, size = [], 0
    with home.client("fetch") as client:
        while size < 10 * RECORD:
            wanted = {"partition": 0, "fetch_offset": size // RECORD, "partition_max_bytes": 1}
            wanted |= {"current_leader_epoch": -1, "last_fetched_epoch": -1}
            values = {"max_wait": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1}
            topics = [{"topic": "f", "partitions": [wanted]}]
            answer = client.call(ApiKey.FETCH, WITH_NAMES, topics=topics, **values)
            times.append(answer.throttle_time)
            if answer.responses and answer.responses[0].partitions[0].records:
                size += RECORD
    return told(times)


def test_producing(kafka: Home, ours: Home) -> None:
    for home in (kafka, ours):
        home.set_quota("producer_byte_rate", RATE, ENTITIES["produce"][0])
    assert_of_one_order(produced(ours), produced(kafka))


def test_fetching(kafka: Home, ours: Home) -> None:
    for home in (kafka, ours):
        home.set_quota("consumer_byte_rate", RATE, ENTITIES["fetch"][0])
    assert_of_one_order(fetched(ours), fetched(kafka))


def test_time_of_requests_costs_a_window(kafka: Home, ours: Home) -> None:
    longest = []
    for home in (kafka, ours):
        home.set_quota("request_percentage", 0.0001, ENTITIES["request"][0])
        with home.client("request") as client:
            answers = [client.call(ApiKey.METADATA, topics=None) for _ in range(4)]
        longest.append(max(answer.throttle_time for answer in answers))
    assert longest == [1000, 1000], answers


def test_making_topics(kafka: Home, ours: Home) -> None:
    """Twenty partitions are accepted at a rate of one in ten seconds. The next request fails with a throttle time."""
    codes, waits = [], []
    for home in (kafka, ours):
        home.set_quota("controller_mutation_rate", 0.1, ENTITIES["mutation"][0])
        with home.client("mutation") as client:
            home.create(client, "many", partitions=20)
            refused = home.create(client, "more")
        codes.append(refused.topics[0].error_code)
        waits.append(refused.throttle_time)
    assert codes == [ErrorCode.THROTTLING_QUOTA_EXCEEDED] * 2, waits
    assert max(waits) <= min(2 * min(waits), 200_000), waits


def test_connections_of_an_address(kafka: Home, ours: Home) -> None:
    """Twice the rate is accepted. This test is the last because its quota applies to all clients.

    All connections come at once, so their number does not depend on the machine. If a slow machine connects
    later, it gets at most the rate for the passed time in addition.
    """
    rate, connections = 2.0, 40
    served, at_most = [], []
    for home in (kafka, ours):
        home.set_quota("connection_creation_rate", rate, {"ip": "127.0.0.1"})
        start = time.monotonic()
        with ThreadPoolExecutor(connections) as threads:
            times = [at for at in threads.map(served_at, [home] * connections) if at is not None]
        served.append(len(times))
        at_most.append(2 * rate + 2 + rate * (max(times) - start))
    for number, most in zip(served, at_most, strict=True):
        assert 2 * rate <= number <= most < connections, (served, at_most)


def served_at(home: Home) -> float | None:
    """Return the time at which a connection was served, or None if it was refused."""
    with home.client("anybody") as client:
        try:
            client.call(ApiKey.API_VERSIONS, 0)
        except ConnectionError:
            return None
        return time.monotonic()


def assert_of_one_order(ours: Throttled, kafkas: Throttled) -> None:
    assert kafkas.total > 1000, "the load is more than the quota"
    for mine, theirs in zip(ours, kafkas, strict=True):
        assert theirs / 2 <= mine <= theirs * 2, (ours, kafkas)
