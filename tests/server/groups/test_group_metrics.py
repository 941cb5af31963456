"""The metrics of a broker's group coordinator: groups by state, offsets and recent events."""

from __future__ import annotations

import time

import pytest

from real_kafka.java import run_java
from server.groups.group_broker import GroupBroker
from server.groups.shard_harness import GROUP, Replies, ShardHarness
from tidelog.model import TidelogError, TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.server.groups.classic.member_requests import MemberClaim
from tidelog.server.groups.group_metrics import METRICS
from tidelog.server.groups.offsets.commit_rules import CommitClaim
from tidelog.server.groups.offsets.commits import OffsetToCommit

TYPES = ("group-coordinator-metrics", "GroupMetadataManager")
NOT_HERE = ("share-", "streams-", "event-", "batch-", "background-", "thread-idle-")
"""Metrics of unsupported group types, and of the queue and threads that only Kafka's coordinator has."""
HOUR_MINUTES = 60


def reported(groups: GroupBroker) -> dict[str, float]:
    """Return the metrics by name and tags."""
    return {
        ",".join((sample.name.name, *(value for _, value in sample.name.tags))): sample.values["Value"]
        for sample in groups.harness.broker.metrics.samples()
        if sample.name.type in TYPES
    }


def counted(groups: GroupBroker) -> dict[str, float]:
    """Return the metrics that are not zero, without rates and times."""
    return {
        name: value for name, value in reported(groups).items() if value and "-rate" not in name and "time" not in name
    }


def test_nothing_is_told_before_there_is_a_coordinator(groups: GroupBroker) -> None:
    assert not reported(groups)


def test_groups_offsets_and_partitions_are_counted(groups: GroupBroker) -> None:
    groups.make_topic()
    member, generation = groups.stable_member()
    assert groups.commit(5, generation_id_or_member_epoch=generation, member_id=member) == 0
    assert groups.commit(6, group_id="alone") == 0
    assert groups.beat("m", 0).error_code == 0
    assert counted(groups) == {
        "group-count,classic": 2,
        "group-count,consumer": 1,
        "consumer-group-count,Stable": 1,
        "num-partitions,active": 4,
        "offset-commit-count": 2,
        "group-completed-rebalance-count": 1,
        "consumer-group-rebalance-count": 1,
        "NumGroups": 2,
        "NumGroupsStable": 1,
        "NumGroupsEmpty": 1,
        "NumOffsets": 2,
        "classic-group-count,Stable": 1,
        "classic-group-count,Empty": 1,
        "offset-count": 2,
    }
    assert 0 < reported(groups)["offset-commit-rate"] <= 2 / 30


def test_deleted_offsets_are_counted(groups: GroupBroker) -> None:
    groups.make_topic()
    groups.find()
    assert groups.commit(6) == 0
    topics = [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 1}]}]
    assert groups.client.call(ApiKey.OFFSET_DELETE, group_id="g", topics=topics).error_code == 0
    values = reported(groups)
    assert (values["offset-deletion-count"], values["NumOffsets"]) == (1, 0)


def test_expired_offsets_are_counted() -> None:
    harness = ShardHarness(offsets_retention_minutes=HOUR_MINUTES)
    harness.shard.resume()
    offsets = [OffsetToCommit(TopicPartition("t", number), 5) for number in range(3)]
    nobody = MemberClaim(group_id=GROUP, member_id="", generation_id=-1, instance_id=None)
    harness.shard.commits.commit(CommitClaim(member=nobody, version=9), offsets, Replies())
    harness.wait(2 * HOUR_MINUTES * 60_000)
    counts = harness.shard.context.counts
    assert (counts.commits.count, counts.expirations.count) == (3, 3)
    assert harness.shard.offsets.count == 0


def test_a_partition_that_cannot_be_read_has_failed(groups: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    groups.find()

    def failed_load(*_given: object, **_options: object) -> None:
        raise TidelogError("unreadable")

    groups.make_topic()
    assert groups.commit(1) == 0
    monkeypatch.setattr("tidelog.server.groups.owned_shard.load_log", failed_load)
    groups.restart(waits=False)
    while (values := reported(groups)).get("num-partitions,loading", 1):
        time.sleep(0.01)
    assert (values["num-partitions,failed"], values["num-partitions,active"]) == (1, 3)


def test_every_metric_in_the_table_is_reported_until_the_end(groups: GroupBroker) -> None:
    groups.find()
    assert {name.partition(",")[0] for name in reported(groups)} == {one.name for one in METRICS}
    groups.harness.stop()
    assert not reported(groups)


@pytest.mark.kafka
def test_names_and_tags_are_kafkas(groups: GroupBroker) -> None:
    theirs = set(run_java("GroupMetrics").splitlines())
    groups.find()
    ours = {str(sample.name) for sample in groups.harness.broker.metrics.samples() if sample.name.type in TYPES}
    assert ours - theirs == set()
    left = [name for name in theirs - ours if not any(f"name={word}" in name for word in NOT_HERE)]
    assert sorted(left) == [
        "kafka.server:type=group-coordinator-metrics,name=consumer-group-count,state=Dead",
        "kafka.server:type=group-coordinator-metrics,name=group-count,protocol=share",
        "kafka.server:type=group-coordinator-metrics,name=group-count,protocol=streams",
    ]
