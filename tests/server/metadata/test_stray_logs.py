"""Logs of partitions that the metadata does not assign to this broker."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from log_maker import plain
from server.metadata.images import TOPIC_ID, image_of, partition_of, with_topic
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.server.replicas.replica_manager import is_stray
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    """Open ``t-1``, which has no topic id."""
    request = OpenRequest(
        fs=LOCAL, directory=tmp_path / "t-1", clock=SYSTEM_CLOCK, config=LogConfig(), clean_shutdown=True
    )
    opened = PartitionLog.open(request)
    yield opened
    opened.close()


class TestWithoutATopicId:
    def test_an_empty_one_belongs_to_the_topic_of_its_name(self, log: PartitionLog) -> None:
        image = with_topic(image_of((1, 2)), partition_of((2,)), partition_of((1,)))
        assert not is_stray(image, 1, log)
        assert is_stray(image, 2, log)
        assert is_stray(image_of(), 1, log)

    def test_one_with_records_is_stray(self, log: PartitionLog) -> None:
        log.append(bytearray(plain(0, 1)))
        assert is_stray(with_topic(image_of(), partition_of((1,)), partition_of((1,))), 1, log)

    def test_one_with_records_of_a_broker_with_zookeeper_is_older_than_ids(self, log: PartitionLog) -> None:
        log.append(bytearray(plain(0, 1)))
        image = with_topic(image_of(), partition_of((1,)), partition_of((1,), leader_epoch=1))
        assert not is_stray(image, 1, log, is_with_zookeeper=True)
        log.begin_epoch(2)
        assert is_stray(image, 1, log, is_with_zookeeper=True)

    def test_one_whose_epochs_are_ahead_is_another_topics(self, log: PartitionLog) -> None:
        log.begin_epoch(2)
        image = with_topic(image_of(), partition_of((1,)), partition_of((1,), leader_epoch=1))
        assert is_stray(image, 1, log)
        log.begin_epoch(3)
        image = with_topic(image_of(), partition_of((1,)), partition_of((1,), leader_epoch=3))
        assert not is_stray(image, 1, log)


def test_one_of_a_topic_that_is_not_there(log: PartitionLog) -> None:
    log.assign_topic_id(TOPIC_ID)
    assert is_stray(image_of(), 1, log)


def test_one_of_another_topic_of_the_name(log: PartitionLog) -> None:
    log.assign_topic_id(uuid.UUID(int=5000))
    assert is_stray(with_topic(image_of(), partition_of((1,)), partition_of((1,))), 1, log)


def test_one_of_a_partition_that_is_not_there(log: PartitionLog) -> None:
    log.assign_topic_id(TOPIC_ID)
    assert is_stray(with_topic(image_of(), partition_of((1,))), 1, log)


def test_one_whose_replicas_are_elsewhere(log: PartitionLog) -> None:
    log.assign_topic_id(TOPIC_ID)
    image = with_topic(image_of((1, 2)), partition_of((1,)), partition_of((2,)))
    assert is_stray(image, 1, log)
    assert not is_stray(image, 2, log)
