"""The client against real Kafka: versions, Fetch, SCRAM over TLS, sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from client.peer import LOOPS, run
from real_kafka.broker import PATIENCE_S, Broker
from real_kafka.cluster import Cluster
from real_kafka.java import KRAFT_3, NEWEST
from server.security.certificates import authority, write_files
from tidelog.client import AuthenticationError, ClientConfig, ClientSettings, ClusterClient
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.fetch_response import Fetched, read_fetch_response
from tidelog.security.scram_credential import ScramMechanism, salted_password
from tidelog.testing.broker.kept_port import keep_port

pytestmark = pytest.mark.kafka

MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PASSWORD = "alice's secret"
LIFETIME_MS = 1300
NEWEST_FETCH = {NEWEST: 18, KRAFT_3: 17}
RECORDS = 40
"""The records of each batch."""


class Kafka(NamedTuple):
    release: str
    bootstrap: str
    directory: Path
    """The log directory of the only broker."""
    secure_port: int

    def settings(self, **texts: str) -> ClientSettings:
        overrides = {"bootstrap.servers": self.bootstrap, **texts}
        return ClientSettings.of(ClientConfig.load(overrides=overrides))

    def secure(self, mechanism: str, password: str = PASSWORD) -> ClientSettings:
        return self.settings(
            **{
                "bootstrap.servers": f"localhost:{self.secure_port}",
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": mechanism,
                "sasl.jaas.config": f'{MODULE} username="alice" password="{password}";',
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": authority().pem,
            }
        )


@pytest.fixture(scope="module", params=[NEWEST, pytest.param(KRAFT_3, marks=pytest.mark.slow)])
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Start a broker with a topic of several codecs and two transactions, and with alice as a user."""
    root: Path = tmp_path_factory.mktemp("kafka")
    properties = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(write_files(root / "certificates").server),
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
        "connections.max.reauth.ms": str(LIFETIME_MS),
        **{f"listener.name.secure.{one.title.lower()}.sasl.jaas.config": f"{MODULE};" for one in ScramMechanism},
    }
    start = started_broker if request.param == NEWEST else started_kafka_3
    with keep_port() as place:
        port = place.getsockname()[1]
        with start(root, properties, f"SECURE://localhost:{port}") as (bootstrap, directory):
            made = Kafka(request.param, bootstrap, directory, port)
            produce(bootstrap)
            run(partial(set_password, made))
            yield made


@contextmanager
def started_broker(root: Path, properties: Mapping[str, str], listener: str) -> Iterator[tuple[str, Path]]:
    own = {
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        "inter.broker.listener.name": "PLAINTEXT",
    }
    with Broker(root / "data", work=root / "work", properties={**own, **properties}, more_listeners=listener) as broker:
        broker.format()
        broker.start()
        broker.create_topic("flights", partitions=2)
        yield broker.bootstrap, broker.directory


@contextmanager
def started_kafka_3(root: Path, properties: Mapping[str, str], listener: str) -> Iterator[tuple[str, Path]]:
    own = {
        "listener.security.protocol.map": "CLIENT:PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        "super.users": "User:ANONYMOUS;User:alice",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
    }
    with Cluster(
        root, release=KRAFT_3, brokers=(1,), properties={**own, **properties}, more_listeners=listener
    ) as cluster:
        cluster.start()
        cluster.create_topic("flights", partitions=2, replicas=1)
        yield cluster.direct, cluster.brokers[1].directory


def produce(bootstrap: str) -> None:
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 1000})
        for number in range(RECORDS):
            producer.produce("flights", f"{codec} {number}".encode(), partition=0)
        assert producer.flush(PATIENCE_S) == 0
    for end in ("commit_transaction", "abort_transaction"):
        writer = Producer({"bootstrap.servers": bootstrap, "transactional.id": end})
        writer.init_transactions(PATIENCE_S)
        writer.begin_transaction()
        writer.produce("flights", end.encode(), partition=0)
        assert writer.flush(PATIENCE_S) == 0
        getattr(writer, end)(PATIENCE_S)


async def set_password(kafka: Kafka) -> None:
    """Set the password for one mechanism after the other: a request may name a user once."""
    async with ClusterClient(kafka.settings()) as client:
        controller = await client.controller_id(fresh=True)
        for one in ScramMechanism:
            upsertion = {
                "name": "alice",
                "mechanism": int(one),
                "iterations": 4096,
                "salt": b"salt",
                "salted_password": salted_password(one, PASSWORD, iterations=4096, salt=b"salt"),
            }
            values = {"deletions": [], "upsertions": [upsertion]}
            response = await client.send(controller, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, values)
            assert [result.error_code for result in response.results] == [ErrorCode.NONE]


