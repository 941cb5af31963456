"""A leader that was killed after DeleteRecords, and the comparison of its copy.

The leader writes its leader epoch cache at once, but its log start only once a minute. So after the kill the log starts
before the cache.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import OffsetSpec

from real_kafka.broker import PATIENCE_S, Broker
from real_kafka.copy_comparison import SourcePartition, partition_differences
from real_kafka.mirror_process import MirrorProcess
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, EpochEntry, LeaderEpochCheckpoint
from tidelog.storage.fs import LOCAL

pytestmark = pytest.mark.kafka

RECORDS = 40
TRIMMED_TO = 30


def test_the_copy_has_the_epochs_that_a_killed_leader_forgot(tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "t-0"
    with Broker(tmp_path / "data", work=tmp_path / "work") as broker:
        broker.format()
        broker.start()
        broker.create_topic("t")
        produce(broker.bootstrap)
        partition = broker.directory / "t-0"
        broker.delete_records("t", 0, TRIMMED_TO)
        wait_for_first_epoch(partition, TRIMMED_TO)
        broker.kill()
        broker.start()
        place = KafkaPartition("t", 0)
        log_start = broker.admin.list_offsets({place: OffsetSpec.earliest()})[place].result(PATIENCE_S).offset
        with MirrorProcess(copy.parent, broker.bootstrap) as mirror:
            assert mirror.run_once() == 0, mirror.events
    assert (log_start, epochs(partition)[0].start_offset) == (0, TRIMMED_TO)
    assert epochs(copy) == [EpochEntry(0, 0)]
    source = SourcePartition(directory=partition, log_start=log_start, high_watermark=RECORDS)
    assert [*partition_differences(copy, source)] == []
    LeaderEpochCheckpoint.write(LOCAL, copy / LEADER_EPOCH_CHECKPOINT, [EpochEntry(0, TRIMMED_TO)])
    assert [*partition_differences(copy, source)] == ["epochs {0: 30} instead of {0: 0}"]


def produce(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 2, "batch.num.messages": 10})
    for number in range(RECORDS):
        producer.produce("t", b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0


def wait_for_first_epoch(partition: Path, start_offset: int) -> None:
    """Return when the leader has written its cache. It does it in another thread than DeleteRecords."""
    deadline = time.monotonic() + PATIENCE_S
    while epochs(partition)[0].start_offset != start_offset:
        assert time.monotonic() < deadline, epochs(partition)
        time.sleep(0.02)


def epochs(partition: Path) -> list[EpochEntry]:
    return [*LeaderEpochCheckpoint.read(LOCAL, partition / LEADER_EPOCH_CHECKPOINT)]
