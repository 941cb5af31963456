"""Our broker and Kafka's have the same groups: same responses, same records. Each continues the other's groups."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from real_kafka.broker import SMALL, Broker
from server.groups.script import (
    BY_NAME,
    EMPTY_SHARE,
    SHARE,
    STREAMS,
    Script,
    classic_life,
    consumer_life,
    ids_life,
    make_unserved_groups,
    moving_life,
    regex_life,
    unserved_life,
)
from server.harness import WireClient, running_broker
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode

pytestmark = pytest.mark.kafka

SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.assignor.offload.enable": "false",
}
"""Settings that give a consumer group's member its assignment with the first heartbeat."""


@contextmanager
def kafka(directory: Path) -> Iterator[WireClient]:
    is_new = not directory.exists()
    with Broker(directory, work=directory.parent / "work", properties=SETTINGS) as broker:
        if is_new:
            broker.format()
        broker.start()
        with WireClient(int(broker.bootstrap.rpartition(":")[2])) as client:
            yield client
        broker.stop()


@contextmanager
def ours(directory: Path) -> Iterator[WireClient]:
    settings = {key.replace(".", "_"): text for key, text in {**SMALL, **SETTINGS}.items()}
    places = {"controller_quorum_voters": "1@127.0.0.1:2"}
    with running_broker(directory, **settings, **places) as harness, harness.client() as client:
        yield client


def make_topic(client: WireClient) -> None:
    made = client.call(ApiKey.CREATE_TOPICS, topics=[{"name": "t", "num_partitions": 2, "replication_factor": 1}])
    assert made.topics[0].error_code == 0


def test_answers_and_records_are_the_same(tmp_path: Path) -> None:
    scripts: dict[str, Script] = {}
    records = {}
    for name, broker in (("kafka", kafka), ("ours", ours)):
        directory = tmp_path / name / "data"
        with broker(directory) as client:
            make_topic(client)
            scripts[name] = Script(client)
            classic_life(scripts[name])
            consumer_life(scripts[name])
            regex_life(scripts[name])
            moving_life(scripts[name])
            ids_life(scripts[name])
        records[name] = scripts[name].records(directory)
    assert differing(scripts["ours"].replies, scripts["kafka"].replies) == []
    assert differing(records["ours"], records["kafka"]) == []


def differing(ours: list[Any], kafkas: list[Any]) -> list[tuple[Any, Any]]:
    return [(mine, theirs) for mine, theirs in zip_longest(ours, kafkas) if mine != theirs]


@pytest.mark.parametrize("order", [(kafka, ours, kafka), (ours, kafka, ours)], ids=["kafka first", "ours first"])
def test_groups_go_on_when_the_other_takes_the_directory_over(tmp_path: Path, order: tuple[object, ...]) -> None:
    directory = tmp_path / "data"
    with order[0](directory) as client:  # type: ignore[operator]
        make_topic(client)
        script = Script(client)
        member_id, generation = classic_life(script)
        epoch = consumer_life(script)
    for broker in order[1:]:
        with broker(directory) as client:  # type: ignore[operator]
            script = Script(client)
            script.find("c")
            who = {"group_id": "c", "member_id": member_id, "generation_id": generation}
            assert client.call(ApiKey.HEARTBEAT, **who).error_code == 0
            beat = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, group_id="k", member_id="m1", member_epoch=epoch)
            assert (beat.error_code, beat.member_epoch) == (0, epoch)
            asked = [{"group_id": name, "topics": [{"name": "t", "partition_indexes": [0]}]} for name in ("c", "k")]
            found = client.call(ApiKey.OFFSET_FETCH, BY_NAME, groups=asked).groups
            assert [group.topics[0].partitions[0].committed_offset for group in found] == [5, 5]


def test_share_and_streams_groups_stay_what_they_are(tmp_path: Path) -> None:
    """Our broker responds to other protocols' requests as Kafka does. Kafka then loads its groups again."""
    made, replies = tmp_path / "made" / "data", {}
    with kafka(made) as client:
        make_topic(client)
        make_unserved_groups(Script(client))
    for name, broker in (("kafka", kafka), ("ours", ours)):
        directory = tmp_path / name / "data"
        copytree(made, directory)
        with broker(directory) as client:
            script = Script(client)
            unserved_life(script)
            replies[name] = script.replies
    assert differing(replies["ours"], replies["kafka"]) == []
    with ours(directory) as client:
        Script(client).find(EMPTY_SHARE)
        (answer,) = client.call(ApiKey.DELETE_GROUPS, groups_names=[EMPTY_SHARE]).results
        assert answer.error_code == ErrorCode.GROUP_DELETION_FAILED
    with kafka(directory) as client:
        Script(client).find(SHARE)
        listed = {group.group_id: group.group_type for group in client.call(ApiKey.LIST_GROUPS).groups}
        assert listed == {SHARE: "share", EMPTY_SHARE: "share", STREAMS: "streams"}