async def fetched(client: ClusterClient, **bounds: Any) -> Fetched:
    """Fetch all of flights-0 in one request."""
    metadata = await client.metadata_of(["flights"])
    leader = metadata.leader_of("flights", 0)
    assert leader is not None
    partition = {
        "partition": 0,
        "fetch_offset": 0,
        "partition_max_bytes": 50_000_000,
        "current_leader_epoch": leader.leader_epoch,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
    }
    topic = {"topic": "flights", "topic_id": metadata.topics["flights"].topic_id, "partitions": [partition]}
    values = {"max_wait": 500, "min_bytes": 1, "max_bytes": 50_000_000, "isolation_level": 1, "session_epoch": -1}
    response: Fetched = await client.send(
        leader.leader_id,
        ApiKey.FETCH,
        {**values, "topics": [topic], "rack_id": ""},
        decode=read_fetch_response,
        **bounds,
    )
    return response


@pytest.mark.parametrize("loop", LOOPS)
def test_metadata_and_versions(kafka: Kafka, loop: str) -> None:
    async def work() -> None:
        async with ClusterClient(kafka.settings()) as client:
            metadata = await client.metadata_of(["flights", "nothing"])
            assert list(metadata.topics) == ["flights"]
            assert set(metadata.topics["flights"].partitions) == {0, 1}
            assert metadata.controller_id == 1
            versions = (await client.connection(1)).versions
            assert versions.version_of(ApiKey.FETCH) == NEWEST_FETCH[kafka.release]
            assert versions.finalized_features["metadata.version"] > 0

    run(work, loop)


def test_every_version_of_fetch_returns_the_bytes_of_the_log(kafka: Kafka) -> None:
    log = (kafka.directory / "flights-0" / f"{0:020}.log").read_bytes()

    async def work() -> None:
        async with ClusterClient(kafka.settings()) as client:
            await client.metadata_of([])
            versions = (await client.connection(1)).versions
            latest = versions.version_of(ApiKey.FETCH)
            for version in range(VERSIONS[ApiKey.FETCH].oldest, latest + 1):
                response = await fetched(client, at_most=version, at_least=version)
                assert response.error_code == ErrorCode.NONE
                (partition,) = response.responses[0].partitions
                assert partition.error_code == ErrorCode.NONE, version
                records = bytes(partition.records)
                assert log.startswith(records)
                assert not log[len(records) :].strip(b"\0"), "the rest of the file is preallocated, if any"
                assert len(records) > 1000
                assert partition.last_stable_offset == partition.high_watermark == RECORDS * 5 + 4
                assert partition.log_start_offset == (0 if version >= 5 else -1)
                assert partition.aborted_transactions is not None
                ((_, first_offset),) = partition.aborted_transactions
                assert first_offset == RECORDS * 5 + 2

    run(work)


def test_an_epoch_that_the_leader_does_not_know(kafka: Kafka) -> None:
    """The last fetched epoch diverges: the response says where the log's epochs end (KIP-595)."""

    async def work() -> None:
        async with ClusterClient(kafka.settings()) as client:
            metadata = await client.metadata_of(["flights"])
            partition = {"partition": 0, "fetch_offset": 500, "last_fetched_epoch": 0, "current_leader_epoch": -1}
            topic = {"topic": "flights", "topic_id": metadata.topics["flights"].topic_id}
            values = {"max_wait": 500, "min_bytes": 1, "max_bytes": 1000, "session_epoch": -1, "rack_id": ""}
            wanted = {**values, "topics": [{**topic, "partitions": [{**partition, "partition_max_bytes": 1000}]}]}
            response = await client.send(1, ApiKey.FETCH, wanted, decode=read_fetch_response)
            assert response.responses[0].partitions[0].diverging_epoch == (0, RECORDS * 5 + 4)

    run(work)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("mechanism", [one.title for one in ScramMechanism])
def test_scram_over_tls(kafka: Kafka, mechanism: str, loop: str) -> None:
    async def work() -> None:
        async with ClusterClient(kafka.secure(mechanism)) as client:
            metadata = await client.metadata_of(["flights"])
            assert metadata.nodes[1].address == ("localhost", kafka.secure_port)
            (partition,) = (await fetched(client)).responses[0].partitions
            assert len(partition.records) > 1000

    run(work, loop)


def test_a_wrong_password(kafka: Kafka) -> None:
    async def work() -> None:
        async with ClusterClient(kafka.secure("SCRAM-SHA-256", "another secret")) as client:
            with pytest.raises(AuthenticationError, match="refuses user alice by SASL SCRAM-SHA-256: ") as caught:
                await client.metadata_of(None)
            assert "secret" not in str(caught.value)

    run(work)


def test_a_session_is_renewed(kafka: Kafka) -> None:
    """Kafka closes a connection whose session has expired, so one connection survives by renewals only."""

    async def work() -> None:
        async with ClusterClient(kafka.secure("SCRAM-SHA-512")) as client:
            await client.metadata_of([])
            connection = await client.connection(1)
            loop = asyncio.get_running_loop()
            end = loop.time() + 2.5 * LIFETIME_MS / 1000
            while loop.time() < end:
                await connection.send(ApiKey.METADATA, {"topics": []})
                await asyncio.sleep(0.02)
            assert connection.is_open

    run(work)
