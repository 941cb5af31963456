"""The metadata log over Fetch and FetchSnapshot, as observers read it. Kafka: KafkaRaftClientTest."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from server.controller.controller_harness import METADATA_TOPIC_ID, ControllerHome, RemoteBroker, create_topic
from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.metadata.kraft.batches import read_batches
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY

SNAPSHOTS = {"metadata_log_max_record_bytes_between_snapshots": "600"}
_TOPIC = "__cluster_metadata"


def part_of(response: Struct) -> Any:
    assert response.error_code == ErrorCode.NONE
    assert response.responses[0].topic_id == METADATA_TOPIC_ID
    return response.responses[0].partitions[0]


def log_of(home: ControllerHome) -> bytes:
    directory = home.node.data_directories[0] / METADATA_DIRECTORY
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


class TestFetch:
    @pytest.mark.parametrize("version", [13, 16, 17, 18])
    def test_the_whole_log(self, broker: RemoteBroker, version: int) -> None:
        response = broker.fetch(version, cluster_id=broker.home.cluster_id)
        part = part_of(response)
        assert part.records == log_of(broker.home)
        assert part.high_watermark == broker.home.end_offset
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (100, 1)
        endpoints = [(one.node_id, one.host, one.port) for one in getattr(response, "node_endpoints", ())]
        assert endpoints == ([(100, "127.0.0.1", broker.home.port)] if version >= 17 else [])

    def test_a_fetch_at_the_end_waits_for_news(self, broker: RemoteBroker) -> None:
        home = broker.home
        at_end = {"fetch_offset": home.end_offset, "last_fetched_epoch": 1, "high_watermark": home.end_offset}
        with home.client() as second:
            number = send_fetch(second, home, max_wait=60_000, **at_end)
            broker.register()
            part = part_of(second.receive(ApiKey.FETCH, 18, number))
        (batch,) = read_batches(part.records)
        assert [record.name for record in batch.records] == ["RegisterBrokerRecord"]
        assert part.high_watermark == batch.last_offset + 1 == home.end_offset

    def test_a_wait_ends_without_records(self, broker: RemoteBroker) -> None:
        end = broker.home.end_offset
        part = part_of(broker.fetch(fetch_offset=end, last_fetched_epoch=1, high_watermark=end, max_wait=50))
        assert (part.records, part.high_watermark) == (b"", end)

    def test_an_unknown_high_watermark_is_told_at_once(self, broker: RemoteBroker) -> None:
        end = broker.home.end_offset
        start_s = time.monotonic()
        part = part_of(broker.fetch(fetch_offset=end, last_fetched_epoch=1, high_watermark=end - 1, max_wait=40_000))
        assert (part.records, part.high_watermark) == (b"", end)
        assert time.monotonic() - start_s < 40, "the fetch waited for its whole time"

    @pytest.mark.parametrize(
        ("epoch", "code"), [(0, ErrorCode.FENCED_LEADER_EPOCH), (2, ErrorCode.UNKNOWN_LEADER_EPOCH)]
    )
    def test_another_leader_epoch(self, broker: RemoteBroker, epoch: int, code: ErrorCode) -> None:
        part = part_of(broker.fetch(current_leader_epoch=epoch, max_wait=60_000))
        assert (part.error_code, part.records, part.high_watermark) == (code, b"", -1)
        assert (part.current_leader.leader_id, part.current_leader.leader_epoch) == (100, 1)

    def test_a_log_that_diverges(self, broker: RemoteBroker) -> None:
        home = broker.home
        end = home.end_offset
        home.stop()
        home.start()
        with RemoteBroker(home, 1) as again:
            part = part_of(again.fetch(fetch_offset=end + 5, last_fetched_epoch=1, max_wait=60_000))
        assert (part.diverging_epoch.epoch, part.diverging_epoch.end_offset) == (1, end)
        assert part.records == b""

    @pytest.mark.parametrize(
        "values",
        [
            {"last_fetched_epoch": -1},
            {"fetch_offset": -1},
            {"current_leader_epoch": -1},
            {"partition": 1},
            {"topic_id": uuid.UUID(int=2)},
        ],
    )
    def test_a_request_that_is_not_valid(self, broker: RemoteBroker, values: dict[str, Any]) -> None:
        assert broker.fetch(**values).error_code == ErrorCode.INVALID_REQUEST

    def test_another_clusters_observer(self, broker: RemoteBroker) -> None:
        assert broker.fetch(cluster_id="x" * 22).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID

    def test_a_wait_does_not_hinder_the_end(self, home: ControllerHome) -> None:
        end = home.end_offset
        with home.client() as client:
            send_fetch(client, home, max_wait=60_000, fetch_offset=end, last_fetched_epoch=1, high_watermark=end)
            home.stop()
            assert client.is_closed_by_broker()
        home.start()


class TestSnapshots:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return SNAPSHOTS

    def test_an_empty_log_begins_with_the_newest_snapshot(self, broker: RemoteBroker) -> None:
        home = broker.home
        broker.join()
        for number in range(8):
            create_topic(home, f"t{number}", [1])
        directory = home.node.data_directories[0] / METADATA_DIRECTORY

        def newest() -> str:
            return max(path.name for path in directory.glob("*.checkpoint"))

        home.wait_for(lambda: not newest().startswith("0" * 20))
        part = part_of(broker.fetch())
        offset, epoch = part.snapshot_id.end_offset, part.snapshot_id.epoch
        assert part.records == b""
        assert f"{offset:020}-{epoch:010}.checkpoint" in {path.name for path in directory.glob("*.checkpoint")}
        expected = (directory / f"{offset:020}-{epoch:010}.checkpoint").read_bytes()
        received = b""
        while len(received) < len(expected):
            piece = snapshot(broker, offset, epoch, position=len(received))
            assert (piece.error_code, piece.size, piece.position) == (ErrorCode.NONE, len(expected), len(received))
            received += piece.unaligned_records
        assert received == expected
        after = part_of(broker.fetch(fetch_offset=offset, last_fetched_epoch=epoch))
        assert [batch.base_offset for batch in read_batches(after.records)][:1] in ([], [offset])

    @pytest.mark.parametrize(
        ("values", "code"),
        [
            ({"offset": 5, "epoch": 5}, ErrorCode.SNAPSHOT_NOT_FOUND),
            ({"offset": -1, "epoch": -1}, ErrorCode.SNAPSHOT_NOT_FOUND),
            ({"current_leader_epoch": 0}, ErrorCode.FENCED_LEADER_EPOCH),
            ({"current_leader_epoch": 7}, ErrorCode.UNKNOWN_LEADER_EPOCH),
            ({"partition": 1}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ],
    )
    def test_a_request_that_is_refused(self, broker: RemoteBroker, values: dict[str, int], code: ErrorCode) -> None:
        wanted = {"offset": 3, "epoch": 1, **values}
        assert snapshot(broker, wanted.pop("offset"), wanted.pop("epoch"), **wanted).error_code == code


class TestQuorum:
    def test_observers_and_their_progress(self, broker: RemoteBroker) -> None:
        end = broker.home.end_offset
        broker.fetch(fetch_offset=end, last_fetched_epoch=1, replica_directory_id=broker.directory_id)
        (observer,) = quorum(broker.client).observers
        assert (observer.replica_id, observer.replica_directory_id) == (1, broker.directory_id)
        assert observer.log_end_offset == end
        assert observer.last_caught_up_timestamp == observer.last_fetch_timestamp > 0
        broker.register()
        broker.fetch(fetch_offset=end, last_fetched_epoch=1, replica_directory_id=broker.directory_id)
        (behind,) = quorum(broker.client).observers
        # It had everything at its fetch before, as far as it can know.
        assert behind.last_caught_up_timestamp == observer.last_fetch_timestamp
        assert behind.last_fetch_timestamp >= observer.last_fetch_timestamp

    def test_the_controllers_for_administrators(self, broker: RemoteBroker) -> None:
        response = broker.client.call(
            ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=False, endpoint_type=2
        )
        assert [(one.broker_id, one.host, one.port) for one in response.brokers] == [
            (100, "127.0.0.1", broker.home.port)
        ]
        assert (response.controller_id, response.endpoint_type) == (100, 2)
        refused = broker.client.call(
            ApiKey.DESCRIBE_CLUSTER, include_cluster_authorized_operations=False, endpoint_type=1
        )
        assert refused.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE


def quorum(client: WireClient) -> Any:
    return (
        client.call(ApiKey.DESCRIBE_QUORUM, topics=[{"topic_name": _TOPIC, "partitions": [{"partition_index": 0}]}])
        .topics[0]
        .partitions[0]
    )


def send_fetch(client: WireClient, home: ControllerHome, *, max_wait: int, **values: int) -> int:
    """Send a fetch of the metadata log without waiting for the response, and return its number."""
    part = {
        "partition": 0,
        "current_leader_epoch": home.leader_epoch,
        "log_start_offset": 0,
        "partition_max_bytes": 0,
        **values,
    }
    return client.send(
        ApiKey.FETCH,
        18,
        replica_state={"replica_id": 7, "replica_epoch": -1},
        max_wait=max_wait,
        min_bytes=0,
        topics=[{"topic_id": METADATA_TOPIC_ID, "partitions": [part]}],
        forgotten_topics_data=[],
        rack_id="",
    )


def snapshot(broker: RemoteBroker, offset: int, epoch: int, **values: int) -> Any:
    part = {"partition": 0, "current_leader_epoch": broker.home.leader_epoch, "position": 0, **values}
    response = broker.client.call(
        ApiKey.FETCH_SNAPSHOT,
        replica_id=broker.number,
        max_bytes=200,
        topics=[{"name": _TOPIC, "partitions": [{**part, "snapshot_id": {"end_offset": offset, "epoch": epoch}}]}],
    )
    assert response.error_code == ErrorCode.NONE
    return response.topics[0].partitions[0]
