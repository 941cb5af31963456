"""The reports of a running broker against the requests of its clients."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_maker import batch
from server.groups.group_broker import SETTINGS
from server.harness import WireClient
from server.live_reports.reported_home import STARTED_MS, ReportedHome
from tidelog.model import ConfigError, TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.server.live_reports.reports import REPORTS
from tidelog.server.quotas.client_quotas import PRODUCER_BYTE_RATE
from tidelog.version import __version__

GROUP = "hostile\x00‮<group>"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReportedHome]:
    with ReportedHome(tmp_path_factory.mktemp("reported"), SETTINGS) as running:
        running.create_topic("t", 2)
        with running.client(client_id="filler") as client:
            for _ in range(3):
                produce(client, b"a", b"b")
            commit(client, GROUP, 0, offset=2)
            commit(client, "other", 1, offset=0)
        yield running


def produce(client: WireClient, *values: bytes, number: int = 0) -> None:
    part = {"index": number, "records": batch(0, values)}
    response = client.call(
        ApiKey.PRODUCE,
        9,
        transactional_id=None,
        acks=-1,
        timeout=10_000,
        topic_data=[{"name": "t", "partition_data": [part]}],
    )
    assert response.responses[0].partition_responses[0].error_code == ErrorCode.NONE


def commit(client: WireClient, group: str, number: int, *, offset: int) -> None:
    """Commit an offset without a member."""
    client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group])
    part = {"partition_index": number, "committed_offset": offset}
    while True:
        response = client.call(ApiKey.OFFSET_COMMIT, 8, group_id=group, topics=[{"name": "t", "partitions": [part]}])
        code = response.topics[0].partitions[0].error_code
        if code not in (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
            break
    assert code == ErrorCode.NONE


def test_every_report_is_json_without_nan_and_quick(home: ReportedHome) -> None:
    for name in REPORTS:
        begun_s = time.perf_counter()
        report = home.report(name)
        assert time.perf_counter() - begun_s < 60
        assert report["is_complete"], name
        assert json.loads(json.dumps(report, allow_nan=False)) is not None
    with pytest.raises(ConfigError, match="there is no report nothing"):
        home.report("nothing")


def test_the_node(home: ReportedHome) -> None:
    report = home.report("node")
    assert report["node_id"] == 1
    assert report["roles"] == ["broker", "controller"]
    assert (report["state"], report["version"]) == ("RUNNING", __version__)
    assert (report["metadata"], report["controller_id"]) == ("KRaft", 1)
    assert report["controller_epoch"] == home.call(lambda: home.server.quorum_controller.quorum.epoch)
    assert report["broker_epoch"] == home.call(lambda: home.server.metadata.broker_epoch)
    assert report["cluster_id"] == home.server.metadata.image.cluster_id
    assert report["started_ms"] == STARTED_MS
    assert report["memory_bytes"] > 10_000_000
    (listener,) = home.rows("listeners")
    assert (listener["listener"], listener["address"]) == ("PLAINTEXT", f"127.0.0.1:{home.port}")


def test_connections_by_client_and_state(home: ReportedHome) -> None:
    with home.client(client_id="reader-7") as reader, home.client(client_id="writer-7") as writer:
        produce(writer, b"x", number=1)
        end = home.call(lambda: home.server.replicas.partition(TopicPartition("t", 1)).log.end_offset)
        part = {"partition": 0, "fetch_offset": end, "partition_max_bytes": 1000}
        parts = [{"topic": "t", "partitions": [part | {"partition": 1}]}]
        number = reader.send(ApiKey.FETCH, 4, replica_id=-1, max_wait=30_000, min_bytes=1, topics=parts)
        home.wait_for(lambda: any(len(one.purgatory) for one in home.server.replicas.partitions()))
        report = home.report("connections", name="-7")
        first, second = report["rows"]
        assert (first["client_id"], first["state"], first["last_api"]) == ("reader-7", "working", "Fetch")
        assert first["in_flight"] == 1
        assert first["waiting_ms"] is not None
        assert (second["client_id"], second["state"], second["last_api"]) == ("writer-7", "reading", "Produce")
        assert second["requests"] == 1
        assert second["bytes_in"] > second["bytes_out"] > 0
        assert second["client"] == "{}:{}".format(*writer.socket.getsockname())
        assert report["open"] >= 2
        (delayed,) = home.rows("purgatories")
        assert (delayed["topic"], delayed["partition"], delayed["others"]) == ("t", 1, 1)
        produce(writer, b"y", number=1)
        reader.receive(ApiKey.FETCH, 4, number)
        assert home.report("purgatories")["total"] == 0


def test_requests_are_those_of_the_metrics(home: ReportedHome) -> None:
    counts = home.call(lambda: home.server.server_metrics.counts())
    rows = {row["api"]: row for row in home.rows("requests")}
    assert {api.title: sum(versions.values()) for api, versions in counts.items()} == {
        name: row["count"] for name, row in rows.items()
    }
    assert rows["Produce"]["versions"] == [9]
    assert rows["Produce"]["last_minute"] == rows["Produce"]["count"]
    assert 0 < rows["Produce"]["total_mean_ms"] <= rows["Produce"]["total_max_ms"]


def test_refused_requests_are_counted_by_error(home: ReportedHome) -> None:
    with home.client() as client:
        response = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id="", member_id="m", member_epoch=0)
    assert response.error_code != ErrorCode.NONE
    row = next(row for row in home.rows("requests") if row["api"] == "ConsumerGroupHeartbeat")
    assert row["errors"] == 1
    assert row["errors_by_code"] == {ErrorCode(response.error_code).name: 1}


def test_the_lag_of_groups_counts_to_the_high_watermark(home: ReportedHome) -> None:
    report = home.report("groups")
    rows = {row["group"]: row for row in report["rows"]}
    end = home.call(lambda: home.server.replicas.partition(TopicPartition("t", 0)).high_watermark)
    assert rows[GROUP]["lag"] == rows[GROUP]["largest_lag"] == end - 2
    assert (rows[GROUP]["type"], rows[GROUP]["state"], rows[GROUP]["members"]) == ("classic", "Empty", 0)
    first = report["partitions"]["rows"][0]
    assert (first["group"], first["topic"], first["partition"]) == (GROUP, "t", 0)
    assert (first["committed"], first["end"], first["lag"]) == (2, end, end - 2)
    assert report["groups"] == 2
    assert {shard["state"] for shard in report["shards"]} == {"active"}
    assert [row["group"] for row in home.rows("groups", name="OTHER")] == ["other"]


def test_a_partition_that_is_not_here_has_no_lag(home: ReportedHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home.server.replicas, "find", lambda _name: None)
    report = home.report("groups", name="other")
    (row,) = report["rows"]
    assert (row["offsets"], row["unknown"], row["lag"]) == (1, 1, None)
    (partition,) = report["partitions"]["rows"]
    assert (partition["lag"], partition["end"], partition["log_dir"]) == (None, None, None)


def test_an_offset_of_an_earlier_topic_with_the_name_has_no_lag(
    home: ReportedHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert home.rows("groups", name="other")[0]["lag"] is not None
    monkeypatch.setattr(home.server.replicas.partition(TopicPartition("t", 1)), "topic_id", uuid.uuid4())
    (row,) = home.rows("groups", name="other")
    assert (row["unknown"], row["lag"]) == (1, None)


def test_tasks_have_their_periods_and_next_runs(home: ReportedHome) -> None:
    rows = {row["name"]: row for row in home.rows("tasks")}
    retention = rows["kafka-log-retention"]
    assert retention["period_ms"] == home.server.config.number("log.retention.check.interval.ms")
    assert 0 < retention["next_in_ms"] <= 30_000
    assert rows["kafka-log-flusher"]["period_ms"] is None, "its period is 292 million years"


def test_log_directories_and_the_cleaner(home: ReportedHome) -> None:
    (row,) = home.rows("log_dirs")
    assert row["state"] == "online"
    assert row["logs"] == len(home.server.logs.all_logs())
    cleaner = home.report("cleaner")
    assert cleaner["is_on"]
    assert [thread["state"] for thread in cleaner["rows"]] == ["alive"]
    state = home.server.logs.cleaner.state  # type: ignore[union-attr] # it is on
    with state.paused(TopicPartition("t", 0)):
        (paused,) = home.report("cleaner")["logs"]["rows"]
    assert (paused["topic"], paused["partition"], paused["state"]) == ("t", 0, "paused 1 times")


def test_a_report_takes_no_lock_of_the_log_manager_or_the_cleaner(home: ReportedHome) -> None:
    """Their holders may plan all logs for seconds, and the event loop must not wait for them."""
    manager = home.server.logs
    assert manager.cleaner is not None
    with manager._mutex, manager.cleaner.state._changed:
        for name in REPORTS:
            home.report(name)


def test_quotas_in_force_and_the_throttled_clients(home: ReportedHome) -> None:
    entity = [{"entity_type": "client-id", "entity_name": "greedy"}]
    with home.client(client_id="greedy") as client:
        change = {"key": PRODUCER_BYTE_RATE, "value": 100.0}
        client.call(ApiKey.ALTER_CLIENT_QUOTAS, entries=[{"entity": entity, "ops": [change]}], validate_only=False)
        home.wait_for(lambda: home.server.quotas.is_on)
        produce(client, b"v" * 2000, number=1)
        home.wait_for(lambda: any(one.state == "throttled" for one in home.server.listeners[0].connections))
        (connection,) = home.rows("connections", name="greedy")
        assert connection["state"] == "throttled"
    assert home.rows("quotas") == [{"entity": "client-id greedy", "quota": PRODUCER_BYTE_RATE, "limit": 100.0}]
    report = home.report("throttled")
    assert report["is_on"]
    row = report["rows"][0]
    assert (row["quota"], row["client_id"], row["limit"]) == (PRODUCER_BYTE_RATE, "greedy", 100.0)
    assert row["longest_throttle_ms"] > 0
    produced = next(row for row in home.rows("requests") if row["api"] == "Produce")
    assert produced["throttled"] == 1


def test_partitions_without_followers_are_only_counted(home: ReportedHome) -> None:
    report = home.report("partitions")
    partitions = home.call(lambda: list(home.server.replicas.partitions()))
    assert report["counts"]["partitions"] == report["counts"]["led"] == len(partitions)
    assert report["total"] == 0
    assert home.rows("fetchers") == []


def test_few_rows_and_all_counted(home: ReportedHome) -> None:
    report = home.report("metrics", most=2)
    assert len(report["rows"]) == 2 < report["total"]


def test_a_node_that_has_not_started_has_reports(tmp_path: Path) -> None:
    home = ReportedHome(tmp_path)
    try:
        home.call(home._made)
        for name in REPORTS:
            assert home.report(name)["is_complete"]
    finally:
        home.close()
