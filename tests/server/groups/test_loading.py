"""Loading a partition of ``__consumer_offsets``: in chunks, with every codec, with invalid records, during requests."""

from __future__ import annotations

import logging
import threading
from functools import partial
from pathlib import Path

import pytest

from server.groups.group_broker import GroupBroker, group_broker
from tidelog.model import TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.record.build import build_batch
from tidelog.record.rows import columns_from_lists
from tidelog.server.groups.owned_shard import load_log
from tidelog.server.groups.records.replay import Replay
from tidelog.server.replicas.partition import Partition
from tidelog.storage.producer import AppendOrigin

COUNT = 120


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_what_was_written_in_any_codec_is_read_in_chunks(tmp_path: Path, codec: int) -> None:
    settings = {"offsets_topic_compression_codec": str(codec), "offsets_load_buffer_size": "500"}
    with group_broker(tmp_path / "data", **settings) as groups:
        groups.make_topic()
        groups.find()
        for number in range(COUNT):
            assert groups.commit(number, group_id=f"g{number % 7}") == 0
        groups.restart()
        found = [groups.fetch(f"g{number}").committed_offset for number in range(7)]
        assert found == [max(one for one in range(COUNT) if one % 7 == number) for number in range(7)]


def test_records_that_nobody_can_read_cost_nothing_but_themselves(
    groups: GroupBroker, caplog: pytest.LogCaptureFixture
) -> None:
    groups.make_topic()
    groups.find()
    groups.commit(1)
    keep_records_without_keys(groups)
    for key in (b"", b"\0", b"\0\1\0\x07short", b"\0\x63unknown", None):
        batch = bytearray(build_batch(columns_from_lists([b"\0\4value"], keys=[key])))
        groups.harness.call(partial(append, groups, batch))
    groups.commit(2)
    with caplog.at_level(logging.WARNING):
        groups.restart()
    assert groups.fetch().committed_offset == 2
    assert caplog.text.count("has an unknown type") == 2
    assert groups.commit(3) == 0


def test_while_it_is_read_clients_are_told_to_wait(groups: GroupBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    groups.make_topic()
    member_id, generation = groups.stable_member()
    goes_on, is_reading = threading.Event(), threading.Event()

    def slow_load(log: object, replay: Replay, **options: object) -> None:
        is_reading.set()
        assert goes_on.wait(60)
        load_log(log, replay, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("tidelog.server.groups.owned_shard.load_log", slow_load)
    groups.restart(waits=False)
    assert is_reading.wait(60)
    who = {"group_id": "g", "member_id": member_id, "generation_id": generation}
    assert groups.commit(1) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert groups.join().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert groups.client.call(ApiKey.LIST_GROUPS).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert groups.client.call(ApiKey.HEARTBEAT, **who).error_code == 0, "a heartbeat has time"
    goes_on.set()
    while groups.client.call(ApiKey.LIST_GROUPS).error_code:
        pass
    assert (
        groups.client.call(ApiKey.HEARTBEAT, **{**who, "generation_id": 9}).error_code == ErrorCode.ILLEGAL_GENERATION
    )


def test_a_partition_that_is_lost_and_led_again_is_read_again(groups: GroupBroker) -> None:
    groups.make_topic()
    groups.find()
    groups.commit(1)
    coordinator = groups.harness.broker.groups
    number = groups.harness.call(lambda: coordinator.partition_of("g"))
    groups.harness.call(lambda: coordinator.resigned(number))
    assert groups.commit(2) == ErrorCode.NOT_COORDINATOR
    groups.harness.call(lambda: coordinator.elected(number, 9))
    groups.wait_for_groups()
    assert groups.commit(3) == 0
    assert groups.fetch().committed_offset == 3


def keep_records_without_keys(groups: GroupBroker) -> None:
    """Set another cleanup policy: a compacted topic refuses records without a key."""
    policy = {"name": "cleanup.policy", "config_operation": 0, "value": "delete"}
    resources = [{"resource_type": 2, "resource_name": "__consumer_offsets", "configs": [policy]}]
    answer = groups.client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, resources=resources)
    assert answer.responses[0].error_code == 0


def append(groups: GroupBroker, batch: bytearray) -> None:
    partition(groups).append(batch, origin=AppendOrigin.COORDINATOR)


def partition(groups: GroupBroker) -> Partition:
    number = groups.harness.broker.groups.partition_of("g")
    return groups.harness.broker.replicas.partition(TopicPartition("__consumer_offsets", number))
